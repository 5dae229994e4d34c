"""Usage runs: the child process, the task around it, and asking for one."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from messaging.settings import Settings
from spark_jobs.config import Progress
from tests.support.brokers.worker_broker import Clock, WorkerBroker
from tests.support.waiting import eventually_sync
from workers import usage_run
from workers.environment import Environment, Stopping
from workers.models import TaskRun, UsageRun
from workers.process import Worker
from workers.queue import LEASE_S
from workers.requests import request_usage_run
from workers.runs import run_recorded
from workers.schedule import RUN_USAGE_JOB
from workers.tasks.usage_job import run_usage_job
from workers.usage_run import Current, RunFailed, run_job


def job_that(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """The job's process is this Python script instead; it gets the same arguments."""
    monkeypatch.setattr(usage_run, "COMMAND", (sys.executable, "-c", script))
    monkeypatch.setattr(usage_run, "POLL_S", 0.05)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())


FINISHES = """
import json, sys
request = json.load(open(sys.argv[1]))
json.dump({"run_id": request["run_id"], "hours": [], "holes": []}, open(sys.argv[2], "w"))
"""

WAITS = "import sys; sys.stdin.read(); print('the caller is gone')"


FAILS = "import sys; print('out of memory', file=sys.stderr); sys.exit(134)"


DIES_TWICE = """
import json, os, pathlib, signal, sys
request = json.load(open(sys.argv[1]))
deaths = pathlib.Path(request["cache_directory"], "deaths")
masters = deaths.read_text().split() if deaths.exists() else []
deaths.write_text(" ".join([*masters, request["master"]]))
if not masters:
    os.kill(os.getpid(), signal.SIGKILL)
memory = {"error": "the heap is exhausted", "died": True, "memory": True} if len(masters) == 1 else {}
json.dump({"run_id": request["run_id"], "hours": [], "holes": [], **memory}, open(sys.argv[2], "w"))
"""

HAS_MORE = """
import json, sys; request = json.load(open(sys.argv[1]))
answer = {"run_id": request["run_id"], "hours": [], "holes": [], "more": not request["run_id"].endswith("-3")}
json.dump(answer, open(sys.argv[2], "w"))
"""

DONE_ONCE_THEN_FAILS = (
    HAS_MORE
    + """
if request["run_id"].endswith("-2"): sys.exit("the disk is full")
"""
)

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


SAYS_HOW_FAR_IT_IS = """
import json, sys
said = sys.argv[2].replace(".json", ".progress.json")
json.dump({"step": "read", "tasks": 4, "done": 1, "rows": 100, "seconds": 2.0}, open(said, "w"))
sys.stdin.read()
"""

LEAVES_OUTPUT = """
import json, os, sys
request = json.load(open(sys.argv[1]))
os.makedirs(request["output_directory"] + "/run_id=" + request["run_id"])
json.dump({"run_id": request["run_id"], "hours": [], "holes": [], "error": "it is Friday"}, open(sys.argv[2], "w"))
sys.exit(1)
"""


class TestTheProcess:
    def test_its_result_is_returned_and_its_files_go(
        self, settings_of: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_that(monkeypatch, FINISHES)
        result = run_job(settings_of(), "run-1", 0, Current(), lambda: None)
        assert result.run_id == "run-1"
        assert list((tmp_path / "cache" / "usage-runs").iterdir()) == []

    def test_a_crash_is_a_failed_run_with_a_log(
        self, settings_of: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_that(monkeypatch, FAILS)
        with pytest.raises(RunFailed, match="exited with code 134"):
            run_job(settings_of(), "run-1", 0, Current(), lambda: None)
        assert (tmp_path / "logs" / "usage-job.log").read_text() == "out of memory\n"

    def test_nothing_is_left_of_a_failed_run(
        self, settings_of: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_that(monkeypatch, LEAVES_OUTPUT)
        with pytest.raises(RunFailed, match="it is Friday"):
            run_job(settings_of(), "run-1", 0, Current(), lambda: None)
        assert list((tmp_path / "usage" / "hours").iterdir()) == []

    def test_it_may_not_take_for_ever(self, settings_of: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch) -> None:
        job_that(monkeypatch, WAITS)
        with pytest.raises(RunFailed, match="usage_job_timeout_s = 1 s"):
            run_job(settings_of(usage_job_timeout_s=1), "run-1", 0, Current(), lambda: None)

    def test_it_says_how_far_it_is(self, settings_of: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch) -> None:
        job_that(monkeypatch, SAYS_HOW_FAR_IT_IS)

        class Seen(Exception):
            pass

        def report(progress: Progress) -> None:
            assert (progress.step, progress.done, progress.left_s()) == ("read", 1, 6.0)
            raise Seen

        with pytest.raises(Seen):
            run_job(settings_of(), "run-1", 0, Current(), lambda: None, report)

    def test_it_ends_when_the_worker_does(
        self, settings_of: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_that(monkeypatch, WAITS)

        def ending() -> None:
            raise Stopping("the worker is ending")

        with pytest.raises(Stopping):
            run_job(settings_of(), "run-1", 0, Current(), ending)
        assert (tmp_path / "logs" / "usage-job.log").read_text() == "the caller is gone\n"

    def test_it_sees_no_setting_of_ours(
        self, settings_of: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MAGNETAR_DATABASE_URL", "postgresql://user:secret@host/name")
        job_that(monkeypatch, "import os; print(sorted(os.environ))" + FINISHES)
        run_job(settings_of(), "run-1", 0, Current(), lambda: None)
        assert "MAGNETAR" not in (tmp_path / "logs" / "usage-job.log").read_text()


def run_task(environment: Environment, task_id: str = "run-1") -> dict[str, object]:
    return run_recorded(environment, RUN_USAGE_JOB, task_id, run_usage_job)


@pytest.mark.django_db
class TestTheTask:
    def test_it_collects_first_and_leaves_a_run(
        self, environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_that(monkeypatch, FINISHES)
        assert run_task(environment)["run"] == "succeeded"
        assert [method for method, _ in broker.calls] == ["usage.flush"]
        run = UsageRun.objects.get()
        assert (run.run_id, run.outcome, run.hours) == ("run-1", "succeeded", 0)
        assert run.finished_at is not None

    def test_without_a_broker_what_is_on_disk_is_computed(
        self, environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_that(monkeypatch, FINISHES)
        broker.cut()
        summary = run_task(environment)
        assert summary["run"] == "succeeded" and "not_collected" in summary

    def test_without_spark_a_cluster_cannot_be_used(
        self, environment: Environment, settings_of: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        environment = dataclasses.replace(environment, settings=settings_of(spark_master="spark://cluster:7077"))
        assert run_task(environment)["run"] == "needs_spark"
        run = UsageRun.objects.get()
        assert run.outcome == UsageRun.Outcome.NEEDS_SPARK
        assert 'pip install "magnetar[spark]"' in run.message

    def test_a_failed_run_says_why_and_the_next_starts(self, environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
        job_that(monkeypatch, FAILS)
        assert run_task(environment)["outcome"] == "retrying"
        assert "logs/usage-job.log" in UsageRun.objects.get().message
        job_that(monkeypatch, FINISHES)
        assert run_task(environment, "run-2")["run"] == "succeeded"

    def test_a_job_that_died_is_run_again_with_fewer_tasks_if_memory_ran_out(
        self, environment: Environment, settings_of: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_that(monkeypatch, DIES_TWICE)
        environment = dataclasses.replace(environment, settings=settings_of(spark_master="local[8]"))
        assert run_task(environment)["run"] == "succeeded"
        assert (tmp_path / "cache" / "deaths").read_text().split() == ["local[8]", "local[8]", "local[4]"]

    def test_many_months_are_many_runs(
        self, environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_that(monkeypatch, HAS_MORE)
        assert run_task(environment)["run"] == "succeeded"
        runs = UsageRun.objects.values_list("run_id", "outcome")
        assert sorted(runs) == [("run-1", "succeeded"), ("run-1-2", "succeeded"), ("run-1-3", "succeeded")]
        assert [method for method, _ in broker.calls] == ["usage.flush"]

    def test_a_job_that_dies_again_and_again_says_why(self, environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
        job_that(monkeypatch, DIES)
        assert run_task(environment)["run"] == "failed"
        message = UsageRun.objects.get().message
        assert "SIGKILL" in message and "limit of memory" in message and "tried 3 times" in message

    def test_a_worker_that_ends_ends_the_run(
        self, environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_that(monkeypatch, WAITS)
        timer = threading.Timer(0.2, environment.stopping.set)
        timer.start()
        assert run_task(environment)["outcome"] == "retrying"
        timer.join()
        assert "ending" in UsageRun.objects.get().message

    def test_a_run_that_failed_is_repeated_later_each_time_and_not_for_ever(
        self, environment: Environment, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Then only the schedule asks."""
        job_that(monkeypatch, FAILS)
        waits = []
        while run_task(environment)["outcome"] == "retrying":
            due_at = TaskRun.objects.get().due_at
            assert due_at is not None
            waits.append((due_at - clock()).total_seconds())
            clock.advance(waits[-1])
        assert waits == [120, 240, 480, 960]
        assert (TaskRun.objects.get().outcome, UsageRun.objects.get().outcome) == ("failed", "failed")

    def test_a_repeated_run_leaves_alone_what_it_had_published(
        self, environment: Environment, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of many months, some were done before it failed: their runs have files and rows of their own."""
        job_that(monkeypatch, DONE_ONCE_THEN_FAILS)
        assert run_task(environment)["run"] == "failed"
        assert run_ids() == [("run-1", "succeeded"), ("run-1-2", "failed")]
        first = UsageRun.objects.get(run_id="run-1")
        clock.advance(120)
        job_that(monkeypatch, HAS_MORE)
        assert run_task(environment)["run"] == "succeeded"
        assert run_ids() == [("run-1", "succeeded"), ("run-1-2", "succeeded"), ("run-1-3", "succeeded")]
        assert UsageRun.objects.get(run_id="run-1").started_at == first.started_at

    def test_a_run_that_a_dead_worker_left_is_closed_by_the_next(
        self, environment: Environment, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_that(monkeypatch, FINISHES)
        UsageRun.objects.create(run_id="dead", requested_at=clock(), outcome=UsageRun.Outcome.RUNNING)
        assert run_task(environment)["run"] == "succeeded"
        assert run_ids() == [("dead", "failed"), ("run-1", "succeeded")]


def run_ids() -> list[tuple[str, str]]:
    return sorted(UsageRun.objects.values_list("run_id", "outcome"))


@pytest.mark.django_db
class TestAsking:
    def test_asking_twice_is_asking_once(self) -> None:
        assert request_usage_run("alice") == request_usage_run("bob")
        assert UsageRun.objects.get().outcome == UsageRun.Outcome.REQUESTED

    def test_a_request_is_never_lost(self) -> None:
        """However long ago it was: it is a row of the queue."""
        first = request_usage_run()
        UsageRun.objects.update(requested_at=datetime.now(UTC) - timedelta(days=1))
        assert request_usage_run() == first and TaskRun.objects.get().outcome == "queued"

    def test_a_run_under_way_is_the_answer(self) -> None:
        now = datetime.now(UTC)
        lease_ends = now + timedelta(seconds=LEASE_S)
        TaskRun.objects.create(task_id="busy", name=RUN_USAGE_JOB, started_at=now, due_at=lease_ends, outcome="running")
        assert request_usage_run() == "busy"
        UsageRun.objects.create(run_id="busy-2", requested_at=now, outcome=UsageRun.Outcome.RUNNING)
        assert request_usage_run() == "busy-2", "its second month"

    def test_a_request_makes_a_failed_run_that_waits_due_at_once(
        self, environment: Environment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_that(monkeypatch, FAILS)
        run_task(environment)
        assert request_usage_run("alice") == "run-1"
        run = UsageRun.objects.get()
        assert (run.outcome, run.requested_by) == (UsageRun.Outcome.REQUESTED, "alice")
        due_at = TaskRun.objects.get().due_at
        assert due_at is not None and due_at <= datetime.now(UTC)


def test_a_run_on_demand(worker: Worker, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    job_that(monkeypatch, FINISHES)
    run_id = request_usage_run("alice")
    eventually_sync(lambda: UsageRun.objects.filter(run_id=run_id, outcome="succeeded").exists())
    assert UsageRun.objects.get().requested_by == "alice"
    eventually_sync(lambda: TaskRun.objects.filter(task_id=run_id, outcome="succeeded").exists())
