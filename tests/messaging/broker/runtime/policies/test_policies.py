"""What each policy does, seen by clients of a real broker: one test at least for every policy that is accepted.

`tests/messaging/policies/test_registry.py` fails where an enforced policy has no test called ``test_policy_<name>_...`` in a module
``test_policies*.py`` here.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.adminrpc.maintenance import MaintenanceResult, MaintenanceRun
from messaging.adminrpc.subscriptions import SubscriptionCreate, SubscriptionSkip
from messaging.adminrpc.topics import StatsAsked, TopicCreate
from messaging.broker.core.seek_target import SeekTarget
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import PreconditionFailed
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
from messaging.storage.managed.retention import LedgerLimits
from tests.support.clients.raw_client import RawClient, Received, send_frame
from tests.support.clock import Clock, give
from tests.support.policies import set_policies
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
NAME = parse_topic(TOPIC)
C = pb.Command


@pytest.fixture
def clock(world: BrokerWorld) -> Clock:
    clock = Clock()
    give(world.service, clock)
    return clock


async def upkeep(world: BrokerWorld) -> MaintenanceResult:
    result = await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))
    assert result.failed == {}
    return result


async def published(world: BrokerWorld, count: int, payload: bytes = b"x") -> tuple[RawClient, Topic]:
    """A topic with a subscription and so many messages."""
    client = await world.connected("owner")
    await client.producer(TOPIC)
    topic = await world.service.topics.get(NAME, create=False)
    await topic.subscriptions.create("s", EARLIEST)
    for index in range(count):
        client.write(send_frame(index, payload))
        await client.expect("SEND_RECEIPT")
    return client, topic


async def test_policy_message_ttl_s_keeps_expired_messages_from_consumers(world: BrokerWorld, clock: Clock) -> None:
    client, _ = await published(world, 2)
    clock.pass_(9_999)
    assert (await upkeep(world)).expired_entries == 0
    await set_policies(world, message_ttl_s=10)
    assert (await upkeep(world)).expired_entries == 0
    clock.pass_(2)
    assert (await upkeep(world)).expired_entries == 2
    await client.subscribe(TOPIC, "s", permits=10)
    assert await client.quiet() == []


async def rolled(world: BrokerWorld, topic: Topic) -> None:
    await topic.ledger.roll()
    await world.admin.subscriptions.skip(SubscriptionSkip(topic=TOPIC, subscription="s"))


async def test_policy_retention_time_min_keeps_acknowledged_messages_that_long(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, retention_time_min=5, retention_size_mb=-1)
    _, topic = await published(world, 3)
    await rolled(world, topic)
    clock.pass_(5 * 60_000 - 1)
    assert (await upkeep(world)).trimmed_ledgers == 0
    clock.pass_(2)
    assert (await upkeep(world)).trimmed_ledgers == 1


async def test_policy_retention_size_mb_keeps_acknowledged_messages_up_to_that_size(world: BrokerWorld) -> None:
    world.service.storage.limits = LedgerLimits(entries_max=1)
    await set_policies(world, retention_time_min=-1, retention_size_mb=-1)
    _, topic = await published(world, 5, b"x" * (400 << 10))
    await rolled(world, topic)
    assert (await upkeep(world)).trimmed_ledgers == 0
    await set_policies(world, retention_time_min=-1, retention_size_mb=1)
    assert (await upkeep(world)).trimmed_ledgers > 0
    kept = [info.length_bytes for info in await world.ledgers.ledgers() if "reserved" not in info.properties and info.entries]
    assert 0 < sum(kept) <= 1 << 20


async def test_policy_deduplication_stores_what_is_sent_again_once(world: BrokerWorld) -> None:
    for wanted in (1, 2):
        topic_name = f"{TOPIC}-{wanted}"
        await set_policies(world, topic_name, deduplication=wanted == 1)
        client = await world.connected("owner")
        await client.producer(topic_name, producer_name="raw")
        for _ in range(2):
            client.write(send_frame(7, b"once"))
            await client.expect("SEND_RECEIPT")
        assert (await world.service.topics.get(parse_topic(topic_name), create=False)).ledger_list.entries == wanted


async def test_policy_auto_topic_creation_decides_whether_use_creates_a_topic(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await set_policies(world, auto_topic_creation=False)
    for kind, fields in ((C.PRODUCER, {"producer_id": 1}), (C.SUBSCRIBE, {"subscription": "s", "consumer_id": 1, "sub_type": 1})):
        client.say(kind, topic=TOPIC, **fields)
        assert (await client.expect("ERROR")).error == pb.TopicNotFound
    await set_policies(world, auto_topic_creation=True)
    await client.producer(TOPIC)


async def refused(client: RawClient, kind: Any, **fields: Any) -> int:
    """The error that a PRODUCER or SUBSCRIBE is answered with."""
    client.say(kind, topic=TOPIC, **fields)
    return int((await client.expect("ERROR")).error)


async def test_policy_max_producers_per_topic_refuses_one_more(world: BrokerWorld) -> None:
    await set_policies(world, max_producers_per_topic=2)
    client = await world.connected("owner")
    for number in (1, 2):
        await client.producer(TOPIC, number, producer_name=f"p{number}")
    assert await refused(client, C.PRODUCER, producer_id=3) == pb.ProducerBusy
    client.say(C.CLOSE_PRODUCER, producer_id=1)
    await client.expect("SUCCESS")
    await client.producer(TOPIC, 3)
    await set_policies(world)
    await client.producer(TOPIC, 4)


async def test_policy_max_consumers_per_subscription_refuses_one_more(world: BrokerWorld) -> None:
    await set_policies(world, max_consumers_per_subscription=2)
    client = await world.connected("owner")
    for number in (1, 2):
        await client.subscribe(TOPIC, "s", number)
    more = {"consumer_id": 3, "sub_type": pb.Subscribe.Shared}
    assert await refused(client, C.SUBSCRIBE, subscription="s", **more) == pb.ConsumerBusy
    await client.subscribe(TOPIC, "another", 3)


async def test_policy_max_consumers_per_topic_refuses_one_more_on_any_subscription(world: BrokerWorld) -> None:
    await set_policies(world, max_consumers_per_topic=2)
    client = await world.connected("owner")
    for number in (1, 2):
        await client.subscribe(TOPIC, f"s{number}", number)
    more = {"consumer_id": 3, "sub_type": pb.Subscribe.Shared}
    assert await refused(client, C.SUBSCRIBE, subscription="s1", **more) == pb.ConsumerBusy
    assert await refused(client, C.SUBSCRIBE, subscription="reader", durable=False, **more) == pb.ConsumerBusy
    topic = await world.service.topics.get(NAME, create=False)
    assert "reader" not in topic.subscriptions.table


async def test_policy_max_subscriptions_per_topic_refuses_one_more(world: BrokerWorld) -> None:
    await set_policies(world, max_subscriptions_per_topic=1)
    client = await world.connected("owner")
    await client.subscribe(TOPIC, "s", 1)
    assert await refused(client, C.SUBSCRIBE, subscription="more", consumer_id=2, sub_type=1) == pb.NotAllowedError
    with pytest.raises(PreconditionFailed, match=f"max_subscriptions_per_topic = 1, set on the {world.policy_level}"):
        await world.admin.subscriptions.create(SubscriptionCreate(topic=TOPIC, subscription="more"))
    await client.subscribe(TOPIC, "s", 2)
    await client.subscribe(TOPIC, "reader", 3, durable=False)


async def test_policy_subscription_types_lets_no_other_type_in(world: BrokerWorld) -> None:
    await set_policies(world, subscription_types=["Exclusive", "Failover"])
    client = await world.connected("owner")
    for kind in (pb.Subscribe.Shared, pb.Subscribe.Key_Shared):
        assert await refused(client, C.SUBSCRIBE, subscription="s", consumer_id=1, sub_type=kind) == pb.NotAllowedError
    await client.subscribe(TOPIC, "f", 2, sub_type=pb.Subscribe.Failover)
    await client.expect("ACTIVE_CONSUMER_CHANGE")
    await set_policies(world, subscription_types=[])
    await client.subscribe(TOPIC, "s", 3)


async def test_policy_auto_subscription_creation_decides_whether_use_creates_a_subscription(world: BrokerWorld) -> None:
    await set_policies(world, auto_subscription_creation=False)
    client = await world.connected("owner")
    assert await refused(client, C.SUBSCRIBE, subscription="s", consumer_id=1, sub_type=1) == pb.SubscriptionNotFound
    initial = {"producer_id": 1, "initial_subscription_name": "s"}
    assert await refused(client, C.PRODUCER, **initial) == pb.NotAllowedError
    await client.subscribe(TOPIC, "reader", 2, durable=False)
    await world.admin.subscriptions.create(SubscriptionCreate(topic=TOPIC, subscription="s"))
    await client.subscribe(TOPIC, "s", 3)


async def test_policy_max_topics_per_namespace_refuses_one_more_by_use_and_by_request(world: BrokerWorld) -> None:
    await set_policies(world, max_topics_per_namespace=3)
    client = await world.connected("owner")
    await client.producer(TOPIC)
    with pytest.raises(PreconditionFailed, match="max_topics_per_namespace = 3"):
        await world.admin.topics.create(TopicCreate(topic=f"{TOPIC}-partitioned", partitions=3))
    await world.admin.topics.create(TopicCreate(topic=f"{TOPIC}-partitioned", partitions=2))
    client.say(C.PRODUCER, topic=f"{TOPIC}-more", producer_id=2)
    assert (await client.expect("ERROR")).error == pb.NotAllowedError
    await set_policies(world)
    await client.producer(f"{TOPIC}-more", 2)


async def test_a_subscription_that_is_being_moved_counts_once(world: BrokerWorld) -> None:
    _, topic = await published(world, 1)
    await set_policies(world, max_subscriptions_per_topic=2)
    moved = asyncio.create_task(topic.subscriptions.seek(topic.subscriptions.named("s"), SeekTarget(EARLIEST)))
    await asyncio.sleep(0)
    assert topic.subscriptions.named("s").fenced
    await topic.subscriptions.create("second", EARLIEST)
    await moved


async def two_consumers(world: BrokerWorld, messages: int) -> tuple[RawClient, RawClient]:
    """Of the Shared subscription ``s``, which has so many messages."""
    await published(world, messages)
    first, second = await world.connected("owner"), await world.connected("owner")
    await first.subscribe(TOPIC, "s", permits=100)
    await second.subscribe(TOPIC, "s", permits=100)
    return first, second


async def stats_of_s(world: BrokerWorld) -> dict[str, Any]:
    found = await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))
    return found.stats["subscriptions"]["s"]


def acknowledge(client: RawClient, *messages: Received) -> None:
    client.say(C.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=[one.body.message_id for one in messages])


async def test_policy_max_unacked_per_consumer_holds_back_one_and_not_the_others(world: BrokerWorld) -> None:
    await set_policies(world, max_unacked_per_consumer=4)
    first, second = await two_consumers(world, 6)
    held = await first.messages(4)
    assert await first.quiet() == []
    await second.messages(2)
    found = await stats_of_s(world)
    assert [one["blockedConsumerOnUnackedMsgs"] for one in found["consumers"]] == [True, False]
    assert not found["blockedSubscriptionOnUnackedMsgs"]
    acknowledge(first, held[0])
    assert await first.quiet() == []
    assert (await stats_of_s(world))["consumers"][0]["blockedConsumerOnUnackedMsgs"], "more than half is left"
    acknowledge(first, held[1])
    await first.quiet()
    assert not (await stats_of_s(world))["consumers"][0]["blockedConsumerOnUnackedMsgs"]


async def test_policy_max_unacked_per_subscription_holds_back_all_consumers(world: BrokerWorld) -> None:
    await set_policies(world, max_unacked_per_subscription=4)
    first, second = await two_consumers(world, 9)
    held = await first.messages(4)
    assert (await first.quiet(), await second.quiet()) == ([], [])
    assert (await stats_of_s(world))["blockedSubscriptionOnUnackedMsgs"]
    acknowledge(first, *held[:2])
    subscription = world.service.topics.loaded[TOPIC].subscriptions.table["s"]
    await eventually(lambda: subscription.unacked.messages == 4)  # half of them was left: as many come as there is room for
    await first.close()
    await eventually(lambda: [one.unacked_messages for one in subscription.consumers] == [4])


async def test_a_raised_limit_is_felt_by_consumers_that_are_held_back(world: BrokerWorld) -> None:
    await set_policies(world, max_unacked_per_consumer=2)
    await published(world, 6)
    client = await world.connected("owner")
    await client.subscribe(TOPIC, "s", permits=100)
    await client.messages(2)
    assert await client.quiet() == []
    await set_policies(world, max_unacked_per_consumer=5)
    await client.messages(3)
    await set_policies(world, max_unacked_per_consumer=0)
    await client.messages(1)
    await set_policies(world, max_unacked_per_consumer=3)
    assert (await stats_of_s(world))["consumers"][0]["blockedConsumerOnUnackedMsgs"]


async def test_limits_on_unacknowledged_messages_do_not_concern_a_single_reader(world: BrokerWorld) -> None:
    await set_policies(world, max_unacked_per_consumer=2, max_unacked_per_subscription=2)
    await published(world, 5)
    client = await world.connected("owner")
    await client.subscribe(TOPIC, "s", permits=100, sub_type=pb.Subscribe.Exclusive)
    await client.messages(5)
