"""Chunks of one message are sent to one consumer, acknowledged and sent again together, and never held forever."""

from __future__ import annotations

import pytest
from pyroaring import BitMap

from messaging.broker.core.chunks import Chunk
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.chunk_sets import CHUNK_BYTES, CHUNKS_MAX, ChunkSets
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription_type import SubscriptionType
from messaging.storage.ledger_store import Position
from tests.support.clients.chunking import chunk_frame
from tests.support.clients.raw_client import send_frame
from tests.support.worlds.chunk_world import ChunkWorld, chunks_of
from tests.support.worlds.subscription_world import Sink, counted, received

SHARED = SubscriptionType.SHARED


def test_all_chunks_of_a_message_go_to_one_consumer_over_blocks_and_between_others() -> None:
    world = ChunkWorld()
    consumers = [world.attach(SHARED, permits=100) for _ in range(3)]
    first = world.publish_frames(*chunks_of(1, 0), send_frame(2, b"plain"), *chunks_of(3, 0), *chunks_of(1, 1))
    second = world.publish_frames(*chunks_of(3, 1, 2), *chunks_of(1, 2))
    sent = {position: consumer for consumer in consumers for position in received(consumer)}
    assert len({sent[position] for position in (first[0], first[3], second[2])}) == 1
    assert len({sent[position] for position in (first[2], second[0], second[1])}) == 1
    assert len(sent) == 7


def test_the_rest_of_a_message_comes_although_its_consumer_has_no_permits_left() -> None:
    world = ChunkWorld()
    consumer, other = world.attach(SHARED, permits=1), world.attach(SHARED, permits=1)
    positions = world.publish_frames(*chunks_of(1, 0, 1, 2))
    assert received(consumer) == positions
    assert (consumer.permits, received(other)) == (-2, [])


def test_a_rejected_chunk_brings_the_whole_message_with_one_count() -> None:
    world = ChunkWorld()
    consumer = world.attach(SHARED, permits=100)
    positions = world.publish_frames(*chunks_of(1, 0, 1, 2), send_frame(2, b"plain"))
    received(consumer)
    world.nack(consumer, positions[2])
    assert counted(consumer) == [(position, 1) for position in positions[:3]]
    world.nack(consumer)
    assert counted(consumer) == [*((position, 2) for position in positions[:3]), (positions[3], 1)]


def test_a_part_is_forgotten_again_if_that_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half forgotten, it was found no more, and what came of it later counted as redelivered."""
    world = ChunkWorld()
    consumer = world.attach(SHARED, permits=100)
    positions = world.publish_frames(*chunks_of(1, 0, 1))
    assert received(consumer) == positions
    chunks = world.subscription.state.chunks
    assert chunks is not None

    def fail(self: Consumer, chunks: int) -> None:
        raise RuntimeError("injected")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(Consumer, "leave_uncounted", fail)
        chunks.forget_consumer(consumer)
    assert chunks and consumer.uncounted == 2
    chunks.forget_consumer(consumer)
    assert not chunks and consumer.uncounted == 0


def test_a_message_whose_consumer_left_goes_to_another_from_its_start() -> None:
    world = ChunkWorld()
    consumer, other = world.attach(SHARED, permits=100), world.attach(SHARED)
    positions = world.publish_frames(*chunks_of(1, 0, 1))
    assert received(consumer) == positions
    world.flow(other, 10)
    world.detach(consumer)
    rest = world.publish_frames(*chunks_of(1, 2))
    assert received(other) == [*positions, *rest]


def test_acknowledging_any_chunk_of_a_whole_message_acknowledges_it() -> None:
    world = ChunkWorld()
    consumer = world.attach(SHARED, permits=100)
    positions = world.publish_frames(*chunks_of(1, 0, 1, 2), *chunks_of(2, 0))
    world.ack(consumer, positions[2])
    assert world.subscription.backlog_entries == 1
    assert consumer.unacked_messages == 1
    world.ack(consumer, positions[3])
    assert world.subscription.backlog_entries == 0, "an incomplete one is acknowledged chunk by chunk"


def test_a_message_that_is_not_completed_is_let_go() -> None:
    world = ChunkWorld()
    world.attach(SHARED, permits=100)
    positions = world.publish_frames(*chunks_of(1, 0, 1), *chunks_of(2, 0, 1, 2))
    state = world.subscription.state
    assert state.unfinished_chunks(world.now_ms + 600, 600) == []
    assert state.unfinished_chunks(world.now_ms + 601, 600) == positions[:2]
    assert state.unfinished_chunks(world.now_ms + 601, 600) == []


def test_chunks_that_may_still_be_read_are_waited_for() -> None:
    world = ChunkWorld()
    consumer = world.attach(SHARED, permits=2)
    world.publish_frames(*chunks_of(1, 0, 1))
    world.publish([1])
    state = world.subscription.state
    assert consumer.permits == 0
    assert state.unfinished_chunks(world.now_ms + 10_000, 600) == [], "the rest may lie beyond what was read"


def test_memory_for_hostile_names_is_limited() -> None:
    sets, consumer = ChunkSets(lambda ledger_id, entries: None), Consumer(1, "c", Sink())
    for number in range(CHUNKS_MAX + 50):
        sets.sent(consumer, Position(1, number), Chunk(b"%d" % number, 0, 2), 0, counted=True)
    assert sets.memory_bytes == CHUNK_BYTES * CHUNKS_MAX
    assert sets.holder(Chunk(b"0", 1, 2)) is None
    assert sets.holder(Chunk(b"%d" % CHUNKS_MAX, 1, 2)) is consumer
    block = EntryBlock(1, 0, frame := chunk_frame(1, b"x", 0, 2, uuid="u" * 100_000), [len(frame)], 0, 1, chunked=True)
    chunk = block.chunk_at(0)
    assert chunk is not None and len(chunk.message) == 16


@pytest.mark.parametrize(("chunk_id", "chunks"), [(3, 3), (-1, 3), (0, 0)])
def test_a_frame_without_a_valid_chunk_number_is_no_chunk(chunk_id: int, chunks: int) -> None:
    frame = chunk_frame(1, b"x", chunk_id, chunks)
    assert EntryBlock(1, 0, frame, [len(frame)], 0, 1, chunked=True).chunk_at(0) is None


def test_former_chunks_of_a_message_that_began_anew_are_let_go_too() -> None:
    """It held mark-delete for ever."""
    world = ChunkWorld()
    world.attach(SHARED, permits=100)
    positions = world.publish_frames(*chunks_of(1, 0, 1), *chunks_of(1, 0, 1, 2))
    state = world.subscription.state
    assert state.unfinished_chunks(world.now_ms + 601, 600) == positions[:2]


def test_a_part_that_is_taken_back_is_taken_back_though_something_raised_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was forgotten and still held: it counted towards the limits of a consumer that could not acknowledge it."""
    sets, former, owner = ChunkSets(lambda ledger_id, entries: None), Consumer(1, "former", Sink()), Consumer(2, "owner", Sink())
    former.held[1], former.unacked_messages = BitMap([0]), 1
    sets.sent(former, Position(1, 0), Chunk(b"m", 0, 2), 0, counted=True)

    def fail(consumer: Consumer, ledger_id: int, entries: BitMap) -> BitMap:
        raise RuntimeError("injected")

    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(Consumer, "release", fail)
        sets.take_back(lambda position: owner)
    assert sets, "there is more to do"
    assert sets.take_back(lambda position: owner) == [(1, BitMap([0]))]
    assert (former.held, former.unacked_messages, former.uncounted) == ({}, 0, 0)
    assert sets.take_back(lambda position: owner) == []
