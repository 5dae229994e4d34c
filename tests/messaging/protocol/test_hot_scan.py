"""`hot.scan` against protobuf: what protobuf reads, it reads; what nobody can read, it says so; and it never leaves the frame."""

from __future__ import annotations

from types import ModuleType

import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from messaging.limits.sizes import BATCH_MESSAGES_MAX, BATCHED_MESSAGE_BYTES_MIN
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send
from messaging.protocol.hot import SendFrame
from tests.messaging.protocol.frame_bytes import varint, whole
from tests.messaging.protocol.hot_variants import VARIANTS, fields

UINT64 = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))
NOISE = st.binary(max_size=24)

each_variant = pytest.mark.parametrize("hot", VARIANTS.values(), ids=VARIANTS)


def body_of(payload: bytes, *, checksum: bool = True) -> bytes:
    """What follows the command of a SEND."""
    metadata = pb.Metadata(producer_name="p", sequence_id=1, publish_time=1).SerializeToString()
    covered = len(metadata).to_bytes(4, "big") + metadata + payload
    return (b"\x0e\x01" + crc32c(covered).to_bytes(4, "big") if checksum else b"") + covered


@st.composite
def sends(draw: st.DrawFn) -> pb.Send:
    """Every optional field there or not, a message id that no client sends, and fields of a protocol newer than ours."""
    send = pb.Send(producer_id=draw(UINT64), sequence_id=draw(UINT64))
    if draw(st.booleans()):
        send.num_messages = draw(st.integers(-2, 1_000_002))
    for field in ("txnid_least_bits", "txnid_most_bits", "highest_sequence_id"):
        if draw(st.booleans()):
            setattr(send, field, draw(UINT64))
    for field in ("is_chunk", "marker"):
        if draw(st.booleans()):
            setattr(send, field, draw(st.booleans()))
    if draw(st.booleans()):
        send.message_id.CopyFrom(
            pb.MessageId(ledger_id=draw(UINT64), entry_id=draw(UINT64), ack_set=draw(st.lists(st.integers(0, 9))))
        )
    return send


@st.composite
def unknown_fields(draw: st.DrawFn) -> bytes:
    out = b""
    for number in draw(st.lists(st.integers(10, 5000), max_size=3)):
        if draw(st.booleans()):
            out += varint(number << 3) + varint(draw(UINT64))
        else:
            data = draw(NOISE)
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def encoded(send: pb.Send, unknown: bytes = b"", *, first: bool = False) -> bytes:
    """The command, with `unknown` before or after the fields that we know."""
    fields = unknown + send.SerializeToString() if first else send.SerializeToString() + unknown
    return b"\x08\x06\x32" + varint(len(fields)) + fields


@each_variant
@given(sends(), unknown_fields(), st.booleans(), st.booleans(), NOISE, st.integers(0, 40), NOISE)
def test_scan_reads_what_protobuf_reads(
    hot: ModuleType, send: pb.Send, unknown: bytes, first: bool, checksum: bool, payload: bytes, offset: int, after: bytes
) -> None:
    command = encoded(send, unknown, first=first)
    read = pb.Command.FromString(command).send
    assert read.producer_id == send.producer_id
    frame = whole(command, body_of(payload, checksum=checksum))
    buf = b"\x55" * offset + frame + after
    out: list[SendFrame] = []
    assert hot.scan(buf, offset, offset + len(frame), out) == offset + len(frame)
    ((producer_id, sequence_id, start, body, stop, count, highest, flags),) = map(fields, out)
    assert (start, stop) == (offset, offset + len(frame))
    room = len(body_of(payload, checksum=checksum)) // BATCHED_MESSAGE_BYTES_MIN
    possible = read.num_messages == 1 or 1 <= read.num_messages <= min(BATCH_MESSAGES_MAX, room)
    if not possible or max(read.sequence_id, read.highest_sequence_id) >= 2**63:
        assert flags & hot.DOUBTFUL and not flags & hot.MALFORMED
        return
    expected = hot.TRANSACTION if read.txnid_least_bits or read.txnid_most_bits else 0
    expected |= hot.MARKER if read.marker else 0
    expected |= hot.CHUNK if read.is_chunk else 0
    assert flags == expected
    assert (producer_id, sequence_id, count, highest) == (
        read.producer_id,
        read.sequence_id,
        read.num_messages,
        read.highest_sequence_id,
    )
    assert buf[body:stop] == body_of(payload, checksum=checksum)


@each_variant
@given(sends(), NOISE, st.data())
def test_scan_says_malformed_of_a_send_that_protobuf_refuses(
    hot: ModuleType, send: pb.Send, payload: bytes, data: st.DataObject
) -> None:
    """One byte changed anywhere in the command: the two agree on what it says, or scan refuses it."""
    command = bytearray(encoded(send))
    index = data.draw(st.integers(0, len(command) - 1))
    command[index] = data.draw(st.integers(0, 255))
    frame = whole(bytes(command), body_of(payload))
    out: list[SendFrame] = []
    stopped = hot.scan(frame, 0, len(frame), out)
    assert stopped in (0, len(frame))
    if not out:
        assert (command[0], command[1]) != (8, 6)
        return
    ((producer_id, sequence_id, _, body, stop, count, highest, flags),) = map(fields, out)
    if flags & (hot.MALFORMED | hot.DOUBTFUL):
        assert 0 <= count < 2**31  # they can still be added up
        return
    assert 0 <= body <= stop == len(frame)
    assert 0 <= producer_id < 2**64
    assert 0 <= sequence_id < 2**64
    try:
        read = pb.Command.FromString(bytes(command))
    except Exception:  # only what protobuf holds against fields that do not matter here, or against those that are missing
        assert 1 <= count <= BATCH_MESSAGES_MAX
        return
    assert (producer_id, sequence_id, count, highest) == (
        read.send.producer_id,
        read.send.sequence_id,
        read.send.num_messages,
        read.send.highest_sequence_id,
    )


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


@given(
    st.lists(
        st.tuples(
            st.sampled_from([1, 1, 1, 1, 300]),  # producer
            st.sampled_from([1, 1, 1, 1, 2, 5, 0]),  # how far the sequence id goes on
            st.sampled_from([1, 1, 1, 5]),  # messages
            st.sampled_from(["", "", "", "", "", "no checksum", "highest", "chunk", "flip", "length"]),
        ),
        max_size=12,
    ),
    st.sampled_from([0, 120, 16380, 2**63 - 4]),
    st.booleans(),
    st.data(),
)
def test_sends_that_look_alike_are_read_as_any_others(
    stream: list[tuple[int, int, int, str]], sequence_id: int, verified: bool, data: st.DataObject
) -> None:
    """What stands in where nothing is compiled guesses; it must never be wrong."""
    buf = bytearray()
    for producer_id, step, count, special in stream:
        sequence_id = (sequence_id + step * count) % 2**64
        send = pb.Send(producer_id=producer_id, sequence_id=sequence_id)
        if count > 1:
            send.num_messages = count
        if special == "highest":
            send.highest_sequence_id = sequence_id + 1
        if special == "chunk":
            send.is_chunk = True
        frame = bytearray(whole(encoded(send), body_of(b"payload", checksum=special != "no checksum")))
        if special in ("flip", "length"):
            index = data.draw(st.integers(0, 7) if special == "length" else st.integers(8, len(frame) - 1))
            frame[index] ^= data.draw(st.integers(1, 255))
        buf += frame
    plain = VARIANTS["plain"]
    read: list[SendFrame] = []
    alike: list[SendFrame] = []
    stopped = plain.scan(bytes(buf), 0, len(buf), read, verified)
    assert plain.scan_sequential(bytes(buf), 0, len(buf), alike, verified) == stopped
    assert list(map(fields, alike)) == list(map(fields, read))


OTHERS = st.sampled_from(
    [
        pb.Command(type=pb.Command.PING, ping=pb.Ping()),
        pb.Command(
            type=pb.Command.ACK,
            ack=pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=[pb.MessageId(ledger_id=1, entry_id=2)]),
        ),
        pb.Command(type=pb.Command.FLOW, flow=pb.Flow(consumer_id=1, message_permits=1)),
    ]
)


@each_variant
@given(st.lists(st.one_of(sends(), OTHERS), max_size=8))
def test_a_read_of_mixed_frames_is_taken_apart_in_order(hot: ModuleType, commands: list[pb.Send | pb.Command]) -> None:
    frames = [
        whole(encoded(one), body_of(b"m")) if isinstance(one, pb.Send) else whole(one.SerializeToString(), b"") for one in commands
    ]
    buf = b"".join(frames)
    position, found = 0, []
    for one, frame in zip(commands, frames, strict=True):
        out: list[SendFrame] = []
        stopped = hot.scan(buf, position, len(buf), out)
        if isinstance(one, pb.Send):
            assert out[0].end == position + len(frame)
            found.append(out[0].sequence_id if not out[0].flags & hot.MALFORMED else None)
        else:
            assert stopped == position
            assert out == []
        position += len(frame)
    assert position == len(buf)


@each_variant
@given(sends(), st.binary(min_size=1, max_size=64), st.data())
def test_a_changed_byte_fails_its_checksum(hot: ModuleType, send: pb.Send, payload: bytes, data: st.DataObject) -> None:
    send.num_messages = send.sequence_id = send.highest_sequence_id = 1
    command, rest = encoded(send), bytearray(body_of(payload))
    index = data.draw(st.integers(2, len(rest) - 1))
    rest[index] ^= data.draw(st.integers(1, 255))
    out: list[SendFrame] = []
    hot.scan(whole(command, bytes(rest)), 0, 8 + len(command) + len(rest), out)
    assert out[0].flags & hot.BAD_CHECKSUM
    out.clear()
    hot.scan(whole(command, bytes(rest)), 0, 8 + len(command) + len(rest), out, True)
    assert not out[0].flags & hot.BAD_CHECKSUM  # what comes from the log was verified when it came


@each_variant
@pytest.mark.parametrize("checksum", [True, False])
def test_metadata_that_does_not_fit_is_malformed(hot: ModuleType, checksum: bool) -> None:
    """Else it would be stored, and every consumer of the topic would fail over it."""
    covered = (100).to_bytes(4, "big") + b"short"
    rest = (b"\x0e\x01" + crc32c(covered).to_bytes(4, "big") if checksum else b"") + covered
    frame = whole(encoded(pb.Send(producer_id=1, sequence_id=1)), rest)
    out: list[SendFrame] = []
    assert hot.scan(frame, 0, len(frame), out) == len(frame)
    assert out[0].flags == hot.MALFORMED


@each_variant
def test_the_vector_of_the_protocol_notes(hot: ModuleType) -> None:
    """As seen on the wire of the stock client."""
    metadata = pb.Metadata(producer_name="p", sequence_id=0, publish_time=1_700_000_000_000)
    frame = build_send(0, 0, metadata, b"hello")
    head = "000000290000000a080632060800100018010e01cf85822f0000000c0a017010001880d095ffbc31"
    assert frame.hex() == head + b"hello".hex()
    out: list[SendFrame] = []
    assert hot.scan(frame, 0, len(frame), out) == 45
    assert list(map(fields, out)) == [(0, 0, 0, 18, 45, 1, 0, 0)]


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
    room = [(one.end - one.payload_start) // BATCHED_MESSAGE_BYTES_MIN for one in out]
    assert [bool(one.flags & hot.DOUBTFUL) for one in out] == [count > each for each in room]
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
