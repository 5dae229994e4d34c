"""What the backlog quota policies do: by size and by age, with each of the three actions."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.schema import MaintenanceRun
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
from tests.support.broker_world import BrokerWorld
from tests.support.clock import Clock, give
from tests.support.policies import set_policies
from tests.support.raw_client import RawClient, send_frame
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/t"
NAME = parse_topic(TOPIC)
C = pb.Command
MESSAGE = b"x" * 1000
HOUR_MS = 3_600_000


async def opened(client: RawClient, producer_id: int = 1) -> Any:
    client.say(C.PRODUCER, topic=TOPIC, producer_id=producer_id)
    return (await client.next()).body


async def published(world: BrokerWorld, count: int) -> tuple[RawClient, Topic]:
    """A producer, a topic with a durable subscription, and so many messages."""
    client = await world.connected("owner")
    assert type(await opened(client)) is pb.ProducerSuccess
    topic = await world.service.topics.get(NAME, create=False)
    await topic.create_subscription("s", EARLIEST)
    for index in range(count):
        client.write(send_frame(index, MESSAGE))
        await client.expect("SEND_RECEIPT")
    return client, topic


REFUSALS = {
    "producer_request_hold": pb.ProducerBlockedQuotaExceededError,
    "producer_exception": pb.ProducerBlockedQuotaExceededException,
}


@pytest.mark.parametrize("action", REFUSALS)
async def test_policy_backlog_quota_bytes_policy_says_how_producers_are_refused(world: BrokerWorld, action: str) -> None:
    await set_policies(world, backlog_quota_bytes=5_000, backlog_quota_bytes_policy=action)
    client, topic = await published(world, 4)
    client.write(send_frame(4, MESSAGE))
    assert (await client.next()).name == "CLOSE_PRODUCER"
    assert topic.ledger_list.entries == 4, "the message that did not fit was not stored"
    assert type(await opened(client, 2)) is pb.ProducerSuccess, "there is room for a smaller one"
    client.write(send_frame(4, b"y" * 300, producer_id=2))
    assert (await client.next()).name == "SEND_RECEIPT"
    await set_policies(world, backlog_quota_bytes=4_000, backlog_quota_bytes_policy=action)
    assert (await opened(client, 3)).error == REFUSALS[action]


async def test_policy_backlog_quota_bytes_holds_until_the_backlog_is_consumed(world: BrokerWorld) -> None:
    client, topic = await published(world, 6)
    await set_policies(world, backlog_quota_bytes=3_000, backlog_quota_bytes_policy="producer_request_hold")
    refused = await opened(client, 2)
    assert refused.error == pb.ProducerBlockedQuotaExceededError and "3000 bytes" in refused.message
    client.write(send_frame(6, MESSAGE))
    assert (await client.next()).name == "CLOSE_PRODUCER"
    await topic.skip_to(topic.subscriptions["s"], topic.ledger_list.at_index(4))
    assert type(await opened(client, 3)) is pb.ProducerSuccess
    for index in (6, 7):
        client.write(send_frame(index, MESSAGE[:900], producer_id=3))
        await client.expect("SEND_RECEIPT")
    client.write(send_frame(8, MESSAGE, producer_id=3))
    assert (await client.next()).name == "CLOSE_PRODUCER"
    await topic.delete_subscription("s")
    assert type(await opened(client, 4)) is pb.ProducerSuccess, "without a subscription there is no backlog"
    await set_policies(world)
    assert topic.backlog_quota is None


async def test_policy_backlog_quota_bytes_of_several_producers_in_one_write_never_exceeds(world: BrokerWorld) -> None:
    await set_policies(world, backlog_quota_bytes=5_000)
    client, topic = await published(world, 2)
    await opened(client, 2)
    client.write(*(send_frame(number, MESSAGE, producer_id=1 + number % 2) for number in range(2, 10)))
    await eventually(lambda: not len(topic.producers))
    await client.quiet()
    assert topic.ledger.stored_bytes <= 5_000


async def test_policy_backlog_quota_bytes_policy_evicts_the_oldest(world: BrokerWorld) -> None:
    await set_policies(world, backlog_quota_bytes=5_000, backlog_quota_bytes_policy="consumer_backlog_eviction")
    _, topic = await published(world, 20)
    subscription = topic.subscriptions["s"]
    await eventually(lambda: subscription.backlog_entries <= 5)
    assert subscription.backlog_entries >= 2 and subscription.entries_expired >= 15
    assert topic.ledger_list.entries == 20 and len(topic.producers) == 1


@pytest.fixture
def clock(world: BrokerWorld) -> Clock:
    clock = Clock()
    give(world.service, clock)
    return clock


@pytest.mark.parametrize("action", REFUSALS)
async def test_policy_backlog_quota_age_policy_refuses_producers(world: BrokerWorld, clock: Clock, action: str) -> None:
    await set_policies(world, backlog_quota_age_s=60, backlog_quota_age_policy=action)
    client, topic = await published(world, 3)
    clock.pass_(59_000)
    assert type(await opened(client, 2)) is pb.ProducerSuccess
    clock.pass_(2_000)
    assert (await opened(client, 3)).error == REFUSALS[action]
    client.write(send_frame(3, MESSAGE))
    assert {(await client.next()).name for _ in range(2)} == {"CLOSE_PRODUCER"}
    await topic.skip_to(topic.subscriptions["s"], topic.ledger_list.last)
    assert type(await opened(client, 4)) is pb.ProducerSuccess


async def test_policy_backlog_quota_age_s_evicts_without_anybody_publishing(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, backlog_quota_age_s=60, backlog_quota_age_policy="consumer_backlog_eviction")
    client, topic = await published(world, 3)
    clock.pass_(HOUR_MS)
    client.write(send_frame(3, MESSAGE))
    await client.expect("SEND_RECEIPT")
    assert (await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))).failed == {}
    await eventually(lambda: topic.subscriptions["s"].backlog_entries == 1)


async def test_policy_backlog_quota_age_s_evicts_from_topics_that_are_not_loaded(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, backlog_quota_age_s=3_600, backlog_quota_age_policy="consumer_backlog_eviction")
    client, _ = await published(world, 1)
    clock.pass_(1_000)
    client.write(send_frame(1, MESSAGE))
    await client.expect("SEND_RECEIPT")
    await client.close()
    await world.service.topics.unload(NAME)
    for passes_ms, left in ((HOUR_MS - 1_000, 2), (1, 1), (999, 1), (1, 0)):
        clock.pass_(passes_ms)
        assert (await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))).failed == {}
        assert world.service.topics.loaded == {}
        assert (await world.service.topics.get(NAME, create=False)).subscriptions["s"].backlog_entries == left
        await world.service.topics.unload(NAME)


async def test_policy_backlog_quota_bytes_evicts_from_topics_that_are_not_loaded(world: BrokerWorld) -> None:
    client, topic = await published(world, 6)
    size = topic.ledger.stored_bytes
    await client.close()
    await world.service.topics.unload(NAME)
    await set_policies(world, backlog_quota_bytes=size, backlog_quota_bytes_policy="consumer_backlog_eviction")
    for limit, left in ((size, 6), (size - 1, 5), (size // 2, 2)):
        await set_policies(world, backlog_quota_bytes=limit, backlog_quota_bytes_policy="consumer_backlog_eviction")
        assert (await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))).failed == {}
        assert world.service.topics.loaded == {}
        assert (await world.service.topics.get(NAME, create=False)).subscriptions["s"].backlog_entries == left
        await world.service.topics.unload(NAME)


async def test_readers_hold_nobody_up(world: BrokerWorld) -> None:
    await set_policies(world, backlog_quota_bytes=3_000)
    client = await world.connected("owner")
    await opened(client)
    client.say(C.SUBSCRIBE, topic=TOPIC, subscription="reader", consumer_id=1, sub_type=0, durable=False)
    await client.expect("SUCCESS")
    for index in range(10):
        client.write(send_frame(index, MESSAGE))
        await client.expect("SEND_RECEIPT")
