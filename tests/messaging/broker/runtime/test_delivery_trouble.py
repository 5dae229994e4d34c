"""Delivery while storage fails, or a peer does not read or answer."""

from __future__ import annotations

from messaging.broker.runtime.wire.connection import Connection
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import Corrupt, Position, Unavailable
from tests.support.clients.consuming import TOPIC, filled, texts
from tests.support.clients.raw_client import send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

C = pb.Command
SHARED, EXCLUSIVE, FAILOVER = pb.Subscribe.Shared, pb.Subscribe.Exclusive, pb.Subscribe.Failover


async def test_catching_up_from_storage(make_world: MakeWorld) -> None:
    """Nothing is left in memory: all of it is read from the log, in order."""
    world = await make_world()
    await filled(world, 300)
    await world.service.topics.unload(world.service.topics.loaded[TOPIC].name)
    client = await world.connected("reader")
    await client.subscribe(TOPIC, permits=1000)
    assert texts(await client.messages(300)) == [b"%d" % index for index in range(300)]
    assert world.service.topics.loaded[TOPIC].ledger_list.last >= Position(0, 0)


async def test_a_corrupt_record_is_passed_over_and_the_rest_comes(world: BrokerWorld) -> None:
    await filled(world, 5)
    topic = world.service.topics.loaded[TOPIC]
    ledger_id = topic.ledger_list.first.ledger_id
    await world.service.topics.unload(topic.name)
    client = await world.connected("reader")
    await client.subscribe(TOPIC)
    world.ledgers.fail_next("read", Corrupt("rotten", ledger_id, 0))
    client.say(C.FLOW, consumer_id=1, message_permits=10)
    assert texts(await client.messages(4)) == [b"1", b"2", b"3", b"4"]


async def test_a_store_that_is_away_for_a_moment_is_asked_again(world: BrokerWorld) -> None:
    await filled(world, 2)
    await world.service.topics.unload(world.service.topics.loaded[TOPIC].name)
    client = await world.connected("reader")
    await client.subscribe(TOPIC)
    world.ledgers.fail_next("read", Unavailable("busy"))
    client.say(C.FLOW, consumer_id=1, message_permits=10)
    assert texts(await client.messages(2)) == [b"0", b"1"]


async def test_a_peer_that_does_not_read_gets_no_more_and_others_go_on(world: BrokerWorld) -> None:
    producer = await world.connected("owner")
    await producer.producer(TOPIC)
    stuck, good = await world.connected("reader"), await world.connected("reader")
    await stuck.subscribe(TOPIC, "stuck", permits=10_000)
    stuck.stop_reading()  # reads nothing from here on
    await good.subscribe(TOPIC, permits=10_000)
    for index in range(40):
        producer.write(send_frame(index, bytes(1 << 20)))
        await producer.expect("SEND_RECEIPT")
        await good.messages(1)
    held = world.service.topics.loaded[TOPIC].subscriptions.table["stuck"]
    (consumer,) = held.consumers
    assert not consumer.sink.writable
    assert consumer.messages_out < 30  # what the sockets' buffers and ours hold, not all of it


async def test_a_peer_that_stays_silent_is_gone_with_all_that_it_held(world: BrokerWorld) -> None:
    """Its buffer is not empty and never will be: waiting for that kept its messages from everybody else."""
    producer = await world.connected("owner")
    await producer.producer(TOPIC)
    stuck, good = await world.connected("reader"), await world.connected("reader")
    await stuck.subscribe(TOPIC, permits=10_000)
    stuck.stop_reading()
    stuck.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for index in range(12):
        producer.write(send_frame(index, bytes(1 << 20)))
        await producer.expect("SEND_RECEIPT")
    await good.subscribe(TOPIC, permits=10_000)
    subscription = world.service.topics.loaded[TOPIC].subscriptions.table["s"]
    connections = [one for one in world.service.peers.connections if isinstance(one, Connection)]
    (frozen,) = [one for one in connections if one.endpoints.consumers.get(1, (0, 0, 0))[2] is next(iter(subscription.consumers))]
    for _ in range(3):
        frozen.liveness.keep_alive()
    assert frozen.closed
    await eventually(lambda: len(subscription.consumers) == 1)
    found = [one.body.message_id.entry_id for one in await good.messages(12)]
    assert sorted(found) == list(range(12))
