"""The queue on a real Redis server over TCP, as in a larger installation: tasks cross it, and its death loses no work."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from messaging.settings import Settings
from tests.support.waiting import eventually_sync
from tests.support.worker_broker import WorkerBroker
from workers import app as workers_app
from workers import sending
from workers.app import make_app
from workers.environment import Environment
from workers.models import TaskRun
from workers.process import Worker, make_workers
from workers.sending import ask_for
from workers.task_catalog import BY_NAME, POOLS, TASKS, TaskEntry
from workers.tasks.repeating import repeat_tasks

NAME = "tests.counted"
counted: list[str] = []


def count(environment: Environment, task_id: str, renew: Any, job: str) -> dict[str, Any]:
    counted.append(job)
    return {}


class RedisServer:
    """Keeps nothing over a restart, so that whatever it held is lost."""

    def __init__(self) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            pytest.skip("no redis-server on this machine: apt-get install redis-server")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._command = [binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._child = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually_sync(self._answers)

    def _answers(self) -> bool:
        try:
            with redis.Redis(port=self.port) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()


@pytest.fixture
def server() -> Iterator[RedisServer]:
    held = RedisServer()
    held.start()
    yield held
    held.kill()


@pytest.mark.filterwarnings("ignore::celery.exceptions.CPendingDeprecationWarning")
def test_what_redis_lost_is_sent_again_and_done_once(
    transactional_db: None,
    server: RedisServer,
    settings_of: Callable[..., Settings],
    broker: WorkerBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Asked for while a worker runs, while Redis is down, and before Redis dies with the messages in it."""
    entry = TaskEntry(NAME, "Counted", f"{__name__}:count", "", ids=("job",), retry_s=1)
    monkeypatch.setitem(BY_NAME, NAME, entry)
    monkeypatch.setattr(workers_app, "TASKS", (*TASKS, entry))
    monkeypatch.setattr("workers.tasks.repeating.QUEUED_S", 0)
    counted.clear()
    settings = settings_of(redis_url=f"redis://127.0.0.1:{server.port}/0")
    client = make_app(settings)
    monkeypatch.setattr(workers_app, "sender_app", client)
    environment = Environment(settings, broker)
    app = make_app(settings, environment)
    assert app.conf.broker_url.startswith("redis://")
    ask_for(NAME, job="before")  # nobody takes it yet: it dies with the server
    server.kill()
    ask_for(NAME, job="while it was down")
    server.start()
    worker = Worker(app)
    worker.start()
    try:
        assert worker.started.wait(20), worker.failed
        ask_for(NAME, job="after")
        eventually_sync(lambda: "after" in counted, timeout_s=20)
        server.kill()
        server.start()

        def all_done() -> bool:
            repeat_tasks(environment, "look", lambda **progress: None)
            return set(TaskRun.objects.values_list("outcome", flat=True)) == {"succeeded"}

        eventually_sync(all_done, timeout_s=60)
    finally:
        worker.stop()
        assert worker.join(20)
        app.close()
        client.close()
    assert sorted(counted) == ["after", "before", "while it was down"]
    assert sending.ID_LENGTH_MAX  # the ids are all that crossed the queue


@pytest.mark.filterwarnings("ignore::celery.exceptions.CPendingDeprecationWarning")
def test_every_pool_goes_on_after_redis_was_away(
    transactional_db: None,
    server: RedisServer,
    settings_of: Callable[..., Settings],
    broker: WorkerBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The workers of a process have nothing in common but the process."""
    entries = [TaskEntry(f"{NAME}.{pool}", pool, f"{__name__}:count", "", POOLS[pool].queues[0], ids=("job",)) for pool in POOLS]
    for entry in entries:
        monkeypatch.setitem(BY_NAME, entry.name, entry)
    monkeypatch.setattr(workers_app, "TASKS", (*TASKS, *entries))
    counted.clear()
    settings = settings_of(redis_url=f"redis://127.0.0.1:{server.port}/0")
    client = make_app(settings)
    workers = make_workers(settings, Environment(settings, broker))

    def everybody_works(when: str) -> None:
        for entry in entries:
            client.send_task(entry.name, kwargs={"job": f"{when} {entry.title}"})
        eventually_sync(lambda: {f"{when} {entry.title}" for entry in entries} <= set(counted), timeout_s=30)

    try:
        for worker in workers:
            worker.start()
        assert all(worker.started.wait(20) for worker in workers)
        everybody_works("before")
        for turn in range(3):
            server.kill()
            server.start()
            everybody_works(f"after {turn}")
        assert not any(worker.ended for worker in workers)
    finally:
        for worker in workers:
            worker.stop()
        assert all(worker.join(20) for worker in workers)
        for worker in workers:
            worker.app.close()
        client.close()
