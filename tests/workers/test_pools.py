"""Long tasks of one kind do not hold up those of another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from messaging.settings import ConfigError, Settings
from tests.support.waiting import eventually_sync
from tests.support.worker_broker import WorkerBroker
from workers import app as workers_app
from workers.app import make_app
from workers.environment import Environment
from workers.models import TaskRun
from workers.process import make_workers, pools_of
from workers.task_catalog import BY_NAME, COLLECT_AUDIT, EXPIRE_MESSAGES, POOLS, QUEUES, TASKS, TaskEntry

NAME = "tests.long"
let_go = threading.Event()
held = threading.Semaphore(0)


def hold(environment: Environment, task_id: str, renew: Any, job: str) -> dict[str, Any]:
    held.release()
    assert let_go.wait(60)
    return {}


def test_every_queue_is_of_one_pool() -> None:
    assert sorted(queue for pool in POOLS.values() for queue in pool.queues) == list(QUEUES)


def test_a_process_may_have_some_of_the_pools(settings_of: Callable[..., Settings]) -> None:
    assert pools_of(settings_of()) == POOLS
    assert list(pools_of(settings_of(worker_pools="usage, redrives"))) == ["usage", "redrives"]
    with pytest.raises(ConfigError, match="'likes' is not one of control, maintenance"):
        pools_of(settings_of(worker_pools="likes"))


def test_expiry_runs_while_very_many_long_tasks_do(
    transactional_db: None, queue: Settings, broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as all threads of all pools: with one pool for all there would be none left."""
    entry = TaskEntry(NAME, "Long", f"{__name__}:hold", "", "magnetar.redrives", ids=("job",), retry_s=1)
    monkeypatch.setitem(BY_NAME, NAME, entry)
    monkeypatch.setattr(workers_app, "TASKS", (*TASKS, entry))
    let_go.clear()
    sender = make_app(queue)
    for number in range(sum(pool.threads for pool in POOLS.values())):
        sender.send_task(NAME, kwargs={"job": str(number)})
    workers = make_workers(queue, Environment(queue, broker))
    try:
        for worker in workers:
            worker.start()
        for _ in range(POOLS["redrives"].threads):
            assert held.acquire(timeout=30)  # all of its threads are busy
        for name in (EXPIRE_MESSAGES, COLLECT_AUDIT):
            done = TaskRun.objects.filter(task_id=sender.send_task(name).id, outcome="succeeded")
            eventually_sync(done.all().exists, 30)
        assert not TaskRun.objects.filter(name=NAME).exclude(outcome="running").exists()
    finally:
        let_go.set()
        for worker in workers:
            worker.stop()
        assert all(worker.join(20) for worker in workers)
        for worker in workers:
            worker.app.close()
        sender.close()
