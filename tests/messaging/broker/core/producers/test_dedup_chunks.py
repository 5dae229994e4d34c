"""Chunks of one message share its sequence id: each is stored once, and an interrupted message can be sent again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.chunks import chunk_parts
from messaging.broker.core.producers.deduplication import Deduplication
from messaging.broker.core.producers.producer_sequences import CONTINUED_MS_MAX, NOWHERE, ChunkPart
from messaging.protocol import hot
from messaging.protocol.hot import CHUNK, SendFrame
from messaging.storage.ledger_store import Position
from tests.support.clients.chunking import chunk_frame

NAME = b"producer"


class Log:
    """A topic's log with its deduplication, as the publisher uses it."""

    def __init__(self) -> None:
        self.dedup = Deduplication()
        self.stored: list[tuple[int, int]] = []  # (sequence id, chunk; -1: a whole message)
        self.frames: list[tuple[SendFrame, ChunkPart | None, int]] = []

    def send(self, *sent: tuple[int, ChunkPart | None], now_ms: int = 0) -> list[tuple[int, int]]:
        """Appends a block and returns what of it is new."""
        block = [SendFrame(1, number, 0, 0, 1, 1, 0, CHUNK if part else 0) for number, part in sent]
        parts = {frame: part for frame, (_, part) in zip(block, sent, strict=True) if part is not None}
        fresh, repeated = self.dedup.sift(NAME, block, now_ms, parts)
        assert repeated == (len(fresh) != len(block))
        self.dedup.took(NAME, fresh, now_ms, parts)
        new = [(frame.sequence_id, parts[frame].chunk_id if frame in parts else -1) for frame in fresh]
        if fresh:
            self.dedup.stored(NAME, fresh, Position(7, len(self.stored)), now_ms, parts)
        self.frames += [(frame, parts.get(frame), now_ms) for frame in fresh]
        self.stored += new
        return new

    def position_of(self, number: int, part: ChunkPart | None) -> int:
        return self.dedup.position_of(NAME, number, part).entry_id

    def restart(self, snapshot_at: int | None) -> None:
        """With nothing but the log from an entry on, and the snapshot taken there; None: without a snapshot."""
        first = 0
        if snapshot_at is None:
            dedup = Deduplication()
        else:
            before = Log()
            for frame, part, now_ms in self.frames[:snapshot_at]:
                before.send((frame.sequence_id, part), now_ms=now_ms)
            dedup, first = Deduplication.restore(before.dedup.snapshot(Position(7, snapshot_at - 1))), snapshot_at
        for entry, (frame, part, now_ms) in enumerate(self.frames):
            if entry >= first:
                dedup.replay(NAME, [frame], Position(7, entry), now_ms, {frame: part} if part else {})
        self.dedup = dedup


def chunks(count: int, message: int = 1) -> list[ChunkPart]:
    return [ChunkPart(index, count, message) for index in range(count)]


def test_a_message_counts_with_its_last_chunk() -> None:
    log, parts = Log(), chunks(3)
    assert log.send((5, parts[0]), (5, parts[1])) == [(5, 0), (5, 1)]
    assert log.dedup.highest_taken(NAME) == -1
    assert log.send((5, parts[2])) == [(5, 2)]
    assert log.dedup.highest_taken(NAME) == 5
    assert log.send(*((5, part) for part in parts)) == []
    assert [log.position_of(5, part) for part in parts] == [0, 1, 2]
    assert log.send((4, None), (5, None), (6, None)) == [(6, -1)]


def test_an_interrupted_message_sent_again_whole_is_stored_once() -> None:
    log, parts = Log(), chunks(4)
    log.send((5, parts[0]), (5, parts[1]))
    assert log.send(*((5, part) for part in parts), now_ms=CONTINUED_MS_MAX) == [(5, 2), (5, 3)]
    assert [log.position_of(5, part) for part in parts] == [0, 1, 2, 3]


def test_chunks_that_consumers_have_given_up_are_stored_anew() -> None:
    log, parts = Log(), chunks(3)
    log.send((5, parts[0]), (5, parts[1]))
    assert log.send((5, parts[1]), now_ms=CONTINUED_MS_MAX + 1) == []  # it does not begin again: its receipt was lost
    assert log.send(*((5, part) for part in parts), now_ms=CONTINUED_MS_MAX + 1) == [(5, 0), (5, 1), (5, 2)]
    assert [log.position_of(5, part) for part in parts] == [2, 3, 4]
    assert log.send(*((5, part) for part in parts), now_ms=10 * CONTINUED_MS_MAX) == []


def test_a_message_that_was_divided_otherwise_is_another() -> None:
    log, before, after = Log(), chunks(4, 1), chunks(2, 2)
    log.send((5, before[0]), (5, before[1]))
    assert log.send(*((5, part) for part in after)) == [(5, 0), (5, 1)]
    assert [log.position_of(5, part) for part in after] == [2, 3]
    assert log.send((5, before[2])) == []


def test_a_later_message_ends_one_that_is_incomplete() -> None:
    log, parts = Log(), chunks(2)
    log.send((5, parts[0]))
    assert log.send((6, None), (5, parts[1])) == [(6, -1)]
    assert log.dedup.highest_taken(NAME) == 6


def test_the_chunks_of_a_message_that_was_left_incomplete_are_at_no_known_place() -> None:
    """How many of them were stored is forgotten with the message, and the place of another one must not be told."""
    log, parts = Log(), chunks(3)
    log.send((5, parts[0]), (5, parts[1]), (6, None))
    assert log.send((5, parts[1])) == []
    assert [log.dedup.position_of(NAME, 5, part) for part in parts[:2]] == [NOWHERE, NOWHERE]
    assert log.position_of(6, None) == 2


def test_a_chunk_whose_beginning_is_unknown_is_stored() -> None:
    log, parts = Log(), chunks(3)
    assert log.send((5, parts[1]), (5, parts[1]), (5, parts[2])) == [(5, 1), (5, 2)]
    assert log.dedup.position_of(NAME, 5, parts[0]) == NOWHERE


def test_memory_of_incomplete_messages_is_counted_and_given_back() -> None:
    log, parts = Log(), chunks(2)
    log.send((1, None))
    before = log.dedup.memory_bytes
    log.send((5, parts[0]))
    assert log.dedup.memory_bytes >= before + 100
    log.send((5, parts[1]))
    assert log.dedup.memory_bytes < before + 100
    log.send((6, parts[0]))
    log.dedup.forget_unused(1)
    assert log.dedup.memory_bytes == 0


def test_a_snapshot_of_the_version_before_is_read() -> None:
    log = Log()
    log.send((7, None))
    packed = bytearray(log.dedup.snapshot(Position(7, 0)))
    packed[0] = 1  # without incomplete messages the versions are equal
    assert Deduplication.restore(bytes(packed)).highest_taken(NAME) == 7


MESSAGES = st.lists(st.integers(1, 4), min_size=1, max_size=6)  # the chunks of each; 1: a whole message


@given(MESSAGES, st.data())
def test_every_part_is_stored_once_and_in_order_whatever_is_sent_again_and_wherever_it_crashes(
    counts: list[int], data: st.DataObject
) -> None:
    """A client that sends again from some part that may have no receipt, with the broker restarting in between."""
    log = Log()
    wanted = [(number, part) for number, count in enumerate(counts) for part in (chunks(count, number) if count > 1 else [None])]
    sent = 0
    while sent < len(wanted):
        sent -= data.draw(st.integers(0, sent), label="sent again")
        upto = data.draw(st.integers(sent + 1, len(wanted)), label="up to")
        log.send(*wanted[sent:upto])
        sent = upto
        if data.draw(st.booleans(), label="restarts"):
            log.restart(data.draw(st.none() | st.integers(0, len(log.stored)), label="snapshot"))
    expected = [(number, part.chunk_id if part else -1) for number, part in wanted]
    assert log.stored == expected
    log.restart(None)
    assert [log.position_of(*part) for part in wanted] == list(range(len(wanted)))


def test_a_chunk_is_known_by_its_metadata() -> None:
    frames = [
        chunk_frame(5, b"a", 0, 2),
        chunk_frame(5, b"b", 1, 2),
        chunk_frame(5, b"b", 1, 2, uuid="other"),
        chunk_frame(6, b"c", 3, 2),  # there is none with this number
    ]
    data = b"".join(frames)
    sent: list[SendFrame] = []
    hot.scan(data, 0, len(data), sent)
    parts = chunk_parts(sent, data)
    assert [frame in parts for frame in sent] == [True, True, True, False]
    first, second, other = (parts[frame] for frame in sent[:3])
    assert (first.chunk_id, first.chunks, second.chunk_id) == (0, 2, 1)
    assert first.message == second.message != other.message
    broken = SendFrame(1, 5, 0, 0, 4, 1, 0, CHUNK)
    assert not chunk_parts([broken], b"\x00\x00\xff\xff")
