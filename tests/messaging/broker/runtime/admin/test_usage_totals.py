"""Whose part of a topic's usage it was: by subscription and key, also of clients that left, and of topics that are not loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from messaging.broker.runtime.metering.setup import meter_stored_topics, meter_usage
from messaging.broker.runtime.metering.totals import TenantTotals, totals_of
from messaging.broker.usage.record import TopicTotals
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.usage_schema import CLIENT, SUBSCRIPTION, TENANT
from tests.support.clients.raw_client import send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TOPIC = "persistent://acme/orders/metered"


def clients_of(totals: TopicTotals) -> dict[tuple[str, str], tuple[int, int, int]]:
    """By subscription and key: messages in, out and sent again."""
    ours = [one for one in totals.details if one.scope == CLIENT]
    return {(one.subscription, one.key): (one.counters[0], one.counters[2], one.counters[4]) for one in ours}


async def carried(world: BrokerWorld) -> None:
    """The owner and the writer publish, a subscription is sent everything twice, a reader once; all leave but the owner."""
    consumer = await world.connected("reader")
    await consumer.subscribe(TOPIC)
    reader = await world.connected("reader")
    await reader.subscribe(TOPIC, "reader-42", durable=False)
    for key, count in (("owner", 2), ("writer", 3)):
        client = await world.connected(key)
        await client.producer(TOPIC, producer_name=key)
        for sequence_id in range(count):
            client.write(send_frame(sequence_id, b"abc"))
            await client.expect("SEND_RECEIPT")
        if key == "writer":
            await client.close()
    for one in (consumer, reader):
        one.say(pb.Command.FLOW, consumer_id=1, message_permits=10)
    await consumer.messages(5)
    await reader.messages(5)
    consumer.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1)
    await consumer.messages(5)
    for one in (consumer, reader):
        await one.close()


async def test_messages_are_attributed_to_subscription_and_key(world: BrokerWorld) -> None:
    await carried(world)
    topic = world.service.topics.loaded[TOPIC]
    await eventually(lambda: set(topic.subscriptions.table) == {"s"} and not topic.subscriptions.table["s"].consumers)
    await eventually(lambda: len(topic.producers) == 1)
    totals = totals_of(topic)
    assert clients_of(totals) == {
        ("", "owner"): (2, 0, 0),
        ("", "writer"): (3, 0, 0),
        ("s", "reader"): (0, 10, 5),
        ("", "reader"): (0, 5, 0),
    }
    assert (totals.messages_in, totals.messages_out) == (5, 15)
    assert [one.gauges for one in totals.details if one.scope == SUBSCRIPTION] == [(5, 0)]
    await topic.subscriptions.delete("s")
    assert clients_of(totals_of(topic)) == clients_of(totals)
    await world.service.topics.unload(parse_topic(TOPIC))
    assert clients_of(totals_of(topic)) == clients_of(totals)


async def test_a_topic_that_is_stored_is_metered_after_a_restart_without_being_loaded(
    world: BrokerWorld, make_world: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await carried(world)
    held = world.service.topics.loaded[TOPIC].ledger.stored_bytes
    assert held > 0
    after = await make_world(after=world)  # killed: its last ledger is open
    meter_usage(after.service, tmp_path)
    resting: list[TopicTotals] = []
    assert after.service.metering.usage is not None
    monkeypatch.setattr(after.service.metering.usage, "rest", resting.append)
    await meter_stored_topics(after.service)
    assert [(one.topic, one.stored_bytes) for one in resting if one.topic == TOPIC] == [(TOPIC, held)]
    assert not after.service.topics.loaded


async def test_a_topic_that_is_deleted_while_its_size_is_looked_up_holds_nothing(
    world: BrokerWorld, make_world: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await carried(world)
    after = await make_world(after=world)  # killed: its last ledger is open, and its length is asked for
    meter_usage(after.service, tmp_path)
    usage, ledgers = after.service.metering.usage, after.service.storage.ledgers
    assert usage is not None
    changes: list[str] = []
    monkeypatch.setattr(usage, "rest", lambda totals: changes.append(f"rest {totals.topic}"))
    monkeypatch.setattr(usage, "gone", lambda topic: changes.append(f"gone {topic}"))
    info = ledgers.info

    async def deleted_meanwhile(ledger_id: int) -> object:
        found = await info(ledger_id)
        if not changes:
            await after.service.topics.delete(parse_topic(TOPIC), force=True)
        return found

    monkeypatch.setattr(ledgers, "info", deleted_meanwhile)
    await meter_stored_topics(after.service)
    assert [change for change in changes if change.endswith(TOPIC)] == [f"gone {TOPIC}"]


async def test_connections_are_counted_by_tenant_and_key(world: BrokerWorld) -> None:
    shares = world.service.peers.shares
    tenants = TenantTotals(shares.by_tenant_and_key, {"acme": "uid"}.get)
    first, second = await world.connected("owner"), await world.connected("owner")
    await world.connected("stranger")  # of a tenant that is not known here
    (totals,) = tenants
    (one,) = totals.details
    assert (totals.tenant, totals.tenant_uid, one.scope, one.key, one.gauges) == ("acme", "uid", TENANT, "owner", (2,))
    for client in (first, second):
        await client.close()
    await eventually(lambda: not shares.by_tenant["acme"])
    ((gone,),) = [totals.details for totals in tenants]
    assert gone.gauges == (0,)
    assert not list(tenants)
