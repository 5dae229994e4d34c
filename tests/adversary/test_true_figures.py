"""What the stats of a topic say, against what happened.

Seen: rates of single producers, subscriptions and consumers were zero whatever flowed; the stats of a partitioned topic had neither
producers nor consumers; the age of the oldest message that nobody acknowledged was in no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messaging.adminrpc.topics import StatsAsked, TopicCreate
from messaging.broker.runtime.client_subscriptions import open_subscription
from messaging.broker.runtime.topics.backlog import age as oldest
from messaging.broker.runtime.topics.backlog.stored_entries import StoredEntries
from messaging.permissions.model import Principal
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST, Unavailable
from tests.support.clients.raw_client import RawClient, batch_frame, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TOPIC = "persistent://acme/orders/t"


class Clock:
    now_ms = 1_000_000

    def beat(self, world: BrokerWorld, seconds: float = 1.0) -> None:
        """So much later, the rates are sampled."""
        self.now_ms += round(seconds * 1000)
        world.service.metering.sample_rates()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("messaging.broker.runtime.metering.metering.boottime_ms", lambda: made.now_ms)
    return made


async def stats(world: BrokerWorld, topic: str = TOPIC) -> dict[str, Any]:
    return (await world.admin.topic_stats.stats(StatsAsked(topic=topic))).stats


async def client_of(world: BrokerWorld, *topics: str, **fields: Any) -> RawClient:
    """A producer and a Shared consumer on each, with ids from 1 on."""
    client = await world.connected()
    for index, topic in enumerate(topics, 1):
        await client.producer(topic, index, producer_name="p")
        await client.subscribe(topic, consumer_id=index, consumer_name="c", **{"permits": 1_000} | fields)
    return client


async def send(client: RawClient, count: int, first: int = 0, producer_id: int = 1) -> list[pb.MessageId]:
    """So many messages; their ids, once the consumer has them."""
    client.write(*(send_frame(first + index, b"x" * 90, producer_id) for index in range(count)))
    message_ids: list[pb.MessageId] = []
    receipts = 0
    while receipts < count or len(message_ids) < count:
        answer = await client.next()
        receipts += answer.name == "SEND_RECEIPT"
        if answer.name == "MESSAGE":
            message_ids.append(answer.body.message_id)
    return message_ids


async def ack(client: RawClient, ids: list[pb.MessageId], consumer_id: int = 1) -> None:
    client.say(pb.Command.ACK, consumer_id=consumer_id, ack_type=pb.Ack.Individual, message_id=ids)
    await client.quiet()


def only(topic_stats: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The producer, the subscription and the consumer of a topic that has one of each."""
    (publisher,) = topic_stats["publishers"]
    (subscription,) = topic_stats["subscriptions"].values()
    (consumer,) = subscription["consumers"]
    return publisher, subscription, consumer


async def test_rates_of_every_producer_subscription_and_consumer(world: BrokerWorld, clock: Clock) -> None:
    client = await client_of(world, TOPIC)
    await send(client, 1)
    clock.beat(world)
    ids = await send(client, 40, first=1)
    await ack(client, ids[:20])
    client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=ids[20:30])
    await client.messages(10)
    clock.beat(world, 2)
    publisher, subscription, consumer = only(topic_stats := await stats(world))
    assert topic_stats["msgRateIn"] == publisher["msgRateIn"] == 20.0
    assert publisher["msgThroughputIn"] == topic_stats["msgThroughputIn"] > 20 * 90
    assert subscription["msgRateOut"] == consumer["msgRateOut"] == topic_stats["msgRateOut"] == 25.0
    assert subscription["msgThroughputOut"] == consumer["msgThroughputOut"] > 25 * 90
    assert subscription["messageAckRate"] == consumer["messageAckRate"] == 10.0
    assert subscription["msgRateRedeliver"] == consumer["msgRateRedeliver"] == 5.0
    client.say(pb.Command.CONSUMER_STATS, consumer_id=1)  # what the C++ and Python clients ask over the connection
    told = await client.expect("CONSUMER_STATS_RESPONSE")
    assert [told.msg_rate_out, told.message_ack_rate, told.msg_rate_redeliver, told.msg_rate_expired] == [25.0, 10.0, 5.0, 0.0]
    assert told.msg_throughput_out == consumer["msgThroughputOut"]


async def test_rates_fall_to_nothing_and_cost_nothing_when_nothing_happens(world: BrokerWorld, clock: Clock) -> None:
    client = await client_of(world, TOPIC)
    ids = await send(client, 10)
    topic = world.service.topics.loaded[TOPIC]
    for _ in range(10):
        clock.beat(world)
    assert topic.rates is None  # though a consumer is connected
    publisher, subscription, consumer = only(await stats(world))
    assert [publisher["msgRateIn"], subscription["msgRateOut"], consumer["messageAckRate"]] == [0.0, 0.0, 0.0]
    await ack(client, ids[:1])  # acknowledging alone is something too
    clock.beat(world)
    await ack(client, ids[1:])
    clock.beat(world)
    assert only(await stats(world))[2]["messageAckRate"] == 9.0


async def test_batches_count_their_messages(world: BrokerWorld, clock: Clock) -> None:
    client = await client_of(world, TOPIC)
    client.write(batch_frame(0, [b"a"] * 10))
    await client.expect("SEND_RECEIPT")
    (first,) = await client.messages(1)
    clock.beat(world)
    client.write(batch_frame(10, [b"b"] * 10))
    await client.expect("SEND_RECEIPT")
    await client.messages(1)
    await ack(client, [first.body.message_id])
    clock.beat(world)
    publisher, _, consumer = only(await stats(world))
    assert [publisher["msgRateIn"], consumer["msgRateOut"], consumer["messageAckRate"]] == [10.0, 10.0, 10.0]
    assert consumer["avgMessagesPerEntry"] == 10


async def test_very_many_members_are_sampled_in_parts(world: BrokerWorld, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done in one turn of the loop does not grow with the number of subscriptions."""
    monkeypatch.setattr("messaging.broker.runtime.metering.metering.MEMBERS_MAX", 8)
    client = await world.connected()
    await client.producer(TOPIC)
    for index in range(20):
        await client.subscribe(TOPIC, f"s{index}", index, permits=100)
    taken: list[object] = []
    take = "messaging.broker.runtime.topics.member_rates.MemberRates.record"
    from messaging.broker.runtime.topics.member_rates import MemberRates

    real: Callable[..., None] = MemberRates.record
    monkeypatch.setattr(take, lambda self, member, now_ms, totals: (taken.append(member), real(self, member, now_ms, totals))[1])
    client.write(send_frame(0, b"x"))
    await client.quiet()
    for _ in range(6):
        before = len(taken)
        clock.beat(world)
        assert len(taken) - before <= 8
    assert len(set(map(id, taken))) == 41  # all of them, in six turns
    assert world.service.topics.loaded[TOPIC].rates is not None


# --- age


async def test_the_age_of_the_oldest_message_that_is_not_acknowledged(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a subscription far behind what is in memory, and after the topic was loaded anew."""
    now_ms = world.service.now_ms() + 60_000
    monkeypatch.setattr(world.service.storage, "clock_ms", lambda: now_ms)
    monkeypatch.setattr(world.service, "now_ms", lambda: now_ms)
    client = await client_of(world, TOPIC)
    await client.subscribe(TOPIC, "done", 2, permits=1_000)
    client.write(send_frame(0, b"old"))
    await client.quiet()
    now_ms += 3_600_000
    client.write(send_frame(1, b"new"))
    await client.quiet()
    await world.service.topics.unload(parse_topic(TOPIC))
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    topic.subscriptions.table["done"].acknowledge_up_to(topic.ledger_list.last, now_ms)
    now_ms += 60_000
    topic_stats = await stats(world)
    assert topic_stats["subscriptions"]["s"]["oldestBacklogMessageAgeSeconds"] == 3_660
    assert topic_stats["subscriptions"]["done"]["oldestBacklogMessageAgeSeconds"] == -1
    assert topic_stats["oldestBacklogMessageAgeSeconds"] == 3_660
    assert topic_stats["oldestBacklogMessageSubscriptionName"] == "s"
    assert topic_stats["earliestMsgPublishTimeInBacklogs"] == now_ms - 3_660_000
    topic.subscriptions.table["s"].acknowledge_up_to(topic.ledger_list.first, now_ms)
    assert (await stats(world))["oldestBacklogMessageAgeSeconds"] == 60


async def test_an_age_that_cannot_be_known_is_not_made_up(world: BrokerWorld) -> None:
    client = await client_of(world, TOPIC)
    await send(client, 1)
    await world.service.topics.unload(parse_topic(TOPIC))
    await world.service.topics.get(parse_topic(TOPIC), create=False)
    world.ledgers.fail_next("read", Unavailable("the disk is busy"))
    topic_stats = await stats(world)
    assert (topic_stats["oldestBacklogMessageAgeSeconds"], topic_stats["oldestBacklogMessageSubscriptionName"]) == (-1, "")
    assert topic_stats["subscriptions"]["s"]["msgBacklog"] == 1
    assert (await stats(world))["oldestBacklogMessageSubscriptionName"] == "s"  # later it can be read


async def test_ages_of_very_many_subscriptions_read_a_bounded_number(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oldest, "READS_MAX", 3)
    client = await client_of(world, TOPIC)
    await send(client, 10)
    topic = world.service.topics.loaded[TOPIC]
    reads: list[object] = []

    async def count(entries: StoredEntries, position: object) -> int:
        reads.append(position)
        return 1

    monkeypatch.setattr(StoredEntries, "broker_time", count)
    for index in range(8):
        made = await open_subscription(world.service, Principal("admin"), topic, f"s{index}", start=EARLIEST)
        made.acknowledge_up_to(topic.ledger_list.at_index(index), 0)
    for expected in (3, 6, 9, 9):
        topic_stats = await stats(world)
        assert len(reads) == expected
    ages = [subscription["oldestBacklogMessageAgeSeconds"] for subscription in topic_stats["subscriptions"].values()]
    assert all(age >= 0 for age in ages)


# --- states


async def test_blocked_on_unacknowledged_messages_shows_and_goes(make_world: MakeWorld) -> None:
    world = await make_world(consumer_unacked_max=5)
    client = await world.connected()
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, permits=100)
    client.write(*(send_frame(index, b"x") for index in range(10)))
    messages = [answer for answer in [await client.next() for _ in range(15)] if answer.name == "MESSAGE"]
    assert len(messages) == 5
    _, subscription, consumer = only(await stats(world))
    assert consumer["blockedConsumerOnUnackedMsgs"] and not subscription["blockedSubscriptionOnUnackedMsgs"]
    assert consumer["unackedMessages"] == 5
    await ack(client, [messages[0].body.message_id])
    client.say(
        pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=[message.body.message_id for message in messages[1:]]
    )
    await eventually(lambda: world.service.topics.loaded[TOPIC].subscriptions.table["s"].backlog_entries == 5)


async def test_falling_behind_is_a_backlog_that_grew_while_somebody_was_connected(world: BrokerWorld, clock: Clock) -> None:
    client = await world.connected()
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, permits=1)
    await open_subscription(world.service, Principal("admin"), world.service.topics.loaded[TOPIC], "nobody", start=EARLIEST)
    for index in range(13):
        client.write(*(send_frame(10 * index + number, b"x") for number in range(10)))
        await client.quiet()
        clock.beat(world, 5)
    subscriptions = (await stats(world))["subscriptions"]
    assert (subscriptions["s"]["backlogGrows"], subscriptions["nobody"]["backlogGrows"]) == (True, False)


# --- partitioned topics


async def test_a_partitioned_topic_has_its_producers_and_consumers(world: BrokerWorld, clock: Clock) -> None:
    base = "persistent://acme/orders/p"
    await world.admin.topics.create(TopicCreate(topic=base, partitions=3))
    client = await client_of(world, *(f"{base}-partition-{index}" for index in range(2)))  # the third has nobody
    for _ in range(2):
        clock.beat(world)
        for producer_id in (1, 2):
            await send(client, 10, producer_id=producer_id)
    clock.beat(world)
    await world.service.topics.unload(parse_topic(f"{base}-partition-2"))
    topic_stats = (await world.admin.topic_stats.partitioned_stats(StatsAsked(topic=base))).stats
    publisher, subscription, consumer = only(topic_stats)
    assert [publisher["producerName"], consumer["consumerName"]] == ["p", "c"]
    assert publisher["msgRateIn"] == consumer["msgRateOut"] == subscription["msgRateOut"] == topic_stats["msgRateIn"] == 20.0
    assert (topic_stats["msgInCounter"], subscription["msgBacklog"], consumer["unackedMessages"]) == (40, 40, 40)
    assert set(topic_stats["partitions"]) == {f"{base}-partition-{index}" for index in range(3)}
