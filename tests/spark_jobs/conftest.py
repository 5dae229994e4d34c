"""The job on Spark and without: one Spark engine for all tests of a run, since a start costs ten seconds and half a gigabyte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_jobs.engine import Engine
from spark_jobs.java import choose_java
from tests.spark_jobs.job import InProcess, Job


@pytest.fixture(scope="session")
def spark_engine(spark: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    from spark_jobs.session import SparkEngine, start_context

    work = tmp_path_factory.mktemp("spark")
    java = choose_java(os.environ.get("MAGNETAR_JAVA_HOME", ""), os.environ, work)
    engine = SparkEngine(start_context(java, "local[2]", work, driver_memory="512m"))
    yield engine
    engine.stop()


@pytest.fixture
def new_job(spark: None, tmp_path: Path) -> Callable[[str], Job]:
    """Jobs whose tasks run in this process."""

    def make(name: str = "usage") -> Job:
        return Job(InProcess(), tmp_path / name)

    return make


@pytest.fixture
def job(new_job: Callable[[str], Job]) -> Job:
    return new_job("usage")


@pytest.fixture
def spark_job(spark_engine: Engine, tmp_path: Path) -> Job:
    return Job(spark_engine, tmp_path / "on spark")
