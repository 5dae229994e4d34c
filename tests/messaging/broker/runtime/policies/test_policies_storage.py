"""What policies of storage do; see `test_policies.py`."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.broker.runtime.topics.persistent import persistent
from messaging.broker.runtime.topics.subscriptions.cursor_writes import WAITING_BYTES_MAX, CursorWrites
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import InvalidPersistence, PreconditionFailed
from messaging.policies.validation import changed
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
from tests.support.brokers.virtual_broker import VirtualWorld, virtually
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.policies import set_policies
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
PAYLOAD = b"x" * 100_000


async def copies(world: BrokerWorld, client: RawClient) -> int:
    """Of one message, in all ledgers."""
    client.write(send_frame(0, PAYLOAD))
    await client.expect("SEND_RECEIPT")
    topic = await world.service.topics.get(parse_topic(TOPIC), create=False)
    await topic.ledger.roll()
    return sum(
        ledger.length_bytes // len(PAYLOAD) for ledger in await world.ledgers.ledgers() if "reserved" not in ledger.properties
    )


@pytest.mark.parametrize("name", ["persistence_ensemble", "persistence_write_quorum", "persistence_ack_quorum"])
def test_more_copies_than_there_are_cannot_be_asked_for(name: str) -> None:
    assert changed({}, {name: 1}) == {name: 1}
    several = dict.fromkeys(["persistence_ensemble", "persistence_write_quorum", "persistence_ack_quorum"], 2)
    with pytest.raises(PreconditionFailed, match="policy persistence_ensemble cannot be 2: this platform keeps 1 copy"):
        changed({}, several)
    with pytest.raises(PreconditionFailed):
        changed({}, {name: 2})


def test_quorums_that_contradict_each_other() -> None:
    with pytest.raises(InvalidPersistence, match="1/2/1 is contradictory"):
        changed({}, {"persistence_ensemble": 1, "persistence_write_quorum": 2, "persistence_ack_quorum": 1})


async def test_policy_persistence_ensemble_one_is_one_log(world: BrokerWorld) -> None:
    await set_policies(world, persistence_ensemble=1)
    client = await world.connected("owner")
    await client.producer(TOPIC)
    assert await copies(world, client) == 1


async def test_policy_persistence_write_quorum_one_is_one_copy(world: BrokerWorld) -> None:
    await set_policies(world, persistence_write_quorum=1)
    client = await world.connected("owner")
    await client.producer(TOPIC)
    assert await copies(world, client) == 1


async def test_policy_persistence_ack_quorum_one_copy_is_durable_before_the_receipt(world: BrokerWorld) -> None:
    await set_policies(world, persistence_ack_quorum=1)
    client = await world.connected("owner")
    await client.producer(TOPIC)
    world.ledgers.hold()
    client.write(send_frame(0, PAYLOAD))
    await eventually(lambda: world.ledgers.kept_back > 0)
    assert await client.quiet() == []
    world.ledgers.release()
    await client.expect("SEND_RECEIPT")


# --- how often cursors are written, in virtual time


async def acknowledging(world: VirtualWorld, messages: int, **policies: Any) -> Topic:
    """A topic with so many messages for the subscription ``s``."""
    await world.set_policies(**policies)
    client = await world.producing()
    topic = await world.loaded()
    await topic.subscriptions.create("s", EARLIEST)
    client.publish(0, messages)
    await world.pass_s(1)
    assert client.stored() == messages
    return topic


async def acknowledged_each(world: VirtualWorld, topic: Topic, count: int, every_s: float) -> list[float]:
    """When each of so many acknowledgements was durable, in seconds from the first on. The last answers come 20 s later."""
    subscription, times = topic.subscriptions.named("s"), [0.0] * count
    loop_time = world.service.topics.services.limits.rate_limits.timers.now_s
    begin = loop_time()
    for number in range(count):
        delta = subscription.acknowledge(None, topic.ledger_list.last_id, (2 * number,), world.service.now_ms())

        def durable(error: object, number: int = number) -> None:
            assert error is None
            times[number] = loop_time() - begin

        topic.cursor_changes.store(subscription, delta, durable)
        await world.pass_s(every_s)
    await world.pass_s(20)
    return times


@virtually()
async def test_policy_persistence_mark_delete_rate_limits_the_writes_of_a_cursor(world: VirtualWorld) -> None:
    topic = await acknowledging(world, 200, persistence_mark_delete_rate=0.5)
    times = await acknowledged_each(world, topic, 100, 0.1)
    assert sorted({round(time, 3) for time in times}) == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


@virtually()
async def test_without_a_rate_every_acknowledgement_is_written_at_once(world: VirtualWorld) -> None:
    topic = await acknowledging(world, 200)
    assert topic.cursor_changes.writes is None
    assert await acknowledged_each(world, topic, 100, 0.1) == pytest.approx([number / 10 for number in range(100)])


@virtually()
async def test_what_waits_survives_an_unload_and_a_change_of_the_rate(world: VirtualWorld) -> None:
    topic = await acknowledging(world, 20, persistence_mark_delete_rate=0.001)
    subscription = topic.subscriptions.named("s")
    for entry in (0, 1, 2):
        topic.cursor_changes.store(
            subscription, subscription.acknowledge(None, topic.ledger_list.last_id, (entry,), world.service.now_ms())
        )
    told: list[object] = []
    topic.cursor_changes.store(subscription, b"", told.append)
    await world.pass_s(1)
    assert told == []
    await world.set_policies(persistence_mark_delete_rate=0)
    await world.pass_s(1)
    assert (told, topic.cursor_changes.writes) == ([None], None)
    await world.set_policies(persistence_mark_delete_rate=0.001)
    for entry in (3, 4):
        topic.cursor_changes.store(
            subscription, subscription.acknowledge(None, topic.ledger_list.last_id, (entry,), world.service.now_ms())
        )
    await world.service.topics.unload(parse_topic(TOPIC))
    again = (await world.loaded()).subscriptions.named("s")
    assert again.cursor.mark_delete.entry_id == 4


@virtually()
async def test_administrators_do_not_wait(world: VirtualWorld) -> None:
    topic = await acknowledging(world, 20, persistence_mark_delete_rate=0.001)
    subscription = topic.subscriptions.named("s")
    last = topic.ledger_list.last_id
    for entry in (0, 1):
        topic.cursor_changes.store(subscription, subscription.acknowledge(None, last, (entry,), world.service.now_ms()))
    await persistent(topic).acknowledgements.skip_to(subscription, topic.ledger_list.last)
    assert subscription.backlog_entries == 0


@virtually()
async def test_what_waits_is_bounded_and_accounted(world: VirtualWorld) -> None:
    topic = await acknowledging(world, 1, persistence_mark_delete_rate=0.001)
    account = world.service.memory_limiter.records
    before = account.tenants.get("acme", 0)
    writes = topic.cursor_changes.writes
    assert isinstance(writes, CursorWrites)
    most = 0
    for _ in range(3000):
        writes.append(1, b"x" * 100, None)
        most = max(most, account.tenants.get("acme", 0) - before)
    assert 0 < most <= WAITING_BYTES_MAX
    writes.close()
    assert account.tenants.get("acme", 0) == before


# --- snapshots of deduplication


async def snapshots(world: VirtualWorld, seconds: float) -> list[int]:
    """The last entry in the snapshot after each second."""
    topic, found = await world.loaded(), []
    for _ in range(round(seconds)):
        await world.pass_s(1)
        dedup = persistent(topic).deduplication.state
        assert dedup is not None
        found.append(dedup.snapshot_position.entry_id)
    return found


@virtually()
async def test_policy_deduplication_snapshot_interval_s_bounds_what_is_in_no_snapshot(world: VirtualWorld) -> None:
    await world.set_policies(deduplication=True, deduplication_snapshot_interval_s=5)
    client = await world.producing(producer_name="p")
    await world.pass_s(0.5)
    client.publish(0, 3)
    assert await snapshots(world, 7) == [-1, -1, -1, -1, -1, 2, 2]
    client.publish(3, 4)
    await world.set_policies(deduplication=True, deduplication_snapshot_interval_s=2)
    assert await snapshots(world, 4) == [2, 2, 3, 3]
    await world.set_policies(deduplication=True, deduplication_snapshot_interval_s=0)
    client.publish(4, 5)
    assert await snapshots(world, 200) == [3] * 200


@virtually(deduplication=True)
async def test_the_setting_is_the_default_of_the_interval(world: VirtualWorld) -> None:
    client = await world.producing(producer_name="p")
    await world.pass_s(0.5)
    client.publish(0, 1)
    found = await snapshots(world, 122)
    assert (found[118], found[-1]) == (-1, 0)


@virtually()
async def test_a_topic_that_is_gone_has_no_timer(world: VirtualWorld) -> None:
    await world.set_policies(deduplication=True)
    client = await world.producing(producer_name="p")
    client.publish(0, 1)
    await world.pass_s(1)
    timers = world.service.topics.services.loops.snapshot_timers
    assert list(timers) == [TOPIC]
    await world.service.topics.unload(parse_topic(TOPIC))
    assert timers == {}
