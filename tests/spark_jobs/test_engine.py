"""Little work is done at once; the large engine is started for the first work that is more, once."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import replace

import pytest

from spark_jobs import hourly_usage
from spark_jobs.config import Progress, Request
from spark_jobs.engine import ROWS_A_TASK, LocalFirstEngine, rows_for_spark
from tests.spark_jobs.job import InProcess, Job
from tests.spark_jobs.usage_files import golden, write_all


class Large(InProcess):
    cores = 8


def engine_of(rows_min: float, started: list[Large], said: list[Progress]) -> LocalFirstEngine:
    def start() -> Large:
        started.append(Large())
        return started[-1]

    return LocalFirstEngine(start, rows_min, 2, said.append)


def test_the_large_engine_is_started_for_the_first_large_work() -> None:
    started: list[Large] = []
    said: list[Progress] = []
    engine = engine_of(10_000, started, said)
    assert engine.run("read", abs, [-1, -2], 10_000 - 2 * ROWS_A_TASK - 1) == [1, 2] and not started
    assert [(progress.step, progress.done, progress.tasks) for progress in said] == [("read", 0, 2), ("read", 1, 2), ("read", 2, 2)]
    assert engine.cores == 2 and engine.run("read", abs, [], 10**9) == [] and not started
    for rows in (10_000 - 2 * ROWS_A_TASK, 1):
        assert engine.run("put together", abs, [-1, -2], rows) == [1, 2]
    assert len(started) == 1 and engine.cores == 8


def test_without_spark_all_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without it computed no usage at all, and made no invoice."""
    request = Request("run", "raw", "hours", "cache", 0, spark_rows_min=7)
    assert rows_for_spark(request) == 7
    assert rows_for_spark(replace(request, master="spark://cluster:7077")) == 0
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert rows_for_spark(request) == rows_for_spark(replace(request, spark_rows_min=0)) == float("inf")
    assert rows_for_spark(replace(request, master="spark://cluster:7077")) == 0
    started: list[Large] = []
    assert engine_of(float("inf"), started, []).run("read", abs, [-1, -2], 10**12) == [1, 2] and not started


def test_many_small_tasks_are_large_work() -> None:
    started: list[Large] = []
    assert engine_of(10_000, started, []).run("read", abs, [-1] * 10, 0) == [1] * 10
    assert started


def test_an_hour_with_little_in_it_starts_nothing(job: Job) -> None:
    """It took a Java, a session and workers: 20 to 45 s."""
    started: list[Large] = []
    little = Job(engine_of(1_000_000, started, []), job.directory)
    write_all(golden(), little.raw)
    assert [hour.rows for hour in little.run().hours] == [1, 3] and not started


def test_a_job_that_may_not_lower_its_priority_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A systemd unit refuses that call, and no usage was ever computed there."""
    asked: list[int] = []

    def refused(by: int) -> int:
        asked.append(by)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "nice", refused)
    hourly_usage.give_way()
    assert asked == [hourly_usage.NICENESS]
