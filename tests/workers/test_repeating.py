"""What is asked for is done once: over failures, dead workers and lost messages; what always fails waits for somebody."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from messaging.errors import NotReady, PreconditionFailed
from tests.support.worker_broker import Clock
from workers import lease, sending
from workers.environment import Environment, Stopping
from workers.models import TaskRun
from workers.runs import run_recorded
from workers.sending import ask_for, discard, requeue
from workers.task_catalog import BY_NAME, TASKS, TaskEntry, lease_name
from workers.tasks.repeating import QUEUED_S, repeat_tasks

pytestmark = pytest.mark.django_db
NAME = "tests.repeated"


class Sent:
    """Messages that were sent; with `away` the queue takes none."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.away = False

    def send(self, run: TaskRun) -> bool:
        if not self.away:
            self.runs.append(run.task_id)
        return not self.away


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    monkeypatch.setitem(BY_NAME, NAME, TaskEntry(NAME, "Repeated", "", "", ids=("job",), retry_s=10))
    found = Sent()
    monkeypatch.setattr(sending, "send", found.send)
    monkeypatch.setattr("workers.tasks.repeating.send", found.send)
    return found


class Work:
    """Fails as often as it is told."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.done: list[str] = []

    def __call__(self, environment: Environment, task_id: str, renew: Any, job: str) -> dict[str, Any]:
        if self.errors:
            raise self.errors.pop(0)
        self.done.append(job)
        return {"job": job}


def queued(clock: Clock, task_id: str = "r1") -> TaskRun:
    return TaskRun.objects.create(task_id=task_id, name=NAME, arguments={"job": "j1"}, started_at=clock(), outcome="queued")


def run(environment: Environment, work: Work, task_id: str = "r1") -> str:
    return str(run_recorded(environment, NAME, task_id, work, job="j1")["outcome"])


def look(environment: Environment) -> None:
    repeat_tasks(environment, "look", lambda: None)


def state(task_id: str = "r1") -> TaskRun:
    return TaskRun.objects.get(task_id=task_id)


def test_a_task_is_sent_when_the_transaction_that_asks_for_it_is_committed(
    sent: Sent, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
        asked = ask_for(NAME, "boss@acme", job="j1")
        assert not sent.runs
    assert sent.runs == [asked.task_id]
    assert (asked.outcome, asked.arguments, asked.requested_by) == ("queued", {"job": "j1"}, "boss@acme")
    with pytest.raises(AssertionError, match="takes"):
        ask_for(NAME, tenant="acme")


def test_a_message_that_was_lost_is_sent_again_and_two_of_them_do_the_work_once(
    environment: Environment, clock: Clock, sent: Sent
) -> None:
    queued(clock)
    look(environment)
    assert not sent.runs
    clock.advance(QUEUED_S)
    sent.away = True
    look(environment)
    sent.away = False
    look(environment)
    look(environment)
    assert sent.runs == ["r1"]
    work = Work()
    assert [run(environment, work), run(environment, work)] == ["succeeded", "done before"]
    assert work.done == ["j1"]


def test_a_task_that_fails_is_repeated_later_each_time_and_then_waits_for_somebody(
    environment: Environment, clock: Clock, sent: Sent
) -> None:
    queued(clock)
    work = Work(*[NotReady("the broker is away")] * 4, ValueError("a bug"))
    waits = []
    for _ in range(4):
        assert run(environment, work) == "retrying"
        found = state()
        assert found.next_try_at is not None
        waits.append((found.next_try_at - clock()).total_seconds())
        clock.advance(waits[-1] - 1)
        look(environment)
        assert not sent.runs
        clock.advance(1)
        look(environment)
        assert sent.runs.pop() == "r1"
    assert waits == [10, 20, 40, 80]
    with pytest.raises(ValueError, match="a bug"):
        run(environment, work)
    assert (state().outcome, state().attempts, state().summary) == ("quarantined", 5, {"why": "ValueError: a bug"})
    clock.advance(86_400)
    look(environment)
    assert not sent.runs and run(environment, work) == "done before"


def test_an_administrator_requeues_or_discards_what_is_quarantined_and_nothing_else(
    environment: Environment, clock: Clock, sent: Sent, django_capture_on_commit_callbacks: Any
) -> None:
    queued(clock)
    for decide in (requeue, discard):
        with pytest.raises(PreconditionFailed, match="not quarantined"):
            decide("r1")
    TaskRun.objects.update(outcome="quarantined", attempts=5)
    with django_capture_on_commit_callbacks(execute=True):
        requeue("r1")
    assert sent.runs == ["r1"]
    work = Work()
    assert run(environment, work) == "succeeded" and state().attempts == 1
    TaskRun.objects.update(outcome="quarantined")
    assert discard("r1").outcome == "discarded"
    assert run(environment, work) == "done before"


def test_a_task_whose_worker_died_is_taken_up_again_when_its_lease_ends(environment: Environment, clock: Clock, sent: Sent) -> None:
    TaskRun.objects.create(task_id="r1", name=NAME, arguments={"job": "j1"}, started_at=clock(), outcome="running", attempts=1)
    assert lease.acquire(lease_name(NAME, {"job": "j1"}), lease.holder_of("r1"), clock())
    clock.advance(lease.LEASE_S - 1)
    look(environment)
    assert not sent.runs
    clock.advance(1)
    look(environment)
    assert sent.runs == ["r1"] and run(environment, Work()) == "succeeded"


def test_a_clock_that_went_back_holds_up_no_longer_than_a_crash(environment: Environment, clock: Clock, sent: Sent) -> None:
    """A lease held, and a repetition waited, for as long as the clock had jumped."""
    name = lease_name(NAME, {"job": "j1"})
    TaskRun.objects.create(task_id="r1", name=NAME, arguments={"job": "j1"}, started_at=clock(), outcome="running", attempts=1)
    TaskRun.objects.create(
        task_id="r2", name=NAME, arguments={"job": "j2"}, started_at=clock(), outcome="retrying", attempts=1, next_try_at=clock()
    )
    assert lease.acquire(name, lease.holder_of("r0"), clock())
    clock.advance(-86_400)
    assert not lease.acquire(name, "another", clock()), "its holder may live: it has the time of a lease to say so"
    look(environment)
    assert sorted(sent.runs) == ["r1", "r2"]
    clock.advance(lease.LEASE_S)
    assert lease.acquire(name, "another", clock())


def test_a_living_holder_keeps_its_lease_when_the_clock_goes_back(clock: Clock) -> None:
    assert lease.acquire("work", "living", clock())
    clock.advance(-86_400)
    assert not lease.acquire("work", "another", clock())
    assert lease.renew("work", "living", clock())
    clock.advance(lease.LEASE_S - 1)
    assert not lease.acquire("work", "another", clock()) and lease.held("work", clock())


def test_a_task_that_ends_its_worker_each_time_is_quarantined(environment: Environment, clock: Clock, sent: Sent) -> None:
    TaskRun.objects.create(task_id="r1", name=NAME, arguments={"job": "j1"}, started_at=clock(), outcome="running", attempts=5)
    work = Work()
    assert run(environment, work) == "quarantined" and not work.done
    assert "its worker ended" in state().summary["why"]


def test_a_worker_that_ends_is_not_held_against_its_task(environment: Environment, clock: Clock, sent: Sent) -> None:
    queued(clock)
    work = Work(*[Stopping("the worker is ending")] * 7)
    for _ in range(7):
        assert run(environment, work) == "retrying"
        clock.advance(3600)
    assert run(environment, work) == "succeeded"


def test_two_jobs_run_at_once_and_one_job_does_not_run_twice(environment: Environment, clock: Clock, sent: Sent) -> None:
    assert lease.acquire(lease_name(NAME, {"job": "other"}), "another", clock())
    assert run(environment, Work()) == "succeeded"
    assert lease.acquire(lease_name(NAME, {"job": "j1"}), "another", clock())
    assert run(environment, Work(), "r2") == "skipped"


def test_progress_is_seen_while_a_task_runs(environment: Environment, clock: Clock, sent: Sent) -> None:
    seen = []

    def work(environment: Environment, task_id: str, renew: Any, job: str) -> dict[str, Any]:
        clock.advance(timedelta(seconds=lease.LEASE_S / 2).total_seconds())
        renew(done=3, total=7)
        seen.append(state().progress)
        return {}

    run_recorded(environment, NAME, "r1", work, job="j1")
    assert seen == [{"done": 3, "total": 7}] and state().progress == {}


def test_every_task_has_a_schedule_or_is_repeated() -> None:
    """What only runs when it is asked for must not be lost with its message."""
    for entry in TASKS:
        assert entry.interval or entry.retry_s, entry.name
        assert not (entry.interval and entry.ids), entry.name  # beat knows no ids
