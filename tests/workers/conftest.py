"""A real Valkey server, a real Celery worker in threads, and a clock moved by hand."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery

from messaging.settings import Settings, load
from tests.support.worker_broker import Clock, WorkerBroker, worker_broker
from tests.workers.valkey_server import Server
from workers import app as app_module
from workers.app import make_app
from workers.environment import Environment
from workers.process import Worker


@pytest.fixture(autouse=True)
def what_celery_leaves_behind() -> Iterator[None]:
    """Celery leaves connections to its queue to the garbage collector; those of one test must not warn in the next."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def valkey_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    server = Server(tmp_path_factory.mktemp("valkey") / "v.sock")
    server.start()
    yield server.socket
    server.kill()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "v.sock")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def broker(clock: Clock) -> Iterator[WorkerBroker]:
    with worker_broker(clock) as held:
        yield held


@pytest.fixture
def settings_of(tmp_path: Path) -> Callable[..., Settings]:
    def make(**values: object) -> Settings:
        return load({}, data_dir=str(tmp_path), **values)

    return make


@pytest.fixture
def environment(settings_of: Callable[..., Settings], broker: WorkerBroker, clock: Clock) -> Environment:
    return Environment(settings_of(), broker, now=clock)


@pytest.fixture
def queue(settings_of: Callable[..., Settings], valkey_socket: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings whose queue is a real, empty server. The sender of an earlier test is forgotten."""
    monkeypatch.setattr(app_module, "sender_app", None)
    with redis.Redis(unix_socket_path=str(valkey_socket)) as client:
        client.flushall()
    return settings_of(redis_url=f"unix://{valkey_socket}")


@pytest.fixture
def celery_app(transactional_db: None, queue: Settings, broker: WorkerBroker, clock: Clock) -> Iterator[Celery]:
    """The application of a worker that runs: it takes tasks until the test ends."""
    app = make_app(queue, Environment(queue, broker, now=clock))
    worker = Worker(app)
    worker.start()
    assert worker.started.wait(20), worker.failed
    yield app
    worker.stop()
    assert worker.join(10)
    app.close()


@pytest.fixture
def sender(queue: Settings) -> Iterator[Celery]:
    """Another process' application: it knows the queue and no work."""
    app = make_app(queue)
    yield app
    app.close()
