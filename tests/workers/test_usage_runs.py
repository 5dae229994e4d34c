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
from celery import Celery

from messaging.errors import NotReady
from messaging.settings import Settings
from spark_jobs.config import Progress
from tests.support.waiting import eventually_sync
from tests.support.worker_broker import WorkerBroker
from workers import app as app_module
from workers import lease, usage_run
from workers.environment import Environment, Stopping
from workers.models import TaskRun, UsageRun
from workers.requests import FAILED_WAITS_S, REQUEST_WAITS_S, TAKEN_UP_MAX, request_usage_run, take_up_usage_run
from workers.runs import run_recorded
from workers.task_catalog import RUN_USAGE_JOB
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

    def test_without_spark_it_says_so(self, environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert run_task(environment)["run"] == "needs_spark"
        run = UsageRun.objects.get()
        assert run.outcome == UsageRun.Outcome.NEEDS_SPARK
        assert 'pip install "magnetar[spark]"' in run.message

    def test_a_failed_run_says_why_and_the_next_starts(self, environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
        job_that(monkeypatch, FAILS)
        assert run_task(environment)["run"] == "failed"
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
        assert run_task(environment)["run"] == "failed"
        timer.join()
        assert "ending" in UsageRun.objects.get().message
        assert not lease.held(RUN_USAGE_JOB, environment.now())


@pytest.fixture
def asking(queue: Settings, sender: Celery, monkeypatch: pytest.MonkeyPatch) -> Celery:
    """This process asks a real queue for runs."""
    monkeypatch.setattr(app_module, "sender_app", sender)
    return sender


class TestAsking:
    def test_a_run_on_demand(
        self, celery_app: Celery, asking: Celery, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job_that(monkeypatch, FINISHES)
        run_id = request_usage_run("alice")
        eventually_sync(lambda: UsageRun.objects.filter(run_id=run_id, outcome="succeeded").exists())
        assert UsageRun.objects.get().requested_by == "alice"
        eventually_sync(lambda: TaskRun.objects.filter(task_id=run_id, outcome="succeeded").exists())

    @pytest.mark.django_db
    def test_asking_twice_is_asking_once(self, asking: Celery) -> None:
        assert request_usage_run() == request_usage_run()
        assert UsageRun.objects.count() == 1

    @pytest.mark.django_db
    def test_a_request_that_nobody_took_is_not_in_the_way(self, asking: Celery) -> None:
        first = request_usage_run()
        run = UsageRun.objects.get()
        run.requested_at = run.requested_at.replace(year=run.requested_at.year - 1)
        run.save()
        assert request_usage_run() != first
        assert REQUEST_WAITS_S < 24 * 3600

    @pytest.mark.django_db
    def test_a_run_under_way_is_the_answer(self, asking: Celery) -> None:
        now = datetime.now(UTC)
        UsageRun.objects.create(run_id="busy", requested_at=now, outcome=UsageRun.Outcome.RUNNING)
        assert lease.acquire(RUN_USAGE_JOB, "busy", now)
        assert request_usage_run() == "busy"

    @pytest.mark.django_db
    def test_a_run_whose_worker_died_is_taken_up(self, asking: Celery) -> None:
        now = datetime.now(UTC)
        assert take_up_usage_run(now) is None
        UsageRun.objects.create(run_id="lost", requested_at=now, outcome=UsageRun.Outcome.RUNNING)
        assert lease.acquire(RUN_USAGE_JOB, "lost", now)
        assert take_up_usage_run(now) is None  # it is at work
        lease.release(RUN_USAGE_JOB, "lost", now)
        taken = take_up_usage_run(now)
        assert UsageRun.objects.get(run_id=taken).outcome == UsageRun.Outcome.REQUESTED
        assert take_up_usage_run(now) is None  # once

    @pytest.mark.django_db
    def test_a_run_that_failed_is_taken_up_later_each_time_and_not_for_ever(self, asking: Celery) -> None:
        now = datetime.now(UTC)
        failed = UsageRun.Outcome.FAILED
        UsageRun.objects.create(run_id="1", requested_at=now, finished_at=now, outcome=failed)
        assert take_up_usage_run(now + timedelta(seconds=FAILED_WAITS_S - 1)) is None
        UsageRun.objects.create(run_id="2", requested_at=now + timedelta(seconds=1), finished_at=now, outcome=failed)
        assert take_up_usage_run(now + timedelta(seconds=FAILED_WAITS_S)) is None
        taken = take_up_usage_run(now + timedelta(seconds=2 * FAILED_WAITS_S))
        assert UsageRun.objects.get(run_id=taken).outcome == UsageRun.Outcome.REQUESTED
        UsageRun.objects.filter(run_id=taken).delete()
        for run_id in range(3, TAKEN_UP_MAX + 1):
            UsageRun.objects.create(run_id=run_id, requested_at=now + timedelta(seconds=run_id), finished_at=now, outcome=failed)
        assert take_up_usage_run(now + timedelta(days=1)) is None

    @pytest.mark.django_db
    def test_a_queue_that_is_away_is_an_error_and_no_run(
        self, settings_of: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        app = app_module.make_app(settings_of(redis_url=f"unix://{tmp_path}/nobody.sock"))
        monkeypatch.setattr(app_module, "sender_app", app)
        with pytest.raises(NotReady, match="queue cannot be reached"):
            request_usage_run()
        assert not UsageRun.objects.exists()
        app.close()
