"""A log that takes no messages: producers are refused with an error that clients try again, everybody else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.messages import MessagePosition, OutgoingMessage
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.main import start
from messaging.errors import MagnetarError, NotReady, StorageFailed
from messaging.identity import create_secrets
from messaging.protocol.names import parse_topic
from messaging.settings import Settings
from messaging.storage.ledger_store import AppendFailed, DiskFull
from tests.support.brokers.storage_broker import ADMIN, Inbox
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/new"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    settings = Settings(data_dir=str(tmp_path), broker_port=0, ws_port=0, broker_rpc_port=0)
    create_secrets(settings)
    async with AsyncExitStack() as stack:
        service = await start(settings, stack)
        changes = [
            FeedChange(version=1, kind="tenant", key="acme", state={"admin_roles": []}),
            FeedChange(version=2, kind="namespace", key="acme/orders", state={}),
        ]
        await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=2, full=True, changes=changes))
        yield service
        await service.stop()


@pytest.fixture
def disk(broker: Broker) -> FaultyLedgerStore:
    """Stands between topics and the log; the cursor log keeps the real one, as it has space of its own."""
    faulty = FaultyLedgerStore(broker.storage.ledgers)
    broker.storage.ledgers = faulty
    return faulty


async def publish(broker: Broker, payload: bytes, sink: Inbox) -> tuple[Sequence[MessagePosition] | None, MagnetarError | None]:
    producer = await LocalSessions(broker).open_producer(ADMIN, TOPIC, None, sink)
    answer: asyncio.Future[tuple[Sequence[MessagePosition] | None, MagnetarError | None]]
    answer = asyncio.get_running_loop().create_future()
    producer.publish([OutgoingMessage(payload)], lambda positions, error: answer.set_result((positions, error)))
    result = await answer
    producer.close()
    return result


@pytest.mark.parametrize("fault", [DiskFull("no space"), AppendFailed("the outcome is unknown")])
async def test_producers_are_refused_and_consumers_go_on(broker: Broker, disk: FaultyLedgerStore, fault: AppendFailed) -> None:
    inbox, sink = Inbox(), Inbox()
    consumer = await LocalSessions(broker).open_consumer(ADMIN, TOPIC, "s", "Shared", "earliest", True, None, inbox)
    assert (await publish(broker, b"before", sink))[1] is None
    disk.fail_appends(fault)
    positions, error = await publish(broker, b"lost", sink)
    assert positions is None
    assert isinstance(error, NotReady), "whether it is stored is not known: the producer is to be opened again"
    # Consuming and acknowledging go on, on the same consumer.
    consumer.flow(10)
    await eventually(lambda: [message.payload for message in inbox.messages] == [b"before"])
    await consumer.ack([inbox.messages[0].position])
    disk.heal()
    await eventually(lambda: _stores(broker, b"after"))
    await eventually(lambda: [message.payload for message in inbox.messages][:2] == [b"before", b"after"])
    assert not inbox.ended, "the consumer was not disturbed"
    topic = await broker.topics.get(parse_topic(TOPIC), create=False)
    assert topic.subscriptions.table["s"].consumers


async def _stores(broker: Broker, payload: bytes) -> bool:
    try:
        return (await publish(broker, payload, Inbox()))[1] is None
    except MagnetarError:
        return False


async def test_no_ledger_can_be_created(broker: Broker, disk: FaultyLedgerStore) -> None:
    inbox = Inbox()
    await LocalSessions(broker).open_consumer(ADMIN, TOPIC, "s", "Shared", "earliest", True, None, inbox)
    disk.fail_next("create", DiskFull("no space"))
    with pytest.raises(StorageFailed, match="no space"):
        await LocalSessions(broker).open_producer(ADMIN, TOPIC, None, Inbox())
    assert not inbox.ended
    assert (await publish(broker, b"now", Inbox()))[1] is None


async def test_readiness_comes_back_with_the_space_for_acknowledgements(broker: Broker) -> None:
    """It took a restart."""
    inbox = Inbox()
    consumer = await LocalSessions(broker).open_consumer(ADMIN, TOPIC, "s", "Shared", "earliest", True, None, inbox)
    assert (await publish(broker, b"one", Inbox()))[1] is None
    consumer.flow(10)
    await eventually(lambda: len(inbox.messages) == 1)
    faulty = broker.storage.ledgers = FaultyLedgerStore(broker.storage.ledgers)
    broker.cursors.retry_s = 0.01
    await broker.cursors.checkpoint()  # the ledger in use was made by the real one
    faulty.fail_appends(DiskFull("no space"))
    with pytest.raises(StorageFailed, match="no space"):
        await consumer.ack([inbox.messages[0].position])
    ready, why = broker.ready()
    assert not ready and "no space" in why
    faulty.heal()
    await eventually(lambda: broker.ready()[0])
    await broker.topics.unload(parse_topic(TOPIC))
    topic = await broker.topics.get(parse_topic(TOPIC), create=False)
    assert topic.subscriptions.table["s"].backlog_entries == 0
