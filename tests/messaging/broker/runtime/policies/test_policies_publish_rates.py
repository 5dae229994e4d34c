"""What publish rates do, exactly: in virtual time; see `test_policies.py`."""

from __future__ import annotations

import pytest

from messaging.broker.core.memory.ingress_limiter import PARKED_BYTES_MAX
from messaging.broker.core.producers.access_modes import AccessMode
from messaging.broker.runtime.admin.stats.stats import StatsContext, topic_stats
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.storage_broker import Sender
from tests.support.brokers.virtual_broker import TOPIC, VirtualWorld, virtually

OTHER = f"{TOPIC}-other"


@virtually()
async def test_policy_publish_rate_messages_limits_a_topic(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=100)
    client = await world.producing()
    client.publish(0, 1500)
    await world.pass_s(10)
    assert client.stored() == pytest.approx(1000, rel=0.02)
    await world.pass_s(10)
    assert client.receipts[1] == list(range(client.stored()))
    assert client.stored() == 1500


@virtually()
async def test_policy_publish_rate_bytes_limits_a_topic(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_bytes=100_000)
    client = await world.producing()
    client.publish(0, 1500, b"x" * 1000)
    await world.pass_s(10)
    assert (await world.loaded()).totals.bytes_in == pytest.approx(1_000_000, rel=0.02)


@virtually()
async def test_ten_thousand_messages_a_second(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=10_000)
    client = await world.producing()
    for number in range(240):
        client.publish(number * 500, number * 500 + 500)
        await world.pass_s(0.041)
    assert client.stored() == pytest.approx(10_000 * 240 * 0.041, rel=0.02)


@virtually()
async def test_messages_in_batches_count(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=1000)
    client = await world.producing()
    client.publish(0, 1500, batch=10)
    await world.pass_s(10)
    assert client.stored() * 10 == pytest.approx(10_000, rel=0.02)


@virtually()
async def test_producers_of_a_topic_have_equal_parts(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=100)
    first, second = await world.producing(), await world.producing()
    first.publish(0, 5000)
    await world.pass_s(1)
    second.publish(0, 1000)
    await world.pass_s(10)
    assert second.stored() == pytest.approx(500, rel=0.05)
    assert first.stored() == pytest.approx(600, rel=0.05)


@virtually()
async def test_nothing_else_of_the_connection_waits(world: VirtualWorld) -> None:
    """Another producer, a consumer, acknowledgements and pings go on while one topic is at its limit."""
    await world.set_policies(publish_rate_messages=1)
    await world.feed(("namespace", "public/default", {"policies": {}}))
    client = await world.producing()
    opening = pb.Producer(topic="persistent://public/default/free", producer_id=2, request_id=8)
    client.say(pb.Command.PRODUCER, producer=opening)
    await world.pass_s(0.1)
    await client.subscribe("persistent://public/default/free")
    client.flow(1000)
    client.publish(0, 500)
    for number in range(10):
        client.publish(number, number + 1, producer_id=2)
        client.say(pb.Command.PING, ping=pb.Ping())
        await world.pass_s(0.01)
    assert client.names.count("PONG") == 10
    assert (client.stored(2), client.messages[1]) == (10, 10)
    assert client.stored() <= 2
    assert client.receiver.reading


@virtually()
async def test_too_much_that_waits_pauses_its_connection_until_half_is_stored(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_bytes=PARKED_BYTES_MAX // 10)
    client, other = await world.producing(), await world.producing(OTHER)
    account = world.service.memory_limiter.ingress
    client.publish(0, 3, b"x" * (PARKED_BYTES_MAX // 4))
    assert client.receiver.reading
    client.publish(3, 6, b"x" * (PARKED_BYTES_MAX // 4))
    assert not client.receiver.reading and other.receiver.reading
    assert PARKED_BYTES_MAX < account.used_bytes < 2 * PARKED_BYTES_MAX
    assert world.service.ingress_limiter.parked_too_much == 1
    await world.pass_s(5)
    assert not client.receiver.reading
    await world.pass_s(5)
    assert client.receiver.reading
    await world.pass_s(10)
    assert client.stored() == 6
    assert (account.used_bytes, world.service.ingress_limiter.parked_too_much) == (0, 0)


@virtually(memory_budget_bytes=32 << 20)
async def test_a_tenant_cannot_hold_the_memory_of_others_by_being_throttled(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=1)
    clients = [await world.producing() for _ in range(20)]
    for round_ in range(20):
        for client in clients:
            if client.receiver.reading:
                client.publish(round_, round_ + 1, b"x" * 100_000)
        await world.pass_s(0.01)
    account = world.service.memory_limiter.ingress
    assert account.used_bytes <= account.limit_bytes // 8 + 20 * 110_000
    assert not any(client.receiver.reading for client in clients)
    await world.set_policies()
    await world.pass_s(0.1)
    assert all(client.receiver.reading for client in clients)
    assert account.used_bytes == 0


@virtually()
async def test_changes_take_effect_at_once(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=1)
    client = await world.producing()
    client.publish(0, 20_000)
    await world.pass_s(10)
    assert client.stored() == pytest.approx(10, abs=2)
    await world.set_policies(publish_rate_messages=1000)
    await world.pass_s(10)
    assert client.stored() == pytest.approx(10_000, rel=0.02)
    await world.set_policies(publish_rate_messages=0)
    await world.pass_s(0.1)
    assert client.stored() == 20_000
    assert (await world.loaded()).publisher.limits is None
    client.publish(20_000, 20_010)
    await world.pass_s(0.01)
    assert client.stored() == 20_010


@virtually()
async def test_a_producer_that_closes_waits_for_its_receipts(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=10)
    client = await world.producing()
    client.publish(0, 50)
    client.say(pb.Command.CLOSE_PRODUCER, close_producer=pb.CloseProducer(producer_id=1, request_id=9))
    await world.pass_s(3)
    assert "SUCCESS" not in client.names
    await world.pass_s(3)
    assert client.names[-1] == "SUCCESS"
    assert client.stored() == 50


@virtually()
async def test_what_waits_is_dropped_with_its_connection(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=10)
    client = await world.producing(producer_name="p")
    client.publish(0, 500, b"x" * 1000)
    await world.pass_s(1)
    client.connection_lost(None)
    topic = await world.loaded()
    entries = topic.ledger_list.entries
    await world.pass_s(10)
    assert topic.ledger_list.entries == entries == pytest.approx(11, abs=2)
    assert (world.service.memory_limiter.ingress.used_bytes, world.service.ingress_limiter.parked_too_much) == (0, 0)


@virtually()
async def test_what_waits_is_sent_again_when_the_topic_is_unloaded(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=10)
    client = await world.producing()
    client.publish(0, 500)
    await world.service.topics.unload(parse_topic(TOPIC))
    await world.pass_s(1)
    assert "CLOSE_PRODUCER" in client.names
    assert world.service.memory_limiter.ingress.used_bytes == 0


@virtually()
async def test_a_fenced_producer_is_refused_what_waits(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=10)
    client = await world.producing(producer_access_mode=AccessMode.EXCLUSIVE)
    client.publish(0, 50)
    await world.pass_s(1)
    await world.producing(producer_access_mode=AccessMode.EXCLUSIVE_WITH_FENCING)
    await world.pass_s(1)
    refused = [one.send_error.sequence_id for one in client.others if one.type == pb.Command.SEND_ERROR] if client.names else []
    assert client.receipts[1] + refused == list(range(50))
    assert 30 < len(refused) < 45


@virtually()
async def test_a_refused_message_keeps_its_place(world: VirtualWorld) -> None:
    """One is too large; what follows it waits behind it, as does its error."""
    await world.set_policies(publish_rate_messages=10)
    client = await world.producing()
    client.publish(0, 10)
    client.publish(10, 11, batch=200_000)
    client.publish(11, 15)
    await world.pass_s(0.1)
    assert client.stored() < 5 and "SEND_ERROR" not in client.names
    await world.pass_s(5)
    assert client.names.count("SEND_ERROR") == 1
    assert client.receipts[1] == [*range(10), *range(11, 15)]


@virtually(deduplication=True)
async def test_duplicates_that_wait_are_stored_once(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=100, deduplication=True)
    client = await world.producing(producer_name="p")
    for _ in range(3):
        client.publish(0, 100)
    await world.pass_s(10)
    assert client.stored() == 300
    assert (await world.loaded()).ledger_list.entries == 100
    assert world.service.memory_limiter.ingress.used_bytes == 0


@virtually()
async def test_local_producers_obey(world: VirtualWorld) -> None:
    """Those of WebSockets."""
    await world.set_policies(publish_rate_messages=100)
    sender = await Sender.open(world.service, topic=TOPIC)
    answer = sender.send(0, 200)
    await world.pass_s(1.7)
    assert not answer.done()
    await world.pass_s(0.3)
    assert len(await answer) == 200


@virtually()
async def test_the_stats_say_what_waits(world: VirtualWorld) -> None:
    await world.set_policies(publish_rate_messages=10)
    client = await world.producing()
    client.publish(0, 100)
    await world.pass_s(2)
    stats = await topic_stats(
        await world.loaded(), StatsContext("", 0, {}, world.service.problems, []), TurnSlices(world.service.peers.turn_loop, "acme")
    )
    assert stats["publishRateLimitedTimes"] > 5
    assert 70 * 20 < stats["publishers"][0]["waitingBytes"] < 85 * 80
