"""Receipts, messages and acknowledgements of the hot loops against protobuf."""

from __future__ import annotations

from array import array
from itertools import accumulate
from types import ModuleType

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.messaging.protocol.frame_bytes import varint, whole
from tests.messaging.protocol.hot_variants import VARIANTS

UINT64 = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))
LEDGER = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1))
ENTRY = st.one_of(st.integers(0, 300), st.integers(0, 2**32))

each_variant = pytest.mark.parametrize("hot", VARIANTS.values(), ids=VARIANTS)


def commands(data: bytes) -> list[pb.Command]:
    """Simple commands of whole frames; fails on anything left over."""
    decoded, place = [], 0
    while place < len(data):
        total = int.from_bytes(data[place : place + 4], "big")
        assert place + 4 + total <= len(data)
        decoded.append(frames.decode(data[place + 4 : place + 4 + total]))
        place += 4 + total
    return decoded


@each_variant
@given(st.integers(0, 2**64 - 1))
@example(127)
@example(128)
@example(16383)
@example(16384)
@example(2097151)
@example(2097152)
@example(2**64 - 1)
def test_varint(hot: ModuleType, value: int) -> None:
    assert hot.varint(value) == varint(value)


@each_variant
@given(st.lists(st.tuples(UINT64, UINT64, UINT64), min_size=1, max_size=5), LEDGER, ENTRY, st.sampled_from([0, 1]), st.data())
@example([(2**64 - 1, 2**64 - 1, 2**64 - 1)], 2**63 - 1, 2**32, 1, None)
@example([(1, 2, 3)] * 3, 0, 0, 0, None)
def test_receipts_say_what_protobuf_would(
    hot: ModuleType, sends: list[tuple[int, int, int]], ledger: int, entry: int, step: int, data: st.DataObject | None
) -> None:
    sent = [hot.SendFrame(producer, sequence, 0, 0, 0, 1, highest, 0) for producer, sequence, highest in sends]
    first = data.draw(st.integers(0, len(sent) - 1)) if data else 0
    written = hot.receipts(sent, first, len(sent), ledger, entry, step)
    assert hot.joined_receipts(sent, first, len(sent), ledger, entry, step) == written
    if step:
        assert hot.receipts(sent, first, len(sent), ledger, entry) == written
    receipts = commands(written)
    assert [command.type for command in receipts] == [pb.Command.SEND_RECEIPT] * (len(sent) - first)
    for index, (command, (producer, sequence, highest)) in enumerate(zip(receipts, sends[first:], strict=True)):
        receipt = command.send_receipt
        assert (receipt.producer_id, receipt.sequence_id, receipt.highest_sequence_id) == (producer, sequence, highest)
        assert (receipt.message_id.ledger_id, receipt.message_id.entry_id) == (ledger, entry + step * index)
        assert not receipt.message_id.HasField("partition")


@each_variant
@given(st.lists(st.binary(max_size=30), min_size=1, max_size=5), LEDGER, ENTRY, UINT64, st.integers(-1, 2**31 - 1), st.data())
@example([b"x"], 2**63 - 1, 2**32, 2**64 - 1, 2**31 - 1, None)
@example([b""] * 4, 1, 126, 1, -1, None)
@example([b""] * 4, 1, 2**63 - 2, 1, 5, None)
def test_messages_carry_the_stored_bytes(
    hot: ModuleType, payloads: list[bytes], ledger: int, entry: int, consumer: int, partition: int, data: st.DataObject | None
) -> None:
    block = b"".join(whole(b"command", payload) for payload in payloads)
    end_offsets = array("I", accumulate(len(whole(b"command", payload)) for payload in payloads))
    first = data.draw(st.integers(0, len(end_offsets) - 1)) if data else 0
    stored = memoryview(b"before" + block)[6:] if len(payloads) > 2 else block
    request = (stored, end_offsets, first, len(end_offsets), ledger, entry, consumer, frames.message_id_tail(partition))
    written = bytes(hot.messages(*request))
    assert hot.joined_messages(*request) == written
    place = 0
    for index, payload in enumerate(payloads[first:]):
        total = int.from_bytes(written[place : place + 4], "big")
        frame = written[place + 4 : place + 4 + total]
        command = frames.decode(frame)
        message = command.message
        assert command.type == pb.Command.MESSAGE
        assert message.consumer_id == consumer
        assert (message.message_id.ledger_id, message.message_id.entry_id) == (ledger, entry + index)
        assert message.message_id.partition == partition
        assert message.message_id.HasField("partition") == (partition >= 0)
        assert message.redelivery_count == 0
        assert frame[4 + int.from_bytes(frame[:4], "big") :] == payload
        head = hot.message_head(len(payload), ledger, entry + index, consumer, frames.message_id_tail(partition))
        assert head + payload == written[place : place + 4 + total]
        place += 4 + total
    assert place == len(written)


@st.composite
def acknowledgements(draw: st.DrawFn) -> pb.Ack:
    ack = pb.Ack(consumer_id=draw(UINT64), ack_type=draw(st.sampled_from([pb.Ack.Individual] * 3 + [pb.Ack.Cumulative])))
    for _ in range(draw(st.sampled_from([1, 1, 1, 1, 0, 2, 12]))):
        message_id = ack.message_id.add(ledger_id=draw(UINT64), entry_id=draw(UINT64))
        for field in ("partition", "batch_index", "batch_size"):
            if draw(st.booleans()):
                setattr(message_id, field, draw(st.integers(-1, 1000)))
        if draw(st.integers(0, 5)) == 0:
            message_id.ack_set.extend(draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=2)))
        if draw(st.integers(0, 5)) == 0:
            message_id.first_chunk_message_id.CopyFrom(pb.MessageId(ledger_id=1, entry_id=1))
    for field in ("validation_error", "txnid_least_bits", "txnid_most_bits", "request_id"):
        if draw(st.integers(0, 5)) == 0:
            setattr(ack, field, draw(st.integers(0, 5)))
    return ack


def plain(ack: pb.Ack) -> bool:
    """Whether the hot loop may take it: it means no more than "these whole entries"."""
    if ack.ack_type != pb.Ack.Individual or not ack.message_id:
        return False
    if any(ack.HasField(field) for field in ("validation_error", "txnid_least_bits", "txnid_most_bits", "request_id")):
        return False
    return not any(message_id.ack_set or message_id.HasField("first_chunk_message_id") for message_id in ack.message_id)


def ids_of(ack: pb.Ack) -> list[tuple[int, int, int]]:
    return [(ack.consumer_id, message_id.ledger_id, message_id.entry_id) for message_id in ack.message_id]


@each_variant
@given(acknowledgements(), st.integers(0, 20), st.binary(max_size=20))
def test_plain_acknowledgements_are_read_as_protobuf_reads_them(hot: ModuleType, ack: pb.Ack, offset: int, after: bytes) -> None:
    frame = whole(pb.Command(type=pb.Command.ACK, ack=ack).SerializeToString(), b"")
    buf = b"\x55" * offset + frame + after
    out: list[tuple[int, int, int]] = []
    stopped = hot.scan_acks(buf, offset, offset + len(frame), out)
    if stopped == offset:
        assert out == []
        # Passed on to protobuf without need only where ids cannot be ours.
        assert not plain(ack) or max(max(message_id.ledger_id, message_id.entry_id) for message_id in ack.message_id) >= 2**63
        return
    assert plain(ack)
    assert stopped == offset + len(frame)
    assert out == ids_of(ack)


@each_variant
@pytest.mark.parametrize("batch_index", [None, -1, 0, 3])
def test_frames_of_the_stock_clients_take_the_hot_loop(hot: ModuleType, batch_index: int | None) -> None:
    message_id = pb.MessageId(ledger_id=3, entry_id=7, partition=-1)
    if batch_index is not None:
        message_id.batch_index = batch_index
    ack = pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=[message_id])
    frame = whole(pb.Command(type=pb.Command.ACK, ack=ack).SerializeToString(), b"")
    out: list[tuple[int, int, int]] = []
    assert hot.scan_acks(frame * 3, 0, 3 * len(frame), out) == 3 * len(frame)
    assert out == [(1, 3, 7)] * 3


@each_variant
@pytest.mark.parametrize("ids", [2, 9, 127, 1000, 1024])
def test_gathered_acknowledgements_take_the_hot_loop_up_to_a_limit(hot: ModuleType, ids: int) -> None:
    ack = pb.Ack(consumer_id=4, ack_type=pb.Ack.Individual)
    for entry_id in range(ids):
        ack.message_id.add(ledger_id=300_000, entry_id=entry_id * 99_999, partition=-1, batch_index=-1)
    frame = whole(pb.Command(type=pb.Command.ACK, ack=ack).SerializeToString(), b"")
    out: list[tuple[int, int, int]] = []
    assert hot.scan_acks(frame * 2, 0, 2 * len(frame), out, 1) == len(frame)
    assert out == ids_of(ack)
    assert hot.scan_acks(frame * 2, len(frame), 2 * len(frame), out, ids) == len(frame), "it has as many as are wanted"
    assert hot.scan_acks(frame * 2, len(frame), 2 * len(frame), out, ids + 1) == 2 * len(frame)
    assert out == ids_of(ack) * 2
    while len(ack.message_id) <= 1024:
        ack.message_id.add(ledger_id=1, entry_id=1)
    frame = whole(pb.Command(type=pb.Command.ACK, ack=ack).SerializeToString(), b"")
    assert hot.scan_acks(frame, 0, len(frame), out) == 0
    assert len(out) == 2 * ids


@each_variant
def test_of_a_frame_that_is_not_plain_nothing_is_taken(hot: ModuleType) -> None:
    """Whatever stands before that of which it is known."""
    plain_ids = [pb.MessageId(ledger_id=1, entry_id=entry_id) for entry_id in range(5)]
    partial = pb.MessageId(ledger_id=1, entry_id=9, ack_set=[1])
    acks = (
        pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=[*plain_ids, partial]),
        pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=plain_ids, request_id=7),
        pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=plain_ids, txnid_most_bits=1),
    )
    first = whole(
        pb.Command(
            type=pb.Command.ACK, ack=pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=plain_ids)
        ).SerializeToString(),
        b"",
    )
    for ack in acks:
        frame = whole(pb.Command(type=pb.Command.ACK, ack=ack).SerializeToString(), b"")
        out: list[tuple[int, int, int]] = []
        assert hot.scan_acks(first + frame, 0, len(first) + len(frame), out) == len(first)
        assert out == [(1, 1, entry_id) for entry_id in range(5)]


@each_variant
@given(acknowledgements(), st.data())
def test_a_changed_byte_is_never_read_as_another_acknowledgement(hot: ModuleType, ack: pb.Ack, data: st.DataObject) -> None:
    frame = bytearray(whole(pb.Command(type=pb.Command.ACK, ack=ack).SerializeToString(), b""))
    index = data.draw(st.integers(0, len(frame) - 1))
    frame[index] = data.draw(st.integers(0, 255))
    out: list[tuple[int, int, int]] = []
    stopped = hot.scan_acks(bytes(frame), 0, len(frame), out)
    assert 0 <= stopped <= len(frame)
    if not out:
        return
    try:
        read = frames.decode(bytes(frame[4:stopped])).ack
    except (DecodeError, frames.ProtocolError):
        pytest.fail(f"protobuf refuses what the loop took for {out}")
    assert out == ids_of(read)
    assert plain(read)


@each_variant
@given(acknowledgements())
def test_a_cut_acknowledgement_waits(hot: ModuleType, ack: pb.Ack) -> None:
    frame = whole(pb.Command(type=pb.Command.ACK, ack=ack).SerializeToString(), b"")
    for size in range(len(frame)):
        out: list[tuple[int, int, int]] = []
        assert hot.scan_acks(frame, 0, size, out) == 0
        assert hot.scan_acks(frame[:size], 0, size, out) == 0
        assert out == []


@each_variant
@pytest.mark.timeout(10)
@given(st.binary(max_size=120), st.binary(min_size=4, max_size=4))
@example(b"", b"\xff\xff\xff\xff")
@example(b"", b"\x80\x00\x00\x00")
def test_acknowledgements_of_garbage_and_lying_lengths_harm_nothing(hot: ModuleType, garbage: bytes, length: bytes) -> None:
    good = whole(
        pb.Command(
            type=pb.Command.ACK,
            ack=pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=[pb.MessageId(ledger_id=1, entry_id=1)]),
        ).SerializeToString(),
        b"",
    )
    for buf in (garbage, length + good[4:] + garbage, good[:4] + length + good[8:] + good, good[:12] + garbage + good):
        out: list[tuple[int, int, int]] = []
        assert 0 <= hot.scan_acks(buf, 0, len(buf), out) <= len(buf)


@each_variant
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2), st.integers(-1, 2**63 - 1)), max_size=12))
def test_acknowledgements_are_parted_by_consumer_and_ledger(hot: ModuleType, acked: list[tuple[int, int, int]]) -> None:
    expected: dict[tuple[int, int], list[int]] = {}
    for consumer_id, ledger_id, entry_id in acked:
        expected.setdefault((consumer_id, ledger_id), []).append(entry_id)
    groups = hot.group_acks(acked)
    assert groups == expected and list(groups) == list(expected)
