"""`hot.scan` against protobuf: what protobuf reads, it reads; what nobody can read, it says so; and it never leaves the frame."""

from __future__ import annotations

from types import ModuleType

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from messaging.limits.sizes import BATCH_MESSAGES_MAX, BATCHED_MESSAGE_BYTES_MIN
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send
from messaging.protocol.hot import SendFrame
from tests.messaging.protocol.frame_bytes import NOISE, body_of, encoded, sends, unknown_fields, whole
from tests.messaging.protocol.hot_variants import VARIANTS, fields

each_variant = pytest.mark.parametrize("hot", VARIANTS.values(), ids=VARIANTS)


@each_variant
@given(sends(), unknown_fields(pb.Send), st.booleans(), st.booleans(), NOISE, st.integers(0, 40), NOISE)
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
        whole(encoded(command), body_of(b"m")) if isinstance(command, pb.Send) else whole(command.SerializeToString(), b"")
        for command in commands
    ]
    buf = b"".join(frames)
    position, sequence_ids = 0, []
    for sent, frame in zip(commands, frames, strict=True):
        out: list[SendFrame] = []
        stopped = hot.scan(buf, position, len(buf), out)
        if isinstance(sent, pb.Send):
            assert out[0].end == position + len(frame)
            sequence_ids.append(out[0].sequence_id if not out[0].flags & hot.MALFORMED else None)
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
