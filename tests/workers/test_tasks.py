"""What tasks do, what they leave behind, and what they do when things are not as they should be."""

from __future__ import annotations

from datetime import timedelta

import duckdb
import pytest

from messaging.adminrpc.maintenance import MaintenancePage, MaintenanceRun
from messaging.adminrpc.methods import MAINTENANCE_RUN, MAINTENANCE_TOPICS
from messaging.storage.ledger_store import Unavailable
from tests.support.brokers.worker_broker import Clock, WorkerBroker
from workers.environment import Environment
from workers.models import TaskRun, UsageRun
from workers.queue import LEASE_S, take
from workers.runs import UNDER_WAY, run_recorded
from workers.schedule import COLLECT_USAGE, EXPIRE_MESSAGES, POOLS, RUN_USAGE_JOB
from workers.tasks import expiry
from workers.tasks.expiry import expire_messages
from workers.tasks.forgetting import forget_old
from workers.tasks.usage import collect_usage
from workers.tasks.usage_job import run_usage_job

pytestmark = pytest.mark.django_db
ORDERS = "persistent://acme/orders"


def expire(environment: Environment, task_id: str = "run-1") -> dict[str, object]:
    return run_recorded(environment, EXPIRE_MESSAGES, task_id, expire_messages)


def running(clock: Clock, task_id: str = "another", name: str = EXPIRE_MESSAGES) -> TaskRun:
    """A run that another worker has just begun."""
    lease_ends = clock() + timedelta(seconds=LEASE_S)
    return TaskRun.objects.create(task_id=task_id, name=name, key=name, started_at=clock(), due_at=lease_ends, outcome="running")


def test_expiry_reaches_every_topic_over_all_pages(
    environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "PAGE_TOPICS", 7)
    monkeypatch.setattr(expiry, "BATCH_TOPICS", 3)
    for index in range(23):
        broker.add(f"persistent://acme/orders/{index:02}", [10, 61, 100])
    broker.add("persistent://acme/kept/old", [10_000])
    before = broker.real.stored_bytes
    summary = expire(environment)
    assert broker.messages() == 24
    assert (summary["outcome"], summary["topics"], summary["expired_entries"], summary["freed_bytes"]) == (
        "succeeded",
        24,
        46,
        before - broker.real.stored_bytes,
    )
    assert summary["freed_bytes"] and summary["trimmed_ledgers"] == 46
    asked = [request.topics for _, request in broker.calls if isinstance(request, MaintenanceRun)]
    assert max(map(len, asked)) == 3
    assert sorted(topic for topics in asked for topic in topics) == sorted(broker.real.topics)


def test_expiry_twice_does_nothing_more(environment: Environment, broker: WorkerBroker) -> None:
    broker.add("persistent://acme/orders/new", [61])
    expire(environment, "run-1")
    assert expire(environment, "run-2")["expired_entries"] == 0


def test_a_topic_whose_expiry_fails_does_not_hold_up_the_others(
    environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "BATCH_TOPICS", 1)
    for name in ("a", "b", "c"):
        broker.add(f"{ORDERS}/{name}", [61])

    def refuse(request: MaintenanceRun) -> None:
        if f"{ORDERS}/b" in request.topics:
            broker.real.ledgers.fail_next("open", Unavailable("the disk refused"))

    broker.divert(MAINTENANCE_RUN, refuse)
    summary = expire(environment)
    assert summary["expired_entries"] == 2
    failed = summary["failed"]
    assert isinstance(failed, dict) and failed.keys() == {f"{ORDERS}/b"} and "the disk refused" in failed[f"{ORDERS}/b"]
    assert TaskRun.objects.get().summary["failures"] == 1


def test_every_run_leaves_a_row(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    broker.add(f"{ORDERS}/a", [61])
    broker.on_run(lambda: clock.advance(5))
    expire(environment)
    run = TaskRun.objects.get()
    assert (run.task_id, run.name, run.outcome) == ("run-1", EXPIRE_MESSAGES, "succeeded")
    assert run.finished_at is not None
    assert run.finished_at - run.started_at == timedelta(seconds=5)
    assert run.summary["expired_entries"] == 1


def test_a_broker_that_is_away_is_a_failed_run_and_no_exception(environment: Environment, broker: WorkerBroker) -> None:
    broker.cut()
    assert expire(environment)["outcome"] == "failed"
    run = TaskRun.objects.get()
    assert (run.outcome, run.summary["code"]) == ("failed", "not_ready")
    broker.mend()
    assert expire(environment, "run-2")["outcome"] == "succeeded"  # the lease was given back


def test_a_bug_is_recorded_and_raised(environment: Environment, broker: WorkerBroker) -> None:
    def bug() -> None:
        raise KeyError("ours")

    broker.add(f"{ORDERS}/a", [61])
    broker.on_run(bug)
    with pytest.raises(KeyError):
        expire(environment)
    assert TaskRun.objects.get().outcome == "failed"
    broker.on_run(lambda: None)
    assert expire(environment, "run-2")["outcome"] == "succeeded"


def test_a_message_delivered_again_after_its_work_is_done_does_nothing(environment: Environment, broker: WorkerBroker) -> None:
    expire(environment)
    calls = len(broker.calls)
    assert expire(environment) == {"outcome": "done before"}
    assert len(broker.calls) == calls


def test_a_message_whose_worker_died_is_worked_off(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    broker.add(f"{ORDERS}/a", [61])
    running(clock, "run-1")
    assert expire(environment) == {"outcome": "done before"}  # it still runs, as far as anybody knows
    clock.advance(LEASE_S)
    assert expire(environment)["expired_entries"] == 1


def test_a_task_has_a_single_run_at_a_time_and_none_for_ever(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    running(clock)
    assert expire(environment, "run-1")["outcome"] == "skipped"
    assert not broker.calls
    clock.advance(LEASE_S)  # the other one died without a word
    assert [run.task_id for run in take(dict.fromkeys(POOLS, 1), clock())] == ["another"]
    assert expire(environment, "run-2")["outcome"] == "succeeded"
    assert expire(environment, "another")["outcome"] == "succeeded"


def test_a_usage_run_that_was_passed_over_says_so(environment: Environment, clock: Clock) -> None:
    UsageRun.objects.create(run_id="asked", requested_at=clock())
    running(clock, name=RUN_USAGE_JOB)
    assert run_recorded(environment, RUN_USAGE_JOB, "asked", run_usage_job)["outcome"] == "skipped"
    run = UsageRun.objects.get()
    assert (run.outcome, run.message) == ("skipped", UNDER_WAY)


def test_a_run_that_lost_its_lease_stops(
    environment: Environment, broker: WorkerBroker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "BATCH_TOPICS", 1)
    broker.add(f"{ORDERS}/a", [61])
    broker.add(f"{ORDERS}/b", [61])

    def sleep_too_long() -> None:
        clock.advance(LEASE_S)
        assert [run.task_id for run in take(dict.fromkeys(POOLS, 1), clock())] == ["run-1"]

    broker.on_run(sleep_too_long)
    assert "took over" in str(expire(environment)["why"])
    assert broker.messages() == 1
    assert TaskRun.objects.get().outcome == "retrying"  # and leaves it to the other


def test_a_worker_that_ends_stops_between_two_batches(
    environment: Environment, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "BATCH_TOPICS", 1)
    for name in "abc":
        broker.add(f"{ORDERS}/{name}", [61])
    broker.on_run(environment.stopping.set)
    assert "ending" in str(expire(environment)["why"])
    assert broker.messages() == 2


def test_pages_that_do_not_go_forward_end_the_run(environment: Environment, broker: WorkerBroker) -> None:
    broker.divert(MAINTENANCE_TOPICS, lambda _: MaintenancePage(topics=[], next_after="a"))
    assert "ends where it began" in str(expire(environment)["why"])


def test_collecting_usage_says_what_was_written(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    broker.add(f"{ORDERS}/a", [1, 2])
    clock.advance(5)
    summary = run_recorded(environment, COLLECT_USAGE, "run-1", collect_usage)
    (file,) = broker.real.usage_files()
    relation = duckdb.sql(f"select * from read_parquet('{file}')")
    assert relation is not None
    rows = len(relation.fetchall())
    assert rows and summary == {"outcome": "succeeded", "files": 1, "rows": rows}
    assert run_recorded(environment, COLLECT_USAGE, "run-2", collect_usage)["rows"] == 0


def test_old_rows_go(environment: Environment, clock: Clock) -> None:
    expire(environment, "run-1")
    TaskRun.objects.create(task_id="waits", name=EXPIRE_MESSAGES, started_at=clock(), outcome="quarantined")
    clock.advance(environment.settings.task_history_days * 86_400 + 1)
    expire(environment, "run-2")
    TaskRun.objects.filter(task_id="waits").update(outcome="discarded")
    assert forget_old(environment, "f", lambda: None)["task_runs"] == 2
    assert [run.task_id for run in TaskRun.objects.all()] == ["run-2"]


def test_a_run_that_is_handed_out_twice_is_done_once(
    environment: Environment, broker: WorkerBroker, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second comes while the first is at work."""
    broker.add(f"{ORDERS}/a", [61])
    seen: list[object] = []
    broker.on_run(lambda: seen.append(expire(environment)))
    assert expire(environment)["outcome"] == "succeeded"
    assert seen == [{"outcome": "done before"}]
    assert TaskRun.objects.get().outcome == "succeeded"


def test_a_done_run_is_not_passed_over_later(environment: Environment, clock: Clock) -> None:
    expire(environment)
    running(clock)
    assert expire(environment) == {"outcome": "done before"}
    assert TaskRun.objects.get(task_id="run-1").outcome == "succeeded"


def test_what_was_in_the_recycle_bin_for_its_time_is_deleted(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    for name in ("a", "b"):
        broker.real.add(f"persistent://acme/orders/{name}")
        broker.real.recycle(f"persistent://acme/orders/{name}", name)  # for an hour
        clock.advance(60)
    assert expire_messages(environment, "run", lambda: None)["purged_topics"] == 0
    clock.advance(3480)
    assert expire_messages(environment, "run", lambda: None)["purged_topics"] == 1
    assert broker.real.run(broker.real.meta.recycled_places()) == ["recycled://acme/orders/b/b"]
