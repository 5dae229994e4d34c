"""Blocks on their way into the log and back: what was sent is what is read."""

from __future__ import annotations

from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.broker.core.entries import EntryBlock, for_log, from_log, header_of, scanned
from messaging.protocol import hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import PING, build_send
from messaging.storage.block_header import MARKER, BlockHeader, decode
from messaging.storage.ledger_store import Block


def send(sequence_id: int, payload: bytes, count: int = 1) -> bytes:
    metadata = pb.Metadata(producer_name="p", sequence_id=sequence_id, publish_time=1)
    return build_send(1, sequence_id, metadata, payload, count)


@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(1, 9), st.booleans()), min_size=1, max_size=8))
def test_there_and_back(sends: list[tuple[bytes, int, bool]]) -> None:
    """With and without other frames between: those are left out of the log."""
    buf = b""
    sent: list[hot.SendFrame] = []
    for index, (payload, count, other) in enumerate(sends):
        buf += PING if other else b""
        start = len(buf)
        buf += send(index, payload, count)
        assert hot.scan(buf, start, len(buf), sent) == len(buf)
    end_offsets = hot.summarize(sent).end_offsets
    data = for_log(buf, sent, end_offsets)
    total = sum(count for _, count, _ in sends)
    stored = Block(4, 100, header_of(sent, b"name", 7_000, total), bytes(data), end_offsets)
    read = from_log(stored)
    assert (read.broker_time_ms, read.message_count) == (7_000, total)
    assert (read.first_entry, read.last_entry) == (100, 100 + len(sends) - 1)
    for entry, frame in enumerate(sent, 100):
        assert read.payload(entry) == buf[frame.payload_start : frame.end]
        assert bytes(read.payload(entry)).endswith(sends[entry - 100][0])
    assert read.counts == [count for _, count, _ in sends]
    assert read.uniform == (set(read.counts) == {1})
    assert read.messages_in(0, len(sends)) == total
    assert [frame.sequence_id for frame in scanned(stored)] == list(range(len(sends)))
    header = decode(stored.header)
    assert (header.producer, header.first_sequence, header.last_sequence) == (b"name", 0, len(sends) - 1)


@pytest.mark.parametrize("change", ["cut", "more", "garbage"])
def test_a_block_that_is_not_what_its_index_says(change: str) -> None:
    buf = send(0, b"one") + send(1, b"two")
    sent: list[hot.SendFrame] = []
    hot.scan(buf, 0, len(buf), sent)
    end_offsets = hot.summarize(sent).end_offsets
    data = {"cut": buf[:-1], "more": buf + send(2, b"three"), "garbage": b"\x00" * len(buf)}[change]
    block = Block(1, 0, header_of(sent, b"p", 1, 2), data, end_offsets)
    for read in (from_log, scanned):
        with pytest.raises(ValueError, match="index"):
            read(block)


def test_a_marker_says_so() -> None:
    buf = send(0, b"m")
    sent: list[hot.SendFrame] = []
    hot.scan(buf, 0, len(buf), sent)
    end_offsets = hot.summarize(sent).end_offsets
    data = for_log(buf, sent, end_offsets)
    assert from_log(Block(1, 0, BlockHeader(1, 1, 0, 0, b"", MARKER).encode(), bytes(data), end_offsets)).marker


def test_the_highest_sequence_id_of_a_batch_ends_the_block() -> None:
    sent = [hot.SendFrame(1, 5, 0, 0, 1, 10, 14, 0)]
    assert decode(header_of(sent, b"p", 1, 10)).last_sequence == 14


def test_the_largest_sequence_id_fits() -> None:
    largest = 2**63 - 1
    assert decode(header_of([hot.SendFrame(1, largest, 0, 0, 1, 1, largest, 0)], b"p", 1, 1)).last_sequence == largest


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=12), st.integers(1, 400), st.data())
def test_as_many_entries_as_fit(payloads: list[bytes], bytes_max: int, data: st.DataObject) -> None:
    frames = [send(index, payload) for index, payload in enumerate(payloads)]
    end_offsets = array("I", accumulate(map(len, frames)))
    block = EntryBlock(4, 100, b"".join(frames), end_offsets, 7_000, len(frames))
    first = data.draw(st.integers(0, len(frames) - 1))
    last = block.last_within(100 + first, bytes_max) - 100
    assert first <= last < len(frames)
    assert last == first or sum(map(len, frames[first : last + 1])) <= bytes_max
    assert last == len(frames) - 1 or sum(map(len, frames[first : last + 2])) > bytes_max


def test_a_block_counts_its_memory() -> None:
    """A view of a part keeps all of the buffer."""
    data = bytes(10_000)
    end_offsets = array("I", [600])
    assert (
        EntryBlock(1, 0, data[:600], end_offsets, 0, 1).memory_bytes
        < EntryBlock(1, 0, memoryview(data)[:600], end_offsets, 0, 1).memory_bytes
    )
