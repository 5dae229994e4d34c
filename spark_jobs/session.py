"""The Spark engine of a job: tasks go to its workers, which are Python processes; no record passes through Java."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError

from spark_jobs.config import Progress, Request
from spark_jobs.death import Died, why_java_died, why_worker_died
from spark_jobs.java import Java

T = TypeVar("T")
R = TypeVar("R")
PROGRESS_S = 0.5
JAVA_END_S = 2.0  # until a Java that is about to die has
WORKER_DIED = "Python worker exited unexpectedly"
FAILURES_MAX = 4  # of one task, as on a cluster: a worker process that died is replaced, and its task done again
# Java hands out tasks for some seconds, and works on none of them: what takes long to compile or to collect never pays off.
_JAVA_OPTIONS = ("-XX:+ExitOnOutOfMemoryError", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# Each task has one thread; libraries that would start one for each core are told so before they are loaded.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}


class SparkEngine:
    """Implements `engine.RunningEngine`. `report` is called while tasks run, from another thread."""

    def __init__(self, context: SparkContext, report: Callable[[Progress], None] = lambda progress: None) -> None:
        self._context = context
        self._java = getattr(self._context._gateway, "proc", None)
        self._report = report

    @property
    def cores(self) -> int:
        return int(self._context.defaultParallelism)

    @property
    def version(self) -> str:
        return str(self._context.version)

    def stop(self) -> None:
        self._context.stop()

    def run(self, what: str, work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
        if not items:
            return []
        start = time.monotonic()
        self._report(Progress(what, len(items), 0, rows, 0.0))
        self._context.setJobDescription(f"{what}: {len(items)} tasks, {rows} rows")
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(done, what, len(items), rows, start), daemon=True)
        watcher.start()
        try:
            results = list(self._context.parallelize(items, len(items)).map(work).collect())
        finally:
            done.set()
            watcher.join()
        self._report(Progress(what, len(items), len(items), rows, time.monotonic() - start))
        return results

    def why_it_failed(self, error: Exception, request: Request, kills_before: int) -> Exception:
        """`error`, or what is behind it: a Java, or a worker's process, that died."""
        code = None
        if self._java is not None:
            try:
                code = self._java.wait(JAVA_END_S)
            except subprocess.TimeoutExpired:
                code = None
        if code is not None:
            return why_java_died(code, request.driver_memory, kills_before, request.master)
        if WORKER_DIED in str(error):
            return why_worker_died(kills_before, request.master)
        return error

    def _watch(self, done: threading.Event, what: str, tasks: int, rows: int, start: float) -> None:
        tracker = self._context.statusTracker()
        last = 0
        while not done.wait(PROGRESS_S):
            try:
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except Exception:  # Java is gone: whoever waits for the tasks hears of it
                return
            finished = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            if finished > last:
                last = finished
                self._report(Progress(what, tasks, finished, rows, time.monotonic() - start))


def start_context(java: Java, master: str, work_directory: Path, driver_memory: str) -> SparkContext:
    """Blocks for 5 to 20 s. `work_directory`: for spilled data; the caller removes it. Listens on 127.0.0.1 unless the master is
    a remote one."""
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.update(_ONE_THREAD)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": driver_memory,
        "spark.executor.memory": driver_memory,
        "spark.driver.extraJavaOptions": " ".join(_JAVA_OPTIONS),
        "spark.local.dir": str(work_directory),
        "spark.python.worker.reuse": "true",
        "spark.task.maxFailures": str(FAILURES_MAX),
        **{f"spark.executorEnv.{name}": value for name, value in _ONE_THREAD.items()},
    }
    local = master.startswith("local")
    if local or "//127.0.0.1" in master:
        # This machine's name may resolve to an address that does not answer; nothing outside needs to reach the driver.
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    conf = SparkConf().setMaster(with_failures(master)).setAppName("magnetar-usage").setAll(list(settings.items()))
    try:
        context = SparkContext(conf=conf)
    except PySparkRuntimeError as error:
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise Died(
                f"Java ended while it started, with a heap of {driver_memory} (the setting spark_driver_memory); see the log"
            ) from None
        raise
    context.setLogLevel("WARN")
    if not local:
        context.addPyFile(str(ship(work_directory)))
    return context


def with_failures(master: str) -> str:
    """A local master that does a failed task again, as every other does: "local[2]" would give up at the first."""
    matched = re.fullmatch(r"local(?:\[([^,\]]+)\])?", master)
    return f"local[{matched[1] or 1},{FAILURES_MAX}]" if matched else master


def ship(directory: Path) -> Path:
    """What a worker on another machine imports, as one file in `directory`; it needs Python and pyarrow besides."""
    root = Path(__file__).parent.parent
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in sorted((root / "spark_jobs").glob("*.py")):
            archive.write(path, f"spark_jobs/{path.name}")
        archive.writestr("messaging/__init__.py", "")
        archive.write(root / "messaging" / "usage_schema.py", "messaging/usage_schema.py")
    path = directory / "magnetar-usage.zip"
    path.write_bytes(data.getvalue())
    return path
