"""What is asked for is done once: over failures and dead workers; what always fails waits for somebody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from messaging.errors import NotReady, PreconditionFailed
from tests.support.brokers.worker_broker import Clock
from workers.environment import Environment, Stopping
from workers.models import TaskRun
from workers.queue import LEASE_S, SKEW_S, ask_for, discard, requeue, take
from workers.runs import UNDER_WAY, run_recorded
from workers.schedule import BY_NAME, EXPIRE_MESSAGES, POOLS, RUN_USAGE_JOB, TASKS, WAIT_S_MAX, TaskEntry

pytestmark = pytest.mark.django_db
NAME = "tests.repeated"
FREE = {name: pool.threads for name, pool in POOLS.items()}


@pytest.fixture(autouse=True)
def entry(monkeypatch: pytest.MonkeyPatch) -> TaskEntry:
    made = TaskEntry(NAME, "Repeated", "", "", ids=("job",), retry_s=10)
    monkeypatch.setitem(BY_NAME, NAME, made)
    return made


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


def queued(clock: Clock, task_id: str = "r1", **fields: Any) -> TaskRun:
    values = {
        "name": NAME,
        "key": task_id,
        "arguments": {"job": "j1"},
        "started_at": clock(),
        "due_at": clock(),
        "outcome": "queued",
        **fields,
    }
    return TaskRun.objects.create(task_id=task_id, **values)


def run(environment: Environment, work: Work, task_id: str = "r1", job: str = "j1") -> str:
    return str(run_recorded(environment, NAME, task_id, work, job=job)["outcome"])


def taken(clock: Clock, free: dict[str, int] | None = None) -> list[str]:
    return [run.task_id for run in take(FREE if free is None else free, clock())]


def state(task_id: str = "r1") -> TaskRun:
    return TaskRun.objects.get(task_id=task_id)


class TestAsking:
    def test_a_task_is_due_when_the_transaction_that_asks_for_it_is_committed(self) -> None:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            ask_for(NAME, job="not asked for after all")
            raise ZeroDivisionError
        asked = ask_for(NAME, "boss@acme", job="j1")
        assert [run.task_id for run in take(FREE, datetime.now(UTC))] == [asked.task_id]
        assert (asked.outcome, asked.arguments, asked.requested_by) == ("queued", {"job": "j1"}, "boss@acme")

    def test_only_the_ids_of_its_entry_are_taken(self) -> None:
        for ids in ({"tenant": "acme"}, {}, {"job": "j" * 101}):
            with pytest.raises(AssertionError):
                ask_for(NAME, **ids)

    def test_a_task_without_ids_waits_once_however_often_it_is_asked_for(self, clock: Clock) -> None:
        """A schedule goes on while no worker runs."""
        assert len({ask_for(EXPIRE_MESSAGES).task_id for _ in range(3)}) == 1
        TaskRun.objects.update(outcome="running")
        ask_for(EXPIRE_MESSAGES)
        assert sorted(TaskRun.objects.values_list("outcome", flat=True)) == ["queued", "running"]

    def test_a_request_makes_a_run_due_that_would_be_repeated_later(self) -> None:
        later = datetime.now(UTC) + timedelta(seconds=1000)
        TaskRun.objects.create(task_id="r1", name=RUN_USAGE_JOB, started_at=later, due_at=later, outcome="retrying")
        assert ask_for(RUN_USAGE_JOB).task_id == "r1"
        assert [run.task_id for run in take(FREE, datetime.now(UTC))] == ["r1"]


class TestTaking:
    def test_a_run_is_taken_by_one_worker_and_again_if_that_does_not_begin_it(self, environment: Environment, clock: Clock) -> None:
        queued(clock)
        assert taken(clock) == ["r1"]
        clock.advance(LEASE_S - 1)
        assert taken(clock) == []
        clock.advance(1)
        assert taken(clock) == ["r1"]
        work = Work()
        assert [run(environment, work), run(environment, work)] == ["succeeded", "done before"]
        assert work.done == ["j1"]

    def test_no_more_is_taken_than_threads_of_its_pool_are_free(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(BY_NAME, "tests.slow", TaskEntry("tests.slow", "Slow", "", "", POOLS["redrives"].queues[0]))
        for number in range(5):
            queued(clock, f"slow{number}", name="tests.slow")
        clock.advance(1)
        queued(clock, "quick")
        assert taken(clock, {"redrives": 2, "control": 1}) == ["slow0", "slow1"]
        assert taken(clock, {"redrives": 0, "control": 1}) == ["quick"], "what waits for its pool holds up nobody else's"
        assert taken(clock, {"usage": 9}) == []

    def test_the_run_that_is_due_longest_is_first(self, clock: Clock) -> None:
        queued(clock, "later")
        queued(clock, "earlier", due_at=clock() - timedelta(seconds=1))
        queued(clock, "not yet", due_at=clock() + timedelta(seconds=1))
        assert taken(clock) == ["earlier", "later"]

    def test_a_worker_that_comes_second_gets_nothing(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        """Between its read and its write somebody else has taken the run."""
        queued(clock)
        rows = type(TaskRun.objects.all())
        read = rows.__iter__

        def overtaken(due: Any) -> Any:
            runs = list(read(due))
            patch.undo()
            assert taken(clock) == ["r1"]
            return iter(runs)

        with monkeypatch.context() as patch:
            patch.setattr(rows, "__iter__", overtaken)
            assert taken(clock) == []

    def test_a_clock_that_went_back_holds_up_no_longer_than_a_crash(self, environment: Environment, clock: Clock) -> None:
        """A lease was held, and a repetition waited, for as long as the clock had jumped."""
        ends = clock() + timedelta(seconds=LEASE_S)
        queued(clock, "r1", outcome="running", attempts=1, due_at=ends)
        queued(clock, "r2", arguments={"job": "j2"}, outcome="retrying", attempts=1, due_at=ends)
        clock.advance(-86_400)
        assert taken(clock) == [], "its holder may live: it has the time of a lease to say so"
        clock.advance(LEASE_S)
        assert sorted(taken(clock)) == ["r1", "r2"]

    def test_a_long_wait_is_not_taken_for_a_clock_that_went_back(self, clock: Clock) -> None:
        queued(clock, outcome="retrying", due_at=clock() + timedelta(seconds=WAIT_S_MAX + SKEW_S))
        taken(clock)
        clock.advance(LEASE_S)
        assert taken(clock) == []

    def test_a_living_holder_keeps_its_lease_when_the_clock_goes_back(self, environment: Environment, clock: Clock) -> None:
        def work(environment: Environment, task_id: str, renew: Any, job: str) -> dict[str, Any]:
            clock.advance(-86_400)
            assert taken(clock) == []
            renew()
            clock.advance(LEASE_S - 1)
            assert taken(clock) == []
            return {}

        assert run_recorded(environment, NAME, "r1", work, job="j1")["outcome"] == "succeeded"


class TestRepeating:
    def test_a_task_that_fails_is_repeated_later_each_time_and_then_waits_for_somebody(
        self, environment: Environment, clock: Clock
    ) -> None:
        queued(clock)
        work = Work(*[NotReady("the broker is away")] * 4, ValueError("a bug"))
        waits = []
        for _ in range(4):
            assert run(environment, work) == "retrying"
            next_try_at = state().next_try_at
            assert next_try_at is not None
            waits.append((next_try_at - clock()).total_seconds())
            clock.advance(waits[-1] - 1)
            assert taken(clock) == []
            clock.advance(1)
            assert taken(clock) == ["r1"]
        assert waits == [10, 20, 40, 80]
        with pytest.raises(ValueError, match="a bug"):
            run(environment, work)
        assert (state().outcome, state().attempts, state().summary) == ("quarantined", 5, {"why": "ValueError: a bug"})
        clock.advance(86_400)
        assert taken(clock) == [] and run(environment, work) == "done before"

    def test_an_administrator_requeues_or_discards_what_is_quarantined_and_nothing_else(
        self, environment: Environment, clock: Clock
    ) -> None:
        queued(clock)
        for decide in (requeue, discard):
            with pytest.raises(PreconditionFailed, match="not quarantined"):
                decide("r1")
        TaskRun.objects.update(outcome="quarantined", attempts=5, due_at=None)
        requeue("r1")
        assert [run.task_id for run in take(FREE, datetime.now(UTC))] == ["r1"]
        work = Work()
        assert run(environment, work) == "succeeded" and state().attempts == 1
        TaskRun.objects.update(outcome="quarantined")
        assert discard("r1").outcome == "discarded"
        assert run(environment, work) == "done before"

    def test_a_task_whose_worker_died_is_taken_up_again_when_its_lease_ends(self, environment: Environment, clock: Clock) -> None:
        """One of a schedule, too: its row would say for ever that it runs."""
        died = {"outcome": "running", "attempts": 1, "due_at": clock() + timedelta(seconds=LEASE_S)}
        queued(clock, "r1", **died)
        queued(clock, "r2", name=EXPIRE_MESSAGES, arguments={}, **died)
        clock.advance(LEASE_S - 1)
        assert taken(clock) == [] and run(environment, Work()) == "done before"
        clock.advance(1)
        assert sorted(taken(clock)) == ["r1", "r2"]
        assert run(environment, Work()) == "succeeded" and state().attempts == 2

    def test_a_task_that_ends_its_worker_each_time_is_quarantined(self, environment: Environment, clock: Clock) -> None:
        queued(clock, outcome="running", attempts=5)
        work = Work()
        assert run(environment, work) == "quarantined" and not work.done
        assert "its worker ended" in state().summary["why"]

    def test_a_scheduled_task_is_not_quarantined(self, environment: Environment, clock: Clock) -> None:
        queued(clock, name=EXPIRE_MESSAGES, arguments={}, outcome="running", attempts=5)
        assert run_recorded(environment, EXPIRE_MESSAGES, "r1", lambda *given: {})["outcome"] == "failed"

    def test_a_worker_that_ends_is_not_held_against_its_task(self, environment: Environment, clock: Clock) -> None:
        queued(clock)
        work = Work(*[Stopping("the worker is ending")] * 7)
        for _ in range(7):
            assert run(environment, work) == "retrying"
            clock.advance(3600)
        assert run(environment, work) == "succeeded"

    def test_two_jobs_run_at_once_and_one_job_does_not_run_twice(self, environment: Environment, clock: Clock) -> None:
        seen = []

        def work(environment: Environment, task_id: str, renew: Any, job: str) -> dict[str, Any]:
            queued(clock, "failed before", outcome="retrying", attempts=1)
            seen.append(run(environment, Work(), "r2", "another"))
            seen.append(run(environment, Work(), "r3"))
            seen.append(run(environment, Work(), "failed before"))
            return {}

        run_recorded(environment, NAME, "r1", work, job="j1")
        assert seen == ["succeeded", "skipped", "done before"]
        assert (state("r3").summary, state("failed before").outcome) == ({"why": UNDER_WAY}, "retrying")

    def test_the_database_itself_lets_one_run_of_a_key_be_running(self, clock: Clock) -> None:
        queued(clock, "r1", key="k", outcome="running")
        with pytest.raises(IntegrityError):
            queued(clock, "r2", key="k", outcome="running")

    def test_progress_is_seen_while_a_task_runs(self, environment: Environment, clock: Clock) -> None:
        seen = []

        def work(environment: Environment, task_id: str, renew: Any, job: str) -> dict[str, Any]:
            clock.advance(LEASE_S / 2)
            renew(done=3, total=7)
            clock.advance(LEASE_S / 2)
            renew()
            seen.append(state().progress)
            return {}

        run_recorded(environment, NAME, "r1", work, job="j1")
        assert seen == [{"done": 3, "total": 7}] and state().progress == {}

    def test_an_attempt_that_lost_its_lease_does_not_write_over_the_one_that_has_it(
        self, environment: Environment, clock: Clock
    ) -> None:
        def work(environment: Environment, task_id: str, renew: Any, job: str) -> dict[str, Any]:
            clock.advance(LEASE_S)
            assert taken(clock) == ["r1"]
            assert run(environment, Work()) == "succeeded"
            renew()
            raise AssertionError("it goes on without a lease")

        queued(clock)
        assert "took over" in str(run_recorded(environment, NAME, "r1", work, job="j1")["why"])
        assert (state().outcome, state().summary) == ("succeeded", {"job": "j1"})


def test_every_task_has_a_schedule_or_is_repeated() -> None:
    """What only runs when it is asked for must not be lost with its worker."""
    for entry in TASKS:
        assert entry.interval or entry.retry_s, entry.name
        assert not (entry.interval and entry.ids), entry.name  # beat knows no ids
