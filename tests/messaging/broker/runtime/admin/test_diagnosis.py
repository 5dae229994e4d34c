"""`explain` and `trace` of a real broker, over its admin RPC."""

from __future__ import annotations

import pytest

from messaging.adminrpc.diagnosis import MessageTrace, MessageTraced, SubscriptionExplain, SubscriptionExplained
from messaging.adminrpc.topics import StatsAsked, TopicCreate
from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.runtime.topics.dispatch.delivery_records import KEPT_MS, RECORD_BYTES, RECORDS, DeliveryRecords, Records
from messaging.broker.runtime.topics.persistent import persistent
from messaging.errors import InvalidValue, NotAllowed, SubscriptionNotFound, TopicNotFound
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.clients.consuming import TOPIC, ack, filled, id_of
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld


async def explained(world: BrokerWorld, subscription: str = "s") -> SubscriptionExplained:
    return await world.admin.diagnosis.explain(SubscriptionExplain(topic=TOPIC, subscription=subscription))


async def traced(world: BrokerWorld, ledger_id: int, entry_id: int) -> MessageTraced:
    return await world.admin.diagnosis.trace(MessageTrace(topic=TOPIC, ledger_id=ledger_id, entry_id=entry_id))


async def test_explain_follows_what_happens(world: BrokerWorld) -> None:
    await filled(world, 3)
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC)
    found = await explained(world)
    assert [one.reason for one in found.findings] == ["no_permits"]
    assert found.backlog_entries == 3 and found.sentence == found.findings[0].sentence and found.remedy
    consumer.say(pb.Command.FLOW, consumer_id=1, message_permits=10)
    messages = await consumer.messages(3)
    assert (await explained(world)).findings[0].reason == "waiting_for_acknowledgements"
    ack(consumer, *map(id_of, messages))
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    await eventually(lambda: topic.subscriptions.table["s"].backlog_entries == 0)
    assert (await explained(world)).findings[0].reason == "nothing_to_deliver"
    stats = await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))
    assert stats.stats["subscriptions"]["s"]["explanation"]["reason"] == "nothing_to_deliver"


async def test_trace_tells_where_a_message_is_and_to_whom_it_was_sent(world: BrokerWorld) -> None:
    await filled(world, 2)
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=10, consumer_name="worker")
    first, _ = await consumer.messages(2)
    at = first.body.message_id
    found = await traced(world, at.ledger_id, at.entry_id)
    assert found.entry is not None and found.entry.producer == "raw" and found.entry.stored_at_ms <= world.service.now_ms()
    (one,) = found.subscriptions
    assert (one.subscription, one.where, one.consumer, one.redeliveries) == ("s", "held_by_consumer", "worker", 0)
    assert [(record.event, record.consumer, record.certain) for record in one.deliveries] == [("sent", "worker", True)]
    assert found.recorded_since_ms == one.deliveries[0].at_ms
    ack(consumer, id_of(first))
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    await eventually(lambda: topic.subscriptions.table["s"].backlog_entries == 1)
    (one,) = (await traced(world, at.ledger_id, at.entry_id)).subscriptions
    assert (one.where, one.sentence, len(one.deliveries)) == ("acknowledged", "It is acknowledged.", 1)


async def test_trace_knows_what_maintenance_expired(world: BrokerWorld) -> None:
    await filled(world, 3)
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=1)
    await consumer.messages(1)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    last = topic.ledger_list.last
    await traced(world, *last)
    await persistent(topic).acknowledgements.expire_up_to(topic.subscriptions.table["s"], last._replace(entry_id=1))
    for entry_id, where, events in ((0, "expired", ["sent", "expired"]), (1, "expired", ["expired"]), (2, "not_sent_yet", [])):
        (one,) = (await traced(world, last.ledger_id, entry_id)).subscriptions
        assert (one.where, [record.event for record in one.deliveries]) == (where, events)


async def test_trace_does_not_guess_which_entries_expired_and_which_were_acknowledged_before(world: BrokerWorld) -> None:
    await filled(world, 3)
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC, permits=10)
    messages = await consumer.messages(3)
    ack(consumer, id_of(messages[1]))
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    held = topic.subscriptions.table["s"]
    await eventually(lambda: held.backlog_entries == 2)
    await persistent(topic).acknowledgements.expire_up_to(held, topic.ledger_list.last)
    (one,) = (await traced(world, topic.ledger_list.last.ledger_id, 1)).subscriptions
    assert one.where == "acknowledged"
    assert [(record.event, record.certain) for record in one.deliveries] == [("sent", True), ("expired", False)]


async def test_trace_says_what_it_does_not_know(world: BrokerWorld) -> None:
    await filled(world, 1)
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    last = topic.ledger_list.last
    found = await traced(world, last.ledger_id, last.entry_id)
    assert found.entry is not None and found.recorded_since_ms is None and found.subscriptions == []
    after = await traced(world, last.ledger_id, last.entry_id + 1)
    assert after.entry is None and "after the last one" in after.sentence
    before = await traced(world, 0, 0)
    assert before.entry is None and "unknown" in before.sentence


async def test_what_does_not_exist_is_an_error(world: BrokerWorld) -> None:
    with pytest.raises(TopicNotFound):
        await explained(world)
    await filled(world, 0)
    with pytest.raises(SubscriptionNotFound):
        await explained(world, "nobody")
    with pytest.raises(InvalidValue):
        await traced(world, -1, 0)
    with pytest.raises(InvalidValue):
        await traced(world, 1, 1 << 32)
    await world.admin.topics.create(TopicCreate(topic=TOPIC + "-parts", partitions=2))
    with pytest.raises(NotAllowed):
        await world.admin.diagnosis.explain(SubscriptionExplain(topic=TOPIC + "-parts", subscription="s"))


class Recorded:
    def __init__(self) -> None:
        self.records: Records | None = None


def test_records_are_charged_and_the_oldest_make_room() -> None:
    account = MemoryLimiter(16 << 20).records
    keeper = DeliveryRecords(account)
    topics = [Recorded() for _ in range(200)]
    for topic in topics:
        keeper.open(topic, 0)
    kept = [topic for topic in topics if topic.records is not None]
    assert 0 < len(kept) < len(topics) and account.used_bytes == len(kept) * RECORDS * RECORD_BYTES
    keeper.open(topics[-1], KEPT_MS)
    assert topics[-1].records is not None and topics[0].records is None
    for topic in topics:
        keeper.close(topic)
        keeper.close(topic)
    assert account.used_bytes == 0
