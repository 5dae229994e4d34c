"""Chunks whose metadata says anything: nobody else is concerned, and nothing stands still."""

from __future__ import annotations

import pytest

from messaging.broker.core.subscription_type import SubscriptionType
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.chunking import chunk_frame
from tests.support.clients.consuming import TOPIC, ack, filled, id_of, texts
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.dead_letters import dead_letters, metadata_of, moved, nack, set_policy, subscription_of
from tests.support.worlds.broker_world import BrokerWorld
from tests.support.worlds.chunk_world import ChunkWorld
from tests.support.worlds.subscription_world import received

INT32_MAX = 2**31 - 1


async def consuming(world: BrokerWorld, *sent: bytes, kind: int = pb.Subscribe.Shared) -> tuple[RawClient, RawClient]:
    """A producer that has sent these frames, and a consumer."""
    producer = await filled(world, 0)
    producer.write(*sent)
    for _ in sent:
        await producer.expect("SEND_RECEIPT")
    consumer = await world.connected("reader")
    await consumer.subscribe(TOPIC, permits=1_000, sub_type=kind)
    return producer, consumer


def test_two_producers_that_call_their_messages_alike_do_not_mix_them() -> None:
    """An acknowledgement of one acknowledged a chunk of the other, which was then never delivered again."""
    world = ChunkWorld()
    consumer = world.attach(SubscriptionType.SHARED, permits=100)
    sent = world.publish_frames(
        *(chunk_frame(1, b"x", chunk, 2, uuid="u", producer=name) for chunk in (0, 1) for name in ("a", "b")),
    )
    assert received(consumer) == sent
    world.ack(consumer, sent[0])
    assert world.subscription.backlog_entries == 2
    world.nack(consumer, sent[3])
    assert received(consumer) == [sent[1], sent[3]]


@pytest.mark.parametrize("kind", [pb.Subscribe.Shared, pb.Subscribe.Key_Shared, pb.Subscribe.Exclusive])
async def test_numbers_that_make_no_sense_are_delivered_and_acknowledged(world: BrokerWorld, kind: int) -> None:
    numbers = [(2, 3), (0, 3), (1, 3), (0, INT32_MAX), (INT32_MAX - 1, INT32_MAX), (-1, 3), (3, 3), (0, -1), (0, 0), (1, 1)]
    sent = [
        chunk_frame(number, b"x", chunk, chunks, uuid=f"u{number // 3}", total_bytes=INT32_MAX, key="k")
        for number, (chunk, chunks) in enumerate(numbers)
    ]
    producer, consumer = await consuming(world, *sent, send_frame(100, b"plain", key="k"), kind=kind)
    messages = await consumer.messages(len(sent) + 1)
    assert messages[-1].text == b"plain"
    ack(consumer, *(id_of(message) for message in messages), request_id=1)
    await consumer.expect("ACK_RESPONSE")
    assert subscription_of(world).backlog_entries == 0
    producer.write(send_frame(101, b"later", key="k"))
    assert texts(await consumer.messages(1)) == [b"later"]


async def test_a_message_that_begins_again_and_again_is_none_that_counts(world: BrokerWorld) -> None:
    """Each first chunk of the same message is one of a message that is not whole: limits do not hold its consumer back for ever."""
    policies = {"max_unacked_per_consumer": 2}
    await world.feed(("namespace", "acme/orders", {"policies": policies, "grants": {"reader@acme": ["consume"]}}))
    sent = [chunk_frame(number, b"x", 0, 3, uuid="u") for number in range(20)]
    _, consumer = await consuming(world, *sent, send_frame(100, b"plain"))
    messages = await consumer.messages(20)
    ack(consumer, *(id_of(message) for message in messages))
    assert (await consumer.messages(1))[0].text == b"plain"


async def test_dead_letters_of_messages_that_are_called_alike_stay_two(world: BrokerWorld) -> None:
    """They had one sequence id, so a target that deduplicates would have dropped the second."""
    sent = [chunk_frame(1, b"x", chunk, 2, uuid="u", producer=name) for name in ("a", "b") for chunk in (0, 1)]
    _, consumer = await consuming(world, *sent)
    await set_policy(world, max_redeliver_count=0)
    nack(consumer, *(await consumer.messages(4)))
    await moved(world, 4)
    assert [metadata_of(dead_letter).sequence_id for dead_letter in await dead_letters(world, 4)] == [0, 0, 2, 2]


@pytest.mark.parametrize("due_ms", [-(2**63), -1, 0, 1, 2**53, 2**63 - 1])
async def test_delivery_times_at_the_ends_of_what_there_is(world: BrokerWorld, due_ms: int) -> None:
    """What is never due waits and is backlog; what was due is delivered; neither keeps others waiting."""
    metadata = pb.Metadata(producer_name="raw", sequence_id=0, publish_time=1_000, deliver_at_time=due_ms)
    delayed = frames.build_send(1, 0, metadata, b"delayed")
    _, consumer = await consuming(world, delayed, send_frame(1, b"plain"))
    expected = [b"plain"] if due_ms > 1 else [b"delayed", b"plain"]
    assert texts(await consumer.messages(len(expected))) == expected
    assert await consumer.quiet() == []
    assert subscription_of(world).delayed_entries == 2 - len(expected)
