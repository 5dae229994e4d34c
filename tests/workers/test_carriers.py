"""Redrives and notices of many tenants on a few threads: nobody waits for somebody else's rate, or for their webhook."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.errors import NotReady
from messaging.permissions.model import tenant_role
from messaging.settings import Settings
from tenants.models import Tenant
from tests.support.brokers.worker_broker import WorkerBroker
from tests.support.waiting import eventually_sync
from workers import carriers as carriers_module
from workers.carriers import Carriers, Turn
from workers.environment import Environment
from workers.models import TaskRun
from workers.process import Worker
from workers.queue import ask_for
from workers.redrive.models import RedriveJob
from workers.schedule import NOTICES, REDRIVE, REDRIVES

HOUR_S = 3600.0


@pytest.fixture
def carriers() -> Iterator[Carriers]:
    made = Carriers(threads_max=2)
    yield made
    made.stop()
    assert made.join(30)


def test_a_task_that_waits_for_its_rate_gives_its_thread_back(carriers: Carriers) -> None:
    begun: list[int] = []

    def slow(number: int) -> Iterator[float]:
        begun.append(number)
        yield HOUR_S

    for number in range(20):
        carriers.carry(REDRIVES, Turn("a"), slow(number))
    eventually_sync(lambda: len(begun) == 20)
    done = threading.Event()

    def quick() -> Iterator[float]:
        yield 0.0
        yield 0.0
        done.set()

    carriers.carry(REDRIVES, Turn("b"), quick())
    assert done.wait(30)


def test_a_webhook_that_does_not_answer_holds_only_its_share() -> None:
    carriers, go_on, waiting = Carriers(threads_max=8), threading.Event(), threading.Semaphore(0)

    def silent() -> Iterator[float]:
        waiting.release()
        assert go_on.wait(30)
        yield from ()

    for number in range(100):  # of tenants that all send to one host, too
        carriers.carry(NOTICES, Turn(f"a{number % 10}", "silent.example"), silent())
    for _ in range(carriers_module.NOTICES_OF_DESTINATION_MAX):
        assert waiting.acquire(timeout=30)
    done = threading.Event()

    def answered() -> Iterator[float]:
        done.set()
        yield from ()

    carriers.carry(NOTICES, Turn("b", "answers.example"), answered())
    assert done.wait(30)
    assert not waiting.acquire(blocking=False)
    go_on.set()
    carriers.stop()
    assert carriers.join(30)


def test_a_task_that_raises_ends_and_others_go_on(carriers: Carriers) -> None:
    def raising() -> Iterator[float]:
        yield 0.0
        raise ZeroDivisionError

    done = threading.Event()

    def after() -> Iterator[float]:
        done.set()
        yield from ()

    carriers.carry(REDRIVES, Turn("a"), raising())
    carriers.carry(REDRIVES, Turn("a"), after())
    assert done.wait(30)


def test_a_task_without_room_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carriers_module, "WAITING_MAX", 2)
    carriers, go_on, begun = Carriers(threads_max=1), threading.Event(), []

    def held(number: int) -> Iterator[float]:
        begun.append(number)
        assert go_on.wait(30)
        yield from ()

    carriers.carry(REDRIVES, Turn("a"), held(1))
    carriers.carry(REDRIVES, Turn("a"), held(2))
    with pytest.raises(NotReady):
        carriers.carry(REDRIVES, Turn("a"), held(3))
    go_on.set()
    carriers.stop()
    assert carriers.join(30) and begun == [1, 2]


def test_redrives_at_a_low_rate_do_not_hold_up_the_redrive_of_another_tenant(
    transactional_db: None, settings_of: Callable[..., Settings], broker: WorkerBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty of a message a second, and one as fast as it goes behind them: through the queue, as workers run them."""
    settings = settings_of(worker_pools="redrives")
    monkeypatch.setattr("django.conf.settings.MAGNETAR", settings)
    tenants = ("acme", "other")
    known: dict[tuple[str, str], dict[str, Any]] = {("tenant", tenant): {"uid": f"uid-{tenant}"} for tenant in tenants}
    broker.real.tell(broker.real.version + 1, known | {("namespace", f"{tenant}/kept"): {"policies": {}} for tenant in tenants})
    for tenant in tenants:
        Tenant.unscoped.create(name=tenant, uid=f"uid-{tenant}", admin_roles=[], allowed_clusters=[])
        letters = f"persistent://{tenant}/kept/orders-s-DLQ"
        for topic in (letters, f"persistent://{tenant}/kept/orders"):
            broker.real.add(topic)
        for number in range(50):
            broker.real.publish_messages(letters, OutgoingMessage(b"%d" % number, {}, key=""))

    def job(name: str, tenant: str, rate: int) -> None:
        row = RedriveJob.unscoped.create(
            id=name,
            idempotency_key=name,
            tenant=tenant,
            tenant_uid=f"uid-{tenant}",
            owner=tenant_role(tenant),
            requested_by="x",
            created_at=datetime.now(UTC),
            topic=f"persistent://{tenant}/kept/orders-s-DLQ",
            target=f"persistent://{tenant}/kept/orders",
            subscription=name,
            rate=rate,
        )
        ask_for(REDRIVE, job=row.id)

    for number in range(20):
        job(f"slow{number}", "acme", 1)
    stopping, carriers = threading.Event(), Carriers()
    worker = Worker(Environment(settings, broker, stopping, carriers=carriers))
    worker.start()
    try:
        eventually_sync(lambda: RedriveJob.unscoped.filter(moved__gt=0).count() == 20, 30)
        job("quick", "other", 0)
        eventually_sync(lambda: RedriveJob.unscoped.get(id="quick").state == RedriveJob.State.DONE, 30)
        assert RedriveJob.unscoped.get(id="quick").moved == 50
        assert set(RedriveJob.unscoped.filter(id__startswith="slow").values_list("state", flat=True)) == {"running"}
    finally:
        stopping.set()
        worker.stop()
        carriers.stop()
        assert worker.join(60) and carriers.join(60)
    slow = TaskRun.objects.filter(arguments__job__startswith="slow")
    assert set(slow.values_list("outcome", flat=True)) == {"retrying"}, "another worker goes on with them"
