"""One run of the hourly usage job: the child process and its files. Knows nothing of the database."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from messaging.settings import Settings
from spark_jobs.config import (
    Progress,
    Request,
    Result,
    inputs_path,
    load_directory,
    progress_from,
    progress_path,
    result_from,
    run_directory,
    write_json,
)
from spark_jobs.death import memory_limit
from spark_jobs.engine import on_this_machine, spark_installed

NEEDS_SPARK = (
    'spark_master = "{master}" needs Spark, which is not installed: pip install "magnetar[spark]" (in a checkout: make setup); '
    "usage is kept and will be computed then"
)
COMMAND = (sys.executable, "-P", "-m", "spark_jobs.hourly_usage")
POLL_S = 0.25
_END_S = 5.0
# What the job's process may see of our environment: enough to find Java and a place for temporary files, no secrets.
_KEPT_VARIABLES = (
    "PATH",
    "HOME",
    "JAVA_HOME",
    "TMPDIR",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "SPARK_CONF_DIR",
)


class RunFailed(Exception):
    """The run published nothing; the message says why."""


class RunDied(RunFailed):
    """The engine or the job's process died in the middle. What it had read is kept: a run once more goes on from there. `memory`:
    because there was too little of it."""

    def __init__(self, message: str, memory: bool = False) -> None:
        super().__init__(message)
        self.memory = memory


class NeedsSpark(RunFailed):
    """PySpark, where the master is a cluster's, or a Java for it is missing."""


@dataclass(frozen=True)
class Current:
    """The current versions: hour -> checksum of its inputs; hour, and day, with usage -> its run."""

    inputs: Mapping[str, str] = field(default_factory=dict)
    hours: Mapping[str, str] = field(default_factory=dict)
    days: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunFiles:
    """Folders and files of one run."""

    raw: Path
    hours: Path
    cache: Path
    request: Path
    result: Path
    log: Path

    @classmethod
    def of(cls, settings: Settings, run_id: str) -> RunFiles:
        data = settings.data_path.absolute()
        runs = data / "cache" / "usage-runs"
        for folder in (data / "usage" / "raw", data / "usage" / "hours", runs, data / "logs"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return cls(
            data / "usage" / "raw",
            data / "usage" / "hours",
            data / "cache",
            runs / f"{run_id}.request.json",
            runs / f"{run_id}.result.json",
            data / "logs" / "usage-job.log",
        )


def run_job(
    settings: Settings,
    run_id: str,
    now_ms: int,
    current: Current,
    keep_going: Callable[[], None],
    report: Callable[[Progress], None] = lambda progress: None,
    master: str = "",
) -> Result:
    """Runs the job to its end and returns its result. Blocks for up to `usage_job_timeout_s`.

    `keep_going` is called a few times a second, and `report` when there is news; what they raise ends the job. `current`:
    the versions there are. `master`: another than the setting. The caller lets only one run at a time, and removes the run's
    load directory when it has read it. Raises `RunFailed`; nothing of a failed run is left but log, quarantine and partial sums.
    """
    master = master or settings.spark_master
    if not on_this_machine(master) and not spark_installed():
        raise NeedsSpark(NEEDS_SPARK.format(master=master))
    files = RunFiles.of(settings, run_id)
    _sweep(files)
    request = Request(
        run_id=run_id,
        raw_directory=str(files.raw),
        output_directory=str(files.hours),
        cache_directory=str(files.cache),
        now_ms=now_ms,
        known=dict(current.inputs),
        current_hours=dict(current.hours),
        current_days=dict(current.days),
        master=master,
        spark_rows_min=settings.spark_rows_min,
        driver_memory=settings.spark_driver_memory,
        lookback_days=settings.usage_lookback_days,
        java_home=settings.java_home,
    )
    write_json(request, files.request)
    try:
        code = _run_child(files, settings.usage_job_timeout_s, keep_going, report)
        try:
            result = result_from(files.result)
        except ValueError as error:
            if code < 0:
                raise RunDied(_killed(-code)) from None
            raise RunFailed(f"the job exited with code {code}: {error}; see logs/usage-job.log") from None
        if result.needs_spark:
            raise NeedsSpark(result.error)
        if result.died:
            raise RunDied(f"{result.error}; see logs/usage-job.log", result.memory)
        if result.error or code:
            raise RunFailed(f"{result.error or f'the job exited with code {code}'}; see logs/usage-job.log")
        return result
    except BaseException:
        shutil.rmtree(run_directory(files.hours, run_id), ignore_errors=True)
        shutil.rmtree(load_directory(files.hours, run_id), ignore_errors=True)
        inputs_path(files.hours, run_id).unlink(missing_ok=True)
        raise
    finally:
        files.request.unlink(missing_ok=True)
        files.result.unlink(missing_ok=True)
        progress_path(files.result).unlink(missing_ok=True)


def _killed(number: int) -> str:
    why = f"the limit of memory is {memory_limit()}" if number == signal.SIGKILL else "from outside"
    return f"the job was killed by signal {number} ({signal.Signals(number).name}): {why}; see logs/usage-job.log"


def _run_child(files: RunFiles, timeout_s: float, keep_going: Callable[[], None], report: Callable[[Progress], None]) -> int:
    environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    with files.log.open("wb") as log:
        child = subprocess.Popen(
            [*COMMAND, str(files.request), str(files.result)],
            stdin=subprocess.PIPE,  # held open for as long as this process lives; the job ends when it closes
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=files.cache,
            start_new_session=True,
        )
    assert child.stdin is not None
    try:
        waited_s = 0.0
        last = None
        while True:
            try:
                return child.wait(POLL_S)
            except subprocess.TimeoutExpired:
                waited_s += POLL_S
            if waited_s >= timeout_s:
                raise RunFailed(f"the job did not end within usage_job_timeout_s = {timeout_s:g} s and was stopped")
            keep_going()
            progress = progress_from(progress_path(files.result))
            if progress is not None and progress != last:
                last = progress
                report(progress)
    finally:
        child.stdin.close()
        try:
            child.wait(_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _sweep(files: RunFiles) -> None:
    """What killed runs left in the cache. Only one run is under way at a time, and it is this one."""
    for path in (*files.cache.glob("spark-*"), *files.hours.glob(load_directory("", "*").name)):
        shutil.rmtree(path, ignore_errors=True)
    for path in files.request.parent.iterdir():
        path.unlink(missing_ok=True)
