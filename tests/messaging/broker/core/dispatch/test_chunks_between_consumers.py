"""A chunked message whose consumer stops reading, or loses its key, stands in nobody's way, and comes whole to somebody."""

from __future__ import annotations

import pytest

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.key_shared_mode import KeySharedMode
from messaging.broker.core.subscription_type import SubscriptionType
from tests.support.clients.raw_client import send_frame
from tests.support.worlds.chunk_world import ChunkWorld, chunks_of
from tests.support.worlds.subscription_world import Sink, counted, received

SHARED, KEY_SHARED = SubscriptionType.SHARED, SubscriptionType.KEY_SHARED


def readable(world: ChunkWorld, consumer: Consumer, value: bool) -> None:
    assert isinstance(consumer.sink, Sink)
    consumer.sink.writable = value
    consumer.wake()
    world.dispatch()


def test_messages_behind_a_chunk_go_to_others_while_its_consumer_does_not_read() -> None:
    world = ChunkWorld()
    slow = world.attach(SHARED, permits=100)
    first = world.publish_frames(*chunks_of(1, 0))
    other = world.attach(SHARED, permits=100)
    readable(world, slow, False)
    rest = world.publish_frames(*chunks_of(1, 1), send_frame(2, b"plain"), *chunks_of(1, 2), *chunks_of(3, 0, 1, 2))
    assert received(other) == [rest[1], *rest[3:]]
    readable(world, slow, True)
    assert counted(slow) == [(position, 0) for position in (*first, rest[0], rest[2])]
    world.ack(slow, rest[2])
    world.ack(other, rest[1], rest[3])
    assert world.subscription.backlog_entries == 0


def test_it_goes_whole_to_another_when_its_consumer_leaves_before_it_reads_on() -> None:
    world = ChunkWorld()
    slow = world.attach(SHARED, permits=100)
    first = world.publish_frames(*chunks_of(1, 0))
    other = world.attach(SHARED, permits=100)
    readable(world, slow, False)
    rest = world.publish_frames(*chunks_of(1, 1, 2))
    assert received(other) == []
    world.detach(slow)
    assert received(other) == [*first, *rest]


def test_a_part_that_is_rejected_brings_what_waits_with_it() -> None:
    world = ChunkWorld()
    slow = world.attach(SHARED, permits=100)
    first = world.publish_frames(*chunks_of(1, 0))
    other = world.attach(SHARED, permits=100)
    readable(world, slow, False)
    rest = world.publish_frames(*chunks_of(1, 1, 2))
    world.nack(slow, *first)
    assert counted(other) == [(first[0], 0), (rest[0], 0), (rest[1], 0)]


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
@pytest.mark.parametrize("everything", [True, False])
def test_a_message_that_did_not_come_whole_is_not_counted_as_rejected_and_dies_in_no_part(
    kind: SubscriptionType, everything: bool
) -> None:
    """Else its first chunks become dead letters, and one consumer gets the rest; if the policy changes, another gets them."""
    world = ChunkWorld()
    world.subscription.state.redeliveries.limit_counts(0)
    holder = world.attach(kind, permits=100)
    first = world.publish_frames(*chunks_of(1, 0, 1), send_frame(2, b"plain"))
    world.nack(holder, *(() if everything else first))
    assert world.subscription.state.redeliveries.first_dead(10) == first[2:]
    rest = world.publish_frames(*chunks_of(1, 2))
    assert counted(holder) == [*((position, 0) for position in (*first, *first[:2], *rest))]
    world.nack(holder, *(() if everything else first))
    assert world.subscription.state.redeliveries.first_dead(10) == [*first, *rest], "whole it is rejected, and dies whole"


def test_a_rejected_message_stays_with_the_consumer_that_has_it_now() -> None:
    """A client may ask late for what it gave back already."""
    world = ChunkWorld()
    consumer = world.attach(SHARED, permits=100)
    first = world.publish_frames(*chunks_of(1, 0))
    others = [world.attach(SHARED, permits=100) for _ in range(2)]
    readable(world, consumer, False)
    world.nack(consumer, *first)
    [holder] = [other for other in others if received(other) == first]
    world.nack(consumer, *first)
    rest = world.publish_frames(*chunks_of(1, 1, 2))
    assert received(holder) == rest


def test_a_part_that_is_skipped_is_left_out_of_no_count() -> None:
    """It stayed among what does not count towards the limits, so the consumer was sent more than its limit."""
    world = ChunkWorld()
    holder = world.attach(SHARED, permits=100)
    parts = world.publish_frames(*chunks_of(1, 0, 1))
    world.subscription.acknowledge_up_to(parts[0], world.now_ms)
    world.publish_frames(send_frame(2, b"plain"))
    assert received(holder)[:2] == parts
    assert (holder.unacked_messages, holder.uncounted) == (2, 1)


def test_chunks_that_wait_for_a_consumer_are_not_given_up() -> None:
    world = ChunkWorld()
    slow = world.attach(SHARED, permits=100)
    world.publish_frames(*chunks_of(1, 0))
    readable(world, slow, False)
    world.attach(SHARED, permits=100)
    world.publish_frames(*chunks_of(1, 1))
    assert world.subscription.state.unfinished_chunks(world.now_ms + 10_000, 600) == []


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
@pytest.mark.parametrize(("of_consumer", "of_all"), [(1, 0), (0, 1)])
def test_a_message_of_more_chunks_than_may_be_held_comes_whole(kind: SubscriptionType, of_consumer: int, of_all: int) -> None:
    world = ChunkWorld(unacked_max=of_consumer, unacked_of_all_max=of_all)
    holder = world.attach(kind, permits=100)
    positions = world.publish_frames(*chunks_of(1, 0, 1, 2), send_frame(2, b"plain"))
    assert received(holder) == positions[:3], "and then as many as may be held have come"
    world.ack(holder, positions[2])
    assert received(holder) == positions[3:]


# --- Key_Shared


def holders(world: ChunkWorld) -> tuple[Consumer, list[str], Consumer]:
    """A consumer that has everything, the keys that another takes from it, and that other."""
    keys = [f"k{number}" for number in range(20)]
    former = world.attach(KEY_SHARED, permits=1_000)
    frames = [frame for number, key in enumerate(keys) for frame in chunks_of(number, 0, 1, key=key)]
    sent = world.publish_frames(*frames)
    assert received(former) == sent
    return former, keys, world.attach(KEY_SHARED, permits=1_000)


def test_a_message_whose_key_changes_hands_comes_whole_to_the_new_consumer() -> None:
    world = ChunkWorld()
    former, keys, other = holders(world)
    parts = received(other)
    moved = [keys[position.entry_id // 2] for position in parts[::2]]
    assert 0 < len(moved) < len(keys), "some keys move, others stay"
    rest = world.publish_frames(*(frame for number, key in enumerate(keys) for frame in chunks_of(number, 2, key=key)))
    ended = [position for position, key in zip(rest, keys, strict=True) if key in moved]
    assert received(other) == ended
    assert received(former) == [position for position in rest if position not in ended]
    world.ack(other, *ended)
    assert world.subscription.backlog_entries == 3 * (len(keys) - len(moved))


def test_a_consumer_that_lost_a_message_cannot_acknowledge_parts_of_it() -> None:
    """Clients do, when they give up waiting for the rest."""
    world = ChunkWorld()
    former, _, other = holders(world)
    parts = received(other)
    world.ack(former, *parts)
    assert world.subscription.backlog_entries == 40
    world.ack(other, *parts)
    assert world.subscription.backlog_entries == 40 - len(parts)


def test_earlier_messages_of_the_key_are_waited_for() -> None:
    world = ChunkWorld()
    former = world.attach(KEY_SHARED, permits=1_000)
    keys = [f"k{number}" for number in range(20)]
    plain = world.publish_frames(*(send_frame(100, b"plain", key=key) for key in keys))
    parts = world.publish_frames(*(frame for number, key in enumerate(keys) for frame in chunks_of(number, 0, key=key)))
    other = world.attach(KEY_SHARED, permits=1_000)
    assert received(other) == []
    world.ack(former, *plain)
    assert 0 < len(received(other)) < len(parts)


def test_out_of_order_delivery_brings_it_whole_too() -> None:
    world = ChunkWorld()
    mode = KeySharedMode(out_of_order=True)
    former = world.attach(KEY_SHARED, permits=1_000, key_shared=mode)
    keys = [f"k{number}" for number in range(20)]
    parts = world.publish_frames(*(frame for number, key in enumerate(keys) for frame in chunks_of(number, 0, key=key)))
    other = world.attach(KEY_SHARED, permits=1_000, key_shared=mode)
    rest = world.publish_frames(*(frame for number, key in enumerate(keys) for frame in chunks_of(number, 1, 2, key=key)))
    got = received(other)
    first = [position for position in got if position in parts]
    assert 0 < len(first) < len(keys)
    assert len(got) == 3 * len(first)
    assert len(received(former)) == len(parts) + len(rest) - 2 * len(first)
