"""What the backlog quota policies do: by size and by age, with each of the three actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.broker.core.backlog.quota import LedgerSize, bytes_after
from messaging.broker.runtime.topics.backlog import quota as topic_quota
from messaging.broker.runtime.topics.persistent import persistent
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import QuotaExceeded
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST, Position
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.clock import Clock, give
from tests.support.policies import set_policies
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

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
    await topic.subscriptions.create("s", EARLIEST)
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
    assert topic.publisher.quota is not None and topic.publisher.quota.held() == ""
    client.write(send_frame(4, MESSAGE))
    assert [(await client.next()).name for _ in range(2)] == ["SEND_RECEIPT", "CLOSE_PRODUCER"], "what crosses the limit is stored"
    assert topic.ledger_list.entries == 5
    assert (await opened(client, 2)).error == REFUSALS[action]
    assert "limit of 5000 bytes" in topic.publisher.quota.held()


async def test_policy_backlog_quota_bytes_holds_until_the_backlog_is_consumed(world: BrokerWorld) -> None:
    client, topic = await published(world, 6)
    await set_policies(world, backlog_quota_bytes=3_000, backlog_quota_bytes_policy="producer_request_hold")
    refused = await opened(client, 2)
    assert refused.error == pb.ProducerBlockedQuotaExceededError and "3000 bytes" in refused.message
    client.write(send_frame(6, MESSAGE))
    assert [(await client.next()).name for _ in range(2)] == ["SEND_RECEIPT", "CLOSE_PRODUCER"]
    await persistent(topic).acknowledgements.skip_to(topic.subscriptions.table["s"], topic.ledger_list.at_index(4))
    assert type(await opened(client, 3)) is pb.ProducerSuccess
    client.write(send_frame(7, MESSAGE, producer_id=3))
    assert [(await client.next()).name for _ in range(2)] == ["SEND_RECEIPT", "CLOSE_PRODUCER"]
    await topic.subscriptions.delete("s")
    assert type(await opened(client, 4)) is pb.ProducerSuccess, "without a subscription there is no backlog"
    await set_policies(world)
    assert topic.publisher.quota is None


@pytest.mark.parametrize("size", [1, 900, 1_000, 6_000])
async def test_policy_backlog_quota_bytes_lets_every_producer_that_opens_publish(world: BrokerWorld, size: int) -> None:
    """However large its message is: one that is closed and opens again for nothing would do so for ever."""
    await set_policies(world, backlog_quota_bytes=5_000)
    client, _ = await published(world, 4)
    opened_count, stored = 1, 4
    for number in range(100):
        client.write(send_frame(number, b"x" * size, producer_id=opened_count))
        while (answer := await client.next()).name == "SEND_RECEIPT":
            stored += 1
            client.write(send_frame(number, b"x" * size, producer_id=opened_count))
        assert answer.name == "CLOSE_PRODUCER"
        opened_count += 1
        if type(await opened(client, opened_count)) is not pb.ProducerSuccess:
            break
    assert opened_count == 2 and stored > 4


async def test_policy_backlog_quota_bytes_of_several_producers_is_passed_by_what_was_on_its_way(world: BrokerWorld) -> None:
    await set_policies(world, backlog_quota_bytes=5_000)
    client, topic = await published(world, 2)
    await opened(client, 2)
    client.write(*(send_frame(number, MESSAGE, producer_id=1 + number % 2) for number in range(2, 10)))
    await eventually(lambda: not len(topic.producers))
    names = await client.quiet()
    assert names.count("SEND_RECEIPT") == topic.ledger_list.entries - 2, "what is stored is confirmed, or it would be sent again"
    assert names[-2:] == ["CLOSE_PRODUCER"] * 2
    client.write(send_frame(10, MESSAGE))
    assert "SEND_RECEIPT" not in await client.quiet() and 5 <= topic.ledger_list.entries <= 10


async def test_policy_backlog_quota_bytes_policy_evicts_the_oldest(world: BrokerWorld) -> None:
    await set_policies(world, backlog_quota_bytes=5_000, backlog_quota_bytes_policy="consumer_backlog_eviction")
    _, topic = await published(world, 20)
    subscription = topic.subscriptions.table["s"]
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
    assert [(await client.next()).name for _ in range(3)] == ["SEND_RECEIPT", "CLOSE_PRODUCER", "CLOSE_PRODUCER"]
    assert topic.publisher.quota is not None and "60 s are allowed" in topic.publisher.quota.held()
    await persistent(topic).acknowledgements.skip_to(topic.subscriptions.table["s"], topic.ledger_list.last)
    assert type(await opened(client, 4)) is pb.ProducerSuccess


async def test_policy_backlog_quota_age_s_evicts_without_anybody_publishing(world: BrokerWorld, clock: Clock) -> None:
    await set_policies(world, backlog_quota_age_s=60, backlog_quota_age_policy="consumer_backlog_eviction")
    client, topic = await published(world, 3)
    clock.pass_(HOUR_MS)
    client.write(send_frame(3, MESSAGE))
    await client.expect("SEND_RECEIPT")
    assert (await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))).failed == {}
    await eventually(lambda: topic.subscriptions.table["s"].backlog_entries == 1)


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
        assert (await world.service.topics.get(NAME, create=False)).subscriptions.table["s"].backlog_entries == left
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
        assert (await world.service.topics.get(NAME, create=False)).subscriptions.table["s"].backlog_entries == left
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


@pytest.mark.parametrize("later", [{}, {"backlog_quota_bytes": 1_000_000}])
async def test_a_quota_that_is_replaced_while_it_closes_producers_stores_nothing_that_they_do_not_hear_of(
    world: BrokerWorld, later: dict[str, Any]
) -> None:
    """What was published between was appended under the new quota, its producer closed by the old one before the receipt: the
    client sends it again, and it is there twice."""
    await set_policies(world, backlog_quota_bytes=5_000)
    client, topic = await published(world, 4)
    quota = topic.publisher.quota
    assert quota is not None
    quota.closing = QuotaExceeded("full")  # as `reached` leaves it
    await set_policies(world, **later)
    client.write(send_frame(4, MESSAGE))
    assert await client.quiet() == []
    assert topic.ledger_list.entries == 4
    quota.close(True)
    await client.expect("CLOSE_PRODUCER")
    assert type(await opened(client, 2)) is pb.ProducerSuccess
    client.write(send_frame(4, MESSAGE, producer_id=2))
    await client.expect("SEND_RECEIPT")
    assert topic.ledger_list.entries == 5


async def test_a_quota_that_was_replaced_decides_nothing_more(world: BrokerWorld) -> None:
    await set_policies(world, backlog_quota_bytes=3_000)
    client, topic = await published(world, 2)
    quota = topic.publisher.quota
    assert quota is not None and quota.took(10_000, 0)
    await set_policies(world)
    client.write(send_frame(2, MESSAGE))
    await client.expect("SEND_RECEIPT")
    assert not quota.reached() and quota.closing is None


async def test_a_backlog_is_measured_once_however_many_subscriptions_there_are(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_policies(world, backlog_quota_bytes=5_000, backlog_quota_bytes_policy="producer_exception")
    _, topic = await published(world, 4)
    for index in range(20):
        await topic.subscriptions.create(f"s{index}", EARLIEST)
    measured: list[Position] = []

    def counted(ledgers: Sequence[LedgerSize], mark: Position) -> int:
        measured.append(mark)
        return bytes_after(ledgers, mark)

    monkeypatch.setattr(topic_quota, "bytes_after", counted)
    assert topic.publisher.quota is not None and topic.publisher.quota.held() == ""
    assert len(measured) == 1
