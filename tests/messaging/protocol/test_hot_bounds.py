"""`hot.scan` and what a peer may claim: lengths that lie, numbers that cannot be; it never leaves the frame, and says so."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from messaging.limits.sizes import BATCH_MESSAGES_MAX, BATCHED_MESSAGE_BYTES_MIN
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send
from messaging.protocol.hot import SendFrame
from tests.messaging.protocol.frame_bytes import NOISE, body_of, encoded, sends, varint, whole
from tests.messaging.protocol.hot_variants import VARIANTS, fields

each_variant = pytest.mark.parametrize("hot", VARIANTS.values(), ids=VARIANTS)


@each_variant
@pytest.mark.timeout(10)
@pytest.mark.parametrize("length", [2**64 - 11, 2**64 - 1, 2**63, 2**63 - 1, 2**32, 100])
def test_a_length_beyond_the_frame_neither_loops_nor_leaves_it(hot: ModuleType, length: int) -> None:
    """2^64 - 11, added with 64 bits, leads back to the field's own first byte: once a loop without an end when compiled."""
    fields = pb.Send(producer_id=1, sequence_id=1).SerializeToString() + b"\x4a" + varint(length)
    frame = whole(b"\x08\x06\x32" + varint(len(fields)) + fields, body_of(b"x"))
    out: list[SendFrame] = []
    assert hot.scan(frame, 0, len(frame), out) == len(frame)
    assert out[0].flags & hot.MALFORMED


@each_variant
@pytest.mark.parametrize(
    "field",
    [
        b"\x08" + b"\xff" * 9 + b"\x02",  # 65 bits
        b"\x08" + b"\xff" * 10 + b"\x01",  # 11 bytes
        b"\x08\xff",  # no end
        b"\x08",  # no value
        b"\x09" + b"\x00" * 8,  # a fixed64, which no field is
        b"\x0b\x0c",  # a group
    ],
)
def test_values_that_are_none_are_malformed(hot: ModuleType, field: bytes) -> None:
    fields = pb.Send(producer_id=1, sequence_id=1).SerializeToString() + field
    frame = whole(b"\x08\x06\x32" + varint(len(fields)) + fields, body_of(b"x"))
    out: list[SendFrame] = []
    assert hot.scan(frame, 0, len(frame), out) == len(frame)
    assert out[0].flags & hot.MALFORMED


@each_variant
@given(sends(), NOISE, st.binary(min_size=4, max_size=4), st.sampled_from([0, 4]))
@example(pb.Send(producer_id=1, sequence_id=1), b"x", b"\xff\xff\xff\xff", 0)
@example(pb.Send(producer_id=1, sequence_id=1), b"x", b"\x00\x00\x00\x00", 0)
@example(pb.Send(producer_id=1, sequence_id=1), b"x", b"\xff\xff\xff\xff", 4)
def test_lengths_that_lie_stay_within_the_buffer(hot: ModuleType, send: pb.Send, payload: bytes, lie: bytes, at: int) -> None:
    """Twice the frame in the buffer, so that a length has where to lead astray."""
    frame = whole(encoded(send), body_of(payload))
    lying = frame[:at] + lie + frame[at + 4 :]
    buf = lying + frame
    out: list[SendFrame] = []
    stopped = hot.scan(buf, 0, len(buf), out)
    assert 0 <= stopped <= len(buf)
    place = 0
    for _, _, start, body, stop, _, _, flags in map(fields, out):
        assert start == place  # frame by frame, none skipped, each further on
        assert start < stop <= len(buf)
        assert flags & hot.MALFORMED or start < body <= stop
        place = stop
    assert stopped == place


@each_variant
@given(sends(), NOISE)
def test_every_truncation_waits_for_the_rest(hot: ModuleType, send: pb.Send, payload: bytes) -> None:
    frame = whole(encoded(send), body_of(payload))
    for size in range(len(frame)):
        out: list[SendFrame] = []
        assert hot.scan(frame[:size], 0, size, out) == 0
        assert hot.scan(frame, 0, size, out) == 0  # bytes beyond `end` are not read, even if they are there
        assert out == []


@each_variant
@given(st.binary(max_size=200), st.integers(0, 20))
def test_garbage_harms_nothing(hot: ModuleType, garbage: bytes, offset: int) -> None:
    out: list[SendFrame] = []
    begin = min(offset, len(garbage))
    assert begin <= hot.scan(garbage, begin, len(garbage), out) <= len(garbage)


def test_the_loop_has_the_numbers_of_the_table() -> None:
    plain = VARIANTS["plain"]
    assert (plain.BATCH_MESSAGES_MAX, plain.BATCHED_MESSAGE_BYTES_MIN) == (BATCH_MESSAGES_MAX, BATCHED_MESSAGE_BYTES_MIN)


@each_variant
@pytest.mark.parametrize("count", [2, 10, 1000])
def test_a_batch_that_its_bytes_cannot_hold_is_doubtful_wherever_it_stands(hot: ModuleType, count: int) -> None:
    """The first of a run, or one that looks like those before it."""
    metadata = pb.Metadata(producer_name="p", sequence_id=1, publish_time=1)
    head = 4 + len(metadata.SerializeToString()) + 6
    fits = bytes(count * BATCHED_MESSAGE_BYTES_MIN - head) if count > 10 else bytes(count * BATCHED_MESSAGE_BYTES_MIN)
    short = fits[:-1] if count > 10 else b""
    sequence_ids = [0, count, 2 * count, 3 * count]
    payloads = [fits, fits, short, fits]
    pairs = zip(sequence_ids, payloads, strict=True)
    buf = b"".join(build_send(1, sequence_id, metadata, payload, count) for sequence_id, payload in pairs)
    out: list[SendFrame] = []
    assert hot.scan(buf, 0, len(buf), out) == len(buf)
    room = [(frame.end - frame.payload_start) // BATCHED_MESSAGE_BYTES_MIN for frame in out]
    assert [bool(frame.flags & hot.DOUBTFUL) for frame in out] == [count > each for each in room]
    assert count < 100 or [count > each for each in room] == [False, False, True, False]


@each_variant
@pytest.mark.parametrize("count", [2**31, 2**32, 2**63, 2**64 - 1])
def test_a_count_beyond_its_type_can_still_be_added_up(hot: ModuleType, count: int) -> None:
    command = b"\x08\x06\x32" + varint(4 + len(varint(count)) + 1) + b"\x08\x01\x10\x01\x18" + varint(count)
    buf = whole(command, body_of(b"x"))
    out: list[SendFrame] = []
    assert hot.scan(buf, 0, len(buf), out) == len(buf)
    summary = hot.summarize(out)
    assert summary.flags == hot.DOUBTFUL and summary.message_count == 2**31 - 1
