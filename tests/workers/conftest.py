"""A real Celery worker in threads, and a clock moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from messaging.settings import Settings, load
from tests.support.brokers.worker_broker import Clock, WorkerBroker, worker_broker
from tests.support.webhook_receiver import WebhookReceiver
from workers.alerts import platform
from workers.environment import Environment
from workers.process import Worker


@pytest.fixture(autouse=True)
def half_empty_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of this machine may be nearly full, which would be told beside what a test is about."""
    monkeypatch.setattr(platform, "disk_of", lambda path: platform.Disk(100, 50))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def broker(clock: Clock) -> Iterator[WorkerBroker]:
    with worker_broker(clock) as running:
        yield running


@pytest.fixture
def settings_of(tmp_path: Path) -> Callable[..., Settings]:
    def make(**values: object) -> Settings:
        return load({}, data_dir=str(tmp_path), **values)

    return make


@pytest.fixture
def environment(settings_of: Callable[..., Settings], broker: WorkerBroker, clock: Clock) -> Environment:
    return Environment(settings_of(), broker, now=clock)


@pytest.fixture
def worker(transactional_db: None, settings_of: Callable[..., Settings], broker: WorkerBroker) -> Iterator[Worker]:
    """A worker that runs: it takes tasks until the test ends."""
    worker = Worker(Environment(settings_of(), broker))
    worker.start()
    assert worker.started.wait(20), worker.failed
    yield worker
    worker.stop()
    assert worker.join(60)
    worker.app.close()


@pytest.fixture
def hook() -> Iterator[WebhookReceiver]:
    receiver = WebhookReceiver()
    yield receiver
    receiver.close()
