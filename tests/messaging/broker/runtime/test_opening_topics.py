"""What opening a topic that does not exist costs."""

from __future__ import annotations

from collections import Counter

import pytest

from messaging.errors import NotAllowed
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.meta_store import PartitionedRecord
from tests.support.worlds.broker_world import BrokerWorld

pytestmark = pytest.mark.asyncio

TOPIC = "persistent://acme/orders/new"
MUTATING = ("cas_topic", "cas_partitioned", "create_subscription", "put_value", "save_cursors", "next_ledger_id")


def counted(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    calls: Counter[str] = Counter()
    for name in ("get_topic", "get_partitioned", "subscriptions", "get_value", "schema_versions", *MUTATING):
        real = getattr(world.meta, name)

        async def call(*values: object, real: object = real, name: str = name, **named: object) -> object:
            calls[name] += 1
            return await real(*values, **named)  # type: ignore[operator]

        monkeypatch.setattr(world.meta, name, call)
    return calls


async def test_a_producer_of_a_new_topic_takes_one_commit(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await world.connected("writer")
    calls = counted(world, monkeypatch)
    await client.producer(TOPIC)
    assert calls == {"get_topic": 1, "cas_topic": 1, "next_ledger_id": 1} | (
        {"schema_versions": 1} if calls["schema_versions"] else {}
    )
    topic = world.service.topics.loaded[TOPIC]
    assert topic.ledger.writing_to == topic.ledger.record.ledgers[0].ledger_id


async def test_a_consumer_of_a_new_topic_makes_no_ledger(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.subscribe(TOPIC)
    assert world.service.topics.loaded[TOPIC].ledger.record.ledgers == ()


async def test_a_partitioned_topic_is_no_topic_of_its_own(world: BrokerWorld) -> None:
    await world.meta.cas_partitioned(world.service.storage.fence, PartitionedRecord(TOPIC, 2))
    name = parse_topic(TOPIC)
    for create in (True, False):
        with pytest.raises(NotAllowed, match="is a partitioned topic: use its partitions"):
            await world.service.topics.get(name, create=create)
    client = await world.connected("writer")
    client.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=1)
    assert (await client.expect("ERROR")).error == pb.NotAllowedError
    assert [info for info in await world.ledgers.ledgers() if "reserved" not in info.properties] == []
