"""The Spark engine of a job: tasks go to its workers, which are Python processes; no record passes through Java."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from pyspark.sql import SparkSession

from spark_jobs.java import Java

T = TypeVar("T")
R = TypeVar("R")
# Each task has one thread; libraries that would start one for each core are told so before they are loaded.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}


class SparkEngine:
    """Implements `compute.Engine`."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext

    def run(self, what: str, work: Callable[[T], R], items: Sequence[T], rows: int) -> list[R]:
        if not items:
            return []
        self._context.setJobDescription(f"{what}: {len(items)} tasks, {rows} rows")
        return list(self._context.parallelize(items, len(items)).map(work).collect())


def start_session(java: Java, master: str, work_directory: Path, driver_memory: str) -> SparkSession:
    """Blocks for 5 to 20 s. `work_directory`: for spilled data; the caller removes it. Listens on 127.0.0.1 unless the master is
    a remote one."""
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ.update(_ONE_THREAD)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master(master)
        .appName("magnetar-usage")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", driver_memory)
        .config("spark.local.dir", str(work_directory))
        .config("spark.sql.warehouse.dir", str(work_directory / "warehouse"))
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.python.worker.reuse", "true")
        .config("spark.rdd.compress", "true")
    )
    for name, value in _ONE_THREAD.items():
        builder = builder.config(f"spark.executorEnv.{name}", value)
    local = master.startswith("local")
    if local:
        # This machine's name may resolve to an address that does not answer; nothing outside needs to reach the driver.
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    if not local:
        session.sparkContext.addPyFile(str(ship(work_directory)))
    return session


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
