"""Damage in what deduplication reads when a topic is loaded: the topic opens, and can be deleted, all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from messaging.adminrpc.topics import TopicDelete
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.topics.producers.deduplication import key_of
from messaging.errors import MagnetarError, TopicNotFound
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import WHOLE, Position, StoreError, Unavailable
from tests.support.brokers.storage_broker import ADMIN, TOPIC, Inbox, publish, storage_broker, stored_numbers
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore

NAME = parse_topic(TOPIC)


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledgers = FaultyLedgerStore(MemoryLedgerStore())
        self.meta = MemoryMetaStore()
        self.service: Broker

    async def start(self) -> World:
        self.service = await storage_broker(self.folder, self.ledgers, self.meta, deduplication=True)
        return self

    async def crash(self) -> None:
        """No snapshot is taken: what deduplication knows is in the log alone."""
        assert isinstance(self.ledgers.store, MemoryLedgerStore)
        self.ledgers = FaultyLedgerStore(MemoryLedgerStore(self.ledgers.store))
        await self.start()


@pytest.fixture
async def world(tmp_path: Path) -> World:
    ready = await World(tmp_path).start()
    for number in range(6):  # a block each
        await publish(ready.service, number, number + 1)
    await ready.crash()
    return ready


async def damaged(world: World, number: int) -> Position:
    record = await world.meta.get_topic(TOPIC)
    assert record is not None
    place = Position(record.ledgers[0].ledger_id, number)
    world.ledgers.damage(*place)
    return place


async def test_a_damaged_entry_is_passed_over(world: World) -> None:
    """It kept the topic from opening."""
    await damaged(world, 2)
    for number in range(7):
        await publish(world.service, number, number + 1)
    topic = world.service.topics.loaded[TOPIC]
    assert topic.ledger_list.entries == 7, "all but the seventh were known to be there, what stood behind the damage too"
    assert world.service.storage.damage["deduplication"] == 1


async def test_the_last_entry_is_damaged(world: World) -> None:
    """Whether its message is there nobody can tell: it is stored again, not answered with a receipt for what may be lost."""
    await damaged(world, 5)
    await publish(world.service, 5, 6)
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 7


@pytest.mark.parametrize("content", [b"\x09", b"\x01", b"garbage that is long enough to hold a head and then some"])
async def test_a_damaged_snapshot_is_replaced_by_all_that_is_stored(world: World, content: bytes) -> None:
    await world.meta.put_value(world.service.storage.fence, key_of(TOPIC), content)
    await publish(world.service, 0, 6)
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 6
    assert world.service.storage.damage["deduplication"] == 1


async def test_a_topic_that_cannot_be_opened_is_deleted(world: World) -> None:
    """Deleting loaded the topic first, and so never came to its end."""
    record = await world.meta.get_topic(TOPIC)
    assert record is not None
    await world.meta.create_subscription(
        world.service.storage.fence, TOPIC, "s", created_ms=1, mark_delete=Position(-1, -1), properties={}
    )
    with refusing(world.ledgers, "seal", Unavailable("the disk does not answer")):
        with pytest.raises(MagnetarError):
            await LocalSessions(world.service).open_producer(ADMIN, TOPIC, "p", Inbox())
        await AdminHandlers(world.service).topics.delete(TopicDelete(topic=TOPIC, force=False))
    with pytest.raises(TopicNotFound):
        await AdminHandlers(world.service).topics.delete(TopicDelete(topic=TOPIC, force=True))
    assert await world.meta.get_topic(TOPIC) is None and await world.meta.subscriptions(TOPIC) == []
    assert record.ledgers[0].ledger_id not in await world.ledgers.ledger_ids(WHOLE)
    await publish(world.service, 0, 1)
    assert sorted(await stored_numbers(world.service)) == [0], "a topic of that name begins anew, its sequence ids too"


@contextmanager
def refusing(ledgers: FaultyLedgerStore, call: str, error: StoreError) -> Iterator[None]:
    real = ledgers.call

    async def refuse(name: str, work: object) -> object:
        if name == call:
            raise error
        return await real(name, work)  # type: ignore[arg-type]

    ledgers.call = refuse  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        ledgers.call = real  # type: ignore[method-assign]


@pytest.mark.parametrize("loaded", [True, False])
async def test_a_deleted_topic_leaves_no_row(world: World, loaded: bool) -> None:
    """Each left the key of its deduplication, for ever."""
    for number in range(20):
        topic = f"persistent://acme/orders/short-{number}"
        await publish(world.service, 0, 3, topic=topic)
        if not loaded:
            await world.service.topics.unload(parse_topic(topic))
        await world.service.topics.delete(parse_topic(topic), force=True)
    assert [key for key in world.meta.values if "short" in key] == []
    assert [name for name in await world.meta.list_all_topics() if "short" in name] == []
