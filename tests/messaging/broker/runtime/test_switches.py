"""Settings that switch something, in each of their positions; tests/repository/switches.toml lists all of them."""

from __future__ import annotations

import pytest

from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import EARLIEST
from tests.support.clients.raw_client import RawClient, delayed_frame, send_frame
from tests.support.clock import Clock, give
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TOPIC = "persistent://acme/orders/t"
NAME = parse_topic(TOPIC)
C = pb.Command
switched = pytest.mark.parametrize("on", [True, False])


async def loaded(world: BrokerWorld) -> Topic:
    return await world.service.topics.get(NAME, create=False)


@switched
async def test_deduplication(make_world: MakeWorld, on: bool) -> None:
    world = await make_world(deduplication=on)
    client = await world.connected("owner")
    await client.producer(TOPIC, producer_name="raw")
    for _ in range(2):
        client.write(send_frame(7, b"once"))
        await client.expect("SEND_RECEIPT")
    assert (await loaded(world)).ledger_list.entries == (1 if on else 2)


@switched
async def test_auto_topic_creation(make_world: MakeWorld, on: bool) -> None:
    world = await make_world(auto_topic_creation=on)
    client = await world.connected("owner")
    client.say(C.PRODUCER, topic=TOPIC, producer_id=1)
    assert (await client.next()).name == ("PRODUCER_SUCCESS" if on else "ERROR")
    assert await world.service.topics.exists(NAME) is on


@switched
async def test_topic_level_policies(make_world: MakeWorld, on: bool) -> None:
    """Those that were stored while it was on have no effect while it is off."""
    world = await make_world(topic_level_policies_enabled=on)
    await world.feed(("topic", TOPIC, {"policies": {"max_producers_per_topic": 1}}))
    client = await world.connected("owner")
    await client.producer(TOPIC, 1)
    client.say(C.PRODUCER, topic=TOPIC, producer_id=2)
    assert (await client.next()).name == ("ERROR" if on else "PRODUCER_SUCCESS")


async def delayed(make_world: MakeWorld, **settings: object) -> tuple[BrokerWorld, RawClient, Clock]:
    """A consumer of a message that is to be delivered in 900 ms."""
    world = await make_world(**settings)
    clock = Clock()
    give(world.service, clock)
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, "s", permits=10)
    client.write(delayed_frame(0, b"later", clock() + 900))
    await client.expect("SEND_RECEIPT")
    return world, client, clock


@switched
async def test_delayed_delivery(make_world: MakeWorld, on: bool) -> None:
    _, client, _ = await delayed(make_world, delayed_delivery_enabled=on, delayed_delivery_strict=True)
    if on:
        assert await client.quiet() == []
    else:
        await client.messages(1)


@switched
async def test_strict_delivery_times(make_world: MakeWorld, on: bool) -> None:
    """It may come a tick before its time, by default a second; or never before."""
    _, client, _ = await delayed(make_world, delayed_delivery_strict=on)
    if on:
        assert await client.quiet() == []
    else:
        await client.messages(1)


async def inactive(make_world: MakeWorld, *, subscription: bool, **settings: object) -> bool:
    """Whether a topic that nobody uses is there still after an hour. Its subscription, if it has one, has no backlog."""
    world = await make_world(inactive_topic_after_s=60, **settings)
    clock = Clock()
    give(world.service, clock)
    client = await world.connected("owner")
    await client.producer(TOPIC)
    if subscription:
        await (await loaded(world)).subscriptions.create("s", EARLIEST)
    client.say(C.CLOSE_PRODUCER, producer_id=1)
    await client.expect("SUCCESS")
    clock.pass_(3_600_000)
    result = await world.admin.maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))
    assert result.failed == {}
    return await world.service.topics.exists(NAME)


@switched
async def test_deletion_of_inactive_topics(make_world: MakeWorld, on: bool) -> None:
    assert await inactive(make_world, subscription=False, delete_inactive_topics=on) is not on


@pytest.mark.parametrize(
    ("mode", "stays"), [("delete_when_no_subscriptions", True), ("delete_when_subscriptions_caught_up", False)]
)
async def test_what_subscriptions_keep(make_world: MakeWorld, mode: str, stays: bool) -> None:
    assert await inactive(make_world, subscription=True, delete_inactive_topics=True, inactive_topic_mode=mode) is stays


@switched
async def test_relative_dispatch_rates(make_world: MakeWorld, on: bool) -> None:
    """The default of two policies; what those do, their own tests show."""
    world = await make_world(dispatch_throttling_rate_relative_to_publish_rate=on)
    for policy in ("dispatch_rate_relative", "subscription_dispatch_rate_relative"):
        assert world.service.policies.value(policy, NAME) is on
