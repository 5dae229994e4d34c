"""A real worker on the queue: what it takes, what pools keep apart, what it does when its database is away, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, transaction

from messaging.settings import ConfigError, Settings
from tests.support.brokers.worker_broker import WorkerBroker
from tests.support.waiting import eventually_sync
from workers import transport
from workers.beat import PREFIX, Beat, ensure_schedule
from workers.environment import Environment
from workers.models import TaskRun
from workers.process import Worker, pools_of
from workers.queue import ask_for, take
from workers.schedule import BY_NAME, COLLECT_AUDIT, COLLECT_USAGE, EXPIRE_MESSAGES, POOLS, QUEUES, TASKS, TaskEntry

NAME = "tests.task"
counted: list[str] = []
let_go = threading.Event()
busy = threading.Semaphore(0)


def count(environment: Environment, task_id: str, renew: Any, job: str) -> dict[str, Any]:
    counted.append(job)
    return {}


def hold(environment: Environment, task_id: str, renew: Any, job: str) -> dict[str, Any]:
    busy.release()
    assert let_go.wait(60)
    return {}


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Callable[..., TaskEntry]:
    """A task of the test's own; it must be there before the worker is made."""

    def make(work: Callable[..., Any], name: str = NAME, pool: str = "control") -> TaskEntry:
        entry = TaskEntry(name, name, f"{__name__}:{work.__name__}", "", POOLS[pool].queues[0], ids=("job",), retry_s=1)
        monkeypatch.setitem(BY_NAME, name, entry)
        monkeypatch.setattr("workers.app.TASKS", (*TASKS, entry))
        counted.clear()
        let_go.clear()
        return entry

    return make


def ends(task_id: str, outcome: str = "succeeded") -> None:
    eventually_sync(lambda: TaskRun.objects.filter(task_id=task_id, outcome=outcome).exists(), 20)


def test_a_message_past_its_ttl_goes_when_the_task_is_asked_for(worker: Worker, broker: WorkerBroker) -> None:
    broker.add("persistent://acme/orders/new", [10, 61])
    run = ask_for(EXPIRE_MESSAGES)
    ends(run.task_id)
    run.refresh_from_db()
    assert run.summary["expired_entries"] == 1 and broker.messages() == 1


def test_a_requested_task_begins_within_seconds(worker: Worker, broker: WorkerBroker) -> None:
    """The worker looks so often, whatever else it does."""
    assert transport.POLL_S <= 0.5
    run = ask_for(COLLECT_USAGE)
    ends(run.task_id)
    asked_at = run.started_at
    run.refresh_from_db()
    assert (run.started_at - asked_at).total_seconds() < 5  # of a machine that is busy with other tests


def test_celery_sends_to_the_same_queue_and_the_same_message_twice_is_one_run(worker: Worker, broker: WorkerBroker) -> None:
    for _ in range(2):
        worker.app.send_task(COLLECT_USAGE, task_id="one-id")
        ends("one-id")
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        worker.app.send_task(EXPIRE_MESSAGES)
        raise ZeroDivisionError
    assert TaskRun.objects.count() == 1, "sent with its transaction, or not at all"
    assert [method for method, _ in broker.calls] == ["usage.flush"]


def test_beat_sends_what_is_due(worker: Worker, settings_of: Callable[..., Settings]) -> None:
    ensure_schedule(settings_of(expiry_interval_s=1))
    beat = Beat(worker.app)
    beat.start()
    try:
        eventually_sync(lambda: TaskRun.objects.filter(name=EXPIRE_MESSAGES, outcome="succeeded").exists(), timeout_s=15)
        assert not TaskRun.objects.exclude(name=EXPIRE_MESSAGES).exists()
    finally:
        beat.stop()
        assert beat.join(60)


@pytest.mark.django_db
def test_the_schedule_follows_the_settings_and_keeps_what_an_administrator_chose(settings_of: Callable[..., Settings]) -> None:
    from django_celery_beat.models import PeriodicTask, PeriodicTasks

    ensure_schedule(settings_of())
    rows = {row.task: row for row in PeriodicTask.objects.filter(name__startswith=PREFIX)}
    assert {task: (row.interval.every, row.enabled) for task, row in rows.items()} == {
        entry.name: (getattr(settings_of(), entry.interval), True) for entry in TASKS if entry.interval
    }
    PeriodicTask.objects.filter(task=EXPIRE_MESSAGES).update(enabled=False)
    PeriodicTask.objects.create(name=f"{PREFIX}of an earlier release", task="workers.gone", interval=rows[EXPIRE_MESSAGES].interval)
    ensure_schedule(settings_of(expiry_interval_s=7))
    row = PeriodicTask.objects.get(task=EXPIRE_MESSAGES)
    assert (row.interval.every, row.enabled) == (7, False)
    assert not PeriodicTask.objects.filter(task="workers.gone").exists()
    changed_at = PeriodicTasks.last_change()
    ensure_schedule(settings_of(expiry_interval_s=7))
    assert PeriodicTask.objects.filter(name__startswith=PREFIX).count() == len(rows)
    assert PeriodicTasks.last_change() == changed_at  # beat need not read it again


def test_every_queue_is_of_one_pool() -> None:
    assert sorted(queue for pool in POOLS.values() for queue in pool.queues) == list(QUEUES)


def test_a_process_may_have_some_of_the_pools(settings_of: Callable[..., Settings], broker: WorkerBroker) -> None:
    assert pools_of(settings_of()) == POOLS
    assert list(pools_of(settings_of(worker_pools="usage, redrives"))) == ["usage", "redrives"]
    with pytest.raises(ConfigError, match="'likes' is not one of control, maintenance"):
        Worker(Environment(settings_of(worker_pools="likes"), broker))


def test_a_worker_leaves_the_runs_of_other_pools_to_others(
    transactional_db: None, settings_of: Callable[..., Settings], broker: WorkerBroker, task: Callable[..., TaskEntry]
) -> None:
    task(count)
    worker = Worker(Environment(settings_of(worker_pools="control"), broker))
    worker.start()
    try:
        expiry = ask_for(EXPIRE_MESSAGES)
        ends(ask_for(NAME, job="ours").task_id)
        expiry.refresh_from_db()
        assert expiry.outcome == "queued"
    finally:
        worker.stop()
        assert worker.join(60)
        worker.app.close()


def test_expiry_runs_while_very_many_long_tasks_do(
    transactional_db: None, settings_of: Callable[..., Settings], broker: WorkerBroker, task: Callable[..., TaskEntry]
) -> None:
    """As many as all threads of all pools: with one pool for all there would be none left."""
    task(hold, pool="redrives")
    for number in range(sum(pool.threads for pool in POOLS.values())):
        ask_for(NAME, job=str(number))
    worker = Worker(Environment(settings_of(), broker))
    worker.start()
    try:
        for _ in range(POOLS["redrives"].threads):
            assert busy.acquire(timeout=30)  # all of its threads are busy
        for name in (EXPIRE_MESSAGES, COLLECT_AUDIT):
            ends(ask_for(name).task_id)
        outcomes = list(TaskRun.objects.filter(name=NAME).values_list("outcome", flat=True))
        assert (outcomes.count("running"), outcomes.count("queued")) == (POOLS["redrives"].threads, len(outcomes) - 4)
    finally:
        let_go.set()
        worker.stop()
        assert worker.join(60)
        worker.app.close()


def test_threads_that_are_free_again_take_what_waited(
    transactional_db: None, settings_of: Callable[..., Settings], broker: WorkerBroker, task: Callable[..., TaskEntry]
) -> None:
    task(count, pool="notices")
    for number in range(3 * POOLS["notices"].threads):
        ask_for(NAME, job=str(number))
    worker = Worker(Environment(settings_of(), broker))
    worker.start()
    try:
        eventually_sync(lambda: not TaskRun.objects.exclude(outcome="succeeded").exists(), 30)
        assert sorted(counted, key=int) == [str(number) for number in range(3 * POOLS["notices"].threads)]
    finally:
        worker.stop()
        assert worker.join(60)
        worker.app.close()


def test_a_worker_whose_database_was_away_goes_on(
    transactional_db: None,
    settings_of: Callable[..., Settings],
    broker: WorkerBroker,
    task: Callable[..., TaskEntry],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task(count)
    refused = 0

    def refuse_twice(*given: Any) -> list[TaskRun]:
        nonlocal refused
        if refused < 2:
            refused += 1
            raise OperationalError("the server closed the connection")
        return take(*given)

    monkeypatch.setattr(transport, "take", refuse_twice)
    monkeypatch.setattr(transport, "RETRY_S", 0.01)
    run = ask_for(NAME, job="j1")
    worker = Worker(Environment(settings_of(), broker))
    worker.start()
    try:
        ends(run.task_id)
        assert refused == 2 and not worker.ended
    finally:
        worker.stop()
        assert worker.join(60)
        worker.app.close()


def test_a_redis_that_is_away_holds_up_no_task(
    transactional_db: None, settings_of: Callable[..., Settings], broker: WorkerBroker, task: Callable[..., TaskEntry]
) -> None:
    """Live pages use it; the queue is in the database."""
    task(count)
    worker = Worker(Environment(settings_of(redis_url="redis://127.0.0.1:1/0"), broker))
    worker.start()
    try:
        ends(ask_for(NAME, job="j1").task_id)
    finally:
        worker.stop()
        assert worker.join(60)
        worker.app.close()


def test_the_next_worker_takes_up_what_the_one_before_was_killed_in(
    transactional_db: None,
    settings_of: Callable[..., Settings],
    broker: WorkerBroker,
    task: Callable[..., TaskEntry],
) -> None:
    task(count)
    run = ask_for(NAME, job="j1")
    TaskRun.objects.filter(task_id=run.task_id).update(outcome="running", attempts=1)  # its lease ended long ago
    worker = Worker(Environment(settings_of(), broker))
    worker.start()
    try:
        ends(run.task_id)
        assert counted == ["j1"]
    finally:
        worker.stop()
        assert worker.join(60)
        worker.app.close()


@pytest.mark.timeout(120)
def test_the_process_says_when_it_is_ready_and_ends_cleanly(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MAGNETAR_", "DJANGO_"))}
    variables |= {"MAGNETAR_DATA_DIR": str(tmp_path)}
    prepare = (
        "from messaging.identity import create_secrets; from messaging.settings import load; create_secrets(load());"
        "import django; django.setup(); from django.core.management import call_command; call_command('migrate', verbosity=0)"
    )
    (tmp_path / "control").mkdir()
    subprocess.run(
        [sys.executable, "-c", prepare], env=variables | {"DJANGO_SETTINGS_MODULE": "controlplane.settings"}, check=True, timeout=60
    )
    ready = tmp_path / "run" / "worker.json"
    with (tmp_path / "log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "controlplane.worker"], env=variables, stdout=log, stderr=log, cwd="/"
        )
    try:
        eventually_sync(lambda: ready.exists() or child.poll() is not None, timeout_s=30)
        assert child.poll() is None, (tmp_path / "log").read_text()
        assert json.loads(ready.read_bytes()) == {"pid": child.pid}
        child.send_signal(signal.SIGTERM)
        assert child.wait(5) == 0, (tmp_path / "log").read_text()
        assert not ready.exists()
    finally:
        child.kill()
        child.wait()
