"""The Spark session of a job: deterministic, strict, and not reachable from other machines."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from spark_jobs.java import Java

FEW_ROWS = 200_000


def start_session(java: Java, master: str, work_directory: Path, driver_memory: str) -> SparkSession:
    """Blocks for 5 to 20 s. `work_directory`: for spilled data; the caller removes it. Listens on 127.0.0.1 unless the master is
    a remote one."""
    os.environ["JAVA_HOME"] = str(java.home)
    builder = (
        SparkSession.builder.master(master)
        .appName("magnetar-usage")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", driver_memory)
        .config("spark.local.dir", str(work_directory))
        .config("spark.sql.warehouse.dir", str(work_directory / "warehouse"))
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.sql.session.timeZone", "UTC")  # hours are UTC, whatever the machine's time zone
        .config("spark.sql.ansi.enabled", "true")  # an overflow fails the run instead of wrapping a bill
        .config("spark.sql.adaptive.enabled", "true")
        .config("spark.sql.adaptive.skewJoin.enabled", "true")
        .config("spark.sql.sources.partitionOverwriteMode", "dynamic")
    )
    if master.startswith("local"):
        # This machine's name may resolve to an address that does not answer; nothing outside needs to reach the driver.
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


def fit_to(session: SparkSession, rows: int, shuffle_partitions: int) -> None:
    """With few rows, compiling a query and distributing it over tasks takes longer than running it: half the time of a run on a
    laptop."""
    few = rows < FEW_ROWS
    session.conf.set("spark.sql.codegen.wholeStage", "false" if few else "true")
    session.conf.set("spark.sql.shuffle.partitions", "1" if few else str(shuffle_partitions))
