"""Bytes of frames, put together by hand, and SENDs as hypothesis makes them."""

from __future__ import annotations

from crc32c import crc32c
from hypothesis import strategies as st

from messaging.protocol import pulsar_pb2 as pb

UINT64 = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))
NOISE = st.binary(max_size=24)


def whole(command: bytes, rest: bytes) -> bytes:
    """A frame around an encoded command and what follows it."""
    return (4 + len(command) + len(rest)).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command + rest


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


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
def unknown_fields(draw: st.DrawFn, kind: type[pb.Send] | type[pb.Metadata]) -> bytes:
    """Of a protocol newer than ours."""
    known = kind.DESCRIPTOR.fields_by_number
    out = b""
    for number in draw(st.lists(st.integers(1, 5000).filter(lambda number: number not in known), max_size=3)):
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
