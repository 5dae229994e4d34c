"""Blocks on their way into the log and back: what was sent is what is read."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.entries import EntryBlock, for_log, from_log, header_of, pieces
from messaging.protocol import hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import PING, build_send
from messaging.storage.block_header import MARKER, BlockHeader, decode
from messaging.storage.seam import Block


def send(sequence_id: int, payload: bytes, count: int = 1) -> bytes:
    metadata = pb.Metadata(producer_name="p", sequence_id=sequence_id, publish_time=1)
    return build_send(1, sequence_id, metadata, payload, count)


@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(1, 9), st.booleans()), min_size=1, max_size=8))
def test_there_and_back(sends: list[tuple[bytes, int, bool]]) -> None:
    """With and without other frames between: those are left out of the log."""
    buf = b""
    sent: list[hot.Sent] = []
    for index, (payload, count, other) in enumerate(sends):
        buf += PING if other else b""
        start = len(buf)
        buf += send(index, payload, count)
        assert hot.scan(buf, start, len(buf), sent) == len(buf)
    stops = array("I", hot.measured(sent)[3])
    data = for_log(buf, sent, stops.tolist())
    total = sum(count for _, count, _ in sends)
    stored = Block(4, 100, header_of(sent, b"name", 7_000, total), bytes(data), stops)
    read, was = from_log(stored), EntryBlock(4, 100, buf, sent, 7_000, total)
    assert (read.broker_time_ms, read.message_count, read.uniform) == (7_000, total, was.uniform)
    assert (read.first_entry, read.last_entry) == (100, 100 + len(sends) - 1)
    for entry in range(100, 100 + len(sends)):
        assert read.payload(entry) == was.payload(entry)
        assert read.payload(entry).endswith(sends[entry - 100][0])
    assert read.messages_in(0, len(sends)) == total
    header = decode(stored.header)
    assert (header.producer, header.first_sequence, header.last_sequence) == (b"name", 0, len(sends) - 1)


@pytest.mark.parametrize("change", ["cut", "more", "garbage"])
def test_a_block_that_is_not_what_its_index_says(change: str) -> None:
    buf = send(0, b"one") + send(1, b"two")
    sent: list[hot.Sent] = []
    hot.scan(buf, 0, len(buf), sent)
    stops = array("I", hot.measured(sent)[3])
    data = {"cut": buf[:-1], "more": buf + send(2, b"three"), "garbage": b"\x00" * len(buf)}[change]
    with pytest.raises(ValueError, match="index"):
        from_log(Block(1, 0, header_of(sent, b"p", 1, 2), data, stops))


def test_a_marker_says_so() -> None:
    buf = send(0, b"m")
    sent: list[hot.Sent] = []
    hot.scan(buf, 0, len(buf), sent)
    stops = array("I", hot.measured(sent)[3])
    data = for_log(buf, sent, stops.tolist())
    assert from_log(Block(1, 0, BlockHeader(1, 1, 0, 0, b"", MARKER).encode(), bytes(data), stops)).marker


def test_the_highest_sequence_id_of_a_batch_ends_the_block() -> None:
    sent = [(1, 5, 0, 0, 1, 10, 14, 0)]
    assert decode(header_of(sent, b"p", 1, 10)).last_sequence == 14


def test_the_largest_sequence_id_fits() -> None:
    largest = 2**63 - 1
    assert decode(header_of([(1, largest, 0, 0, 1, 1, largest, 0)], b"p", 1, 1)).last_sequence == largest


@given(st.lists(st.tuples(st.binary(max_size=60), st.integers(1, 9)), min_size=1, max_size=12), st.integers(1, 400))
def test_the_pieces_of_a_block_are_the_block(sends: list[tuple[bytes, int]], bytes_max: int) -> None:
    frames = [send(index, payload, count) for index, (payload, count) in enumerate(sends)]
    stops = array("I")
    for frame in frames:
        stops.append(len(frame) + (stops[-1] if stops else 0))
    block = Block(4, 100, BlockHeader(7_000, sum(count for _, count in sends), 0, 0, b"name").encode(), b"".join(frames), stops)
    found = pieces(block, bytes_max)
    read = [from_log(piece) for piece in found]
    assert [piece.first_entry for piece in found] == [100, *(piece.last_entry + 1 for piece in found[:-1])]
    assert all(len(piece.data) <= bytes_max or piece.count == 1 for piece in found)
    assert [one[5] for piece in read for one in piece.sent] == [count for _, count in sends]
    assert [piece.message_count for piece in read] == [sum(one[5] for one in piece.sent) for piece in read]
    whole = from_log(block)
    assert [piece.payload(entry) for piece in read for entry in range(piece.first_entry, piece.last_entry + 1)] == [
        whole.payload(entry) for entry in range(100, 100 + len(sends))
    ]
