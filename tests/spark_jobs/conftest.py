"""One Spark engine for all tests of a run: a start costs ten seconds and half a gigabyte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.java import Java, choose_java
from tests.spark_jobs.job import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def engine(spark: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SparkSession, Java]]:
    from spark_jobs.session import start_session

    work = tmp_path_factory.mktemp("spark")
    java = choose_java(os.environ.get("MAGNETAR_JAVA_HOME", ""), os.environ, work)
    session = start_session(java, "local[2]", work, driver_memory="512m")
    yield session, java
    session.stop()


@pytest.fixture
def new_job(engine: tuple[SparkSession, Java], tmp_path: Path) -> Callable[[str], Job]:
    def make(name: str = "usage") -> Job:
        return Job(*engine, tmp_path / name)

    return make


@pytest.fixture
def job(new_job: Callable[[str], Job]) -> Job:
    return new_job("usage")
