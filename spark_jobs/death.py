"""Why Spark's Java died: the cause, the limit and the setting, in words. Needs no Spark."""

from __future__ import annotations

import os
import signal
from pathlib import Path

HEAP_CODE = 3  # of a Java that was told to exit when its heap is exhausted
WORKER_MIB = 400  # what the process of one task may take

_VMSTAT = Path("/proc/vmstat")
_CGROUP = Path("/sys/fs/cgroup")


class Died(Exception):
    """The engine died in the middle; what it had read is kept, and a new run goes on from there. `memory`: there was too little of
    it."""

    def __init__(self, message: str, memory: bool = False) -> None:
        super().__init__(message)
        self.memory = memory


def kernel_kills() -> int:
    """How many processes the kernel has killed since its start because memory ran out."""
    try:
        counts = dict(line.split() for line in _VMSTAT.read_text().splitlines())
        return int(counts.get("oom_kill", 0))
    except (OSError, ValueError):
        return 0


def memory_limit() -> str:
    """What this process and its children may take together, in words."""
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        if limit.isdigit():
            return f"{int(limit) >> 20} MiB, the limit of this container (memory.max)"
    except OSError:
        pass
    try:
        total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
        return f"{int(total.split()[1]) >> 10} MiB, all of this machine"
    except (OSError, StopIteration, ValueError):
        return "not known"


def why_java_died(code: int, driver_memory: str, kills_before: int, master: str) -> Died:
    """`code`: what its process ended with."""
    if code == HEAP_CODE:
        return Died(
            f"Java's heap is exhausted: its limit is {driver_memory}, the setting spark_driver_memory. It holds the names of tasks "
            "and files, and needs more for very many of them",
            memory=True,
        )
    if code == -signal.SIGKILL and kernel_kills() > kills_before:
        return Died(_killed("Java", master), memory=True)
    if code < 0:
        return Died(f"Java was killed from outside by signal {-code} ({signal.Signals(-code).name})")
    return Died(f"Java ended with code {code}")


def why_worker_died(kills_before: int, master: str) -> Died:
    """A Python worker ended again and again in the middle of a task."""
    if kernel_kills() > kills_before:
        return Died(_killed("processes of Spark's workers", master), memory=True)
    return Died("processes of Spark's workers ended in the middle of their tasks, again and again")


def _killed(what: str, master: str) -> str:
    return (
        f"the kernel killed {what} because memory ran out. The limit is {memory_limit()}. Each task takes up to {WORKER_MIB} MiB: "
        f"let fewer run at once (the setting spark_master is {master}; local[1] runs one)"
    )


def fewer_tasks(master: str, cores: int) -> str:
    """A local master with half as many tasks at once; others stay as they are."""
    if not master.startswith("local"):
        return master
    return f"local[{max(1, cores_of(master, cores) // 2)}]"


def cores_of(master: str, cores: int = 0) -> int:
    """How many tasks a local master runs at once; 1 for others, which say so themselves. `cores`: of this machine."""
    asked = master.removeprefix("local").strip("[]").partition(",")[0]
    return int(asked) if asked.isdigit() else (cores or os.cpu_count() or 1) if asked == "*" else 1
