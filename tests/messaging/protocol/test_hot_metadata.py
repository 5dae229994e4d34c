"""`hot.deliver_at` against protobuf, and what `hot.scan` says of delayed messages."""

from __future__ import annotations

from types import ModuleType

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send
from messaging.protocol.hot import SendFrame
from tests.messaging.protocol.frame_bytes import NOISE, unknown_fields, varint
from tests.messaging.protocol.hot_variants import VARIANTS

each_variant = pytest.mark.parametrize("hot", VARIANTS.values(), ids=VARIANTS)
TEXT = st.text(max_size=20)
TIMES = st.one_of(st.none(), st.sampled_from([0, 1, 1_790_000_000_000, -1, 2**63 - 1, -(2**63)]), st.integers(0, 2**63 - 1))


@st.composite
def metadata(draw: st.DrawFn) -> pb.Metadata:
    made = pb.Metadata(producer_name=draw(TEXT), sequence_id=draw(st.integers(0, 2**64 - 1)), publish_time=1_790_000_000_000)
    for key in draw(st.lists(TEXT, max_size=3)):
        made.properties.add(key=key, value="\x98\x01" + key)
    if draw(st.booleans()):
        made.num_messages_in_batch = draw(st.integers(-5, 500))
    if draw(st.booleans()):
        made.ordering_key = draw(NOISE) + b"\x98\x01\x05"
    if draw(st.booleans()):
        made.uuid, made.chunk_id = draw(TEXT), 3
    at_ms = draw(TIMES)
    if at_ms is not None:
        made.deliver_at_time = at_ms
    return made


@each_variant
@given(metadata(), unknown_fields(pb.Metadata), st.booleans(), NOISE)
def test_the_delivery_time_is_the_one_that_protobuf_reads(
    hot: ModuleType, made: pb.Metadata, unknown: bytes, first: bool, around: bytes
) -> None:
    data = unknown + made.SerializeToString() if first else made.SerializeToString() + unknown
    read = pb.Metadata.FromString(data)
    buf = around + data + b"\x98\x01\x07" + around
    assert hot.deliver_at(buf, len(around), len(around) + len(data)) == max(0, read.deliver_at_time)


@each_variant
@given(st.binary(max_size=60))
@example(b"\x98\x01")
@example(b"\x98\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
@example(b"\x98\x01\x05\x0a\x7f")
def test_metadata_that_protobuf_cannot_read_asks_for_nothing_and_nothing_else_is_read(hot: ModuleType, data: bytes) -> None:
    try:
        read = pb.Metadata.FromString(data + b"\x0a\x01p\x10\x01\x18\x01").deliver_at_time
    except DecodeError:
        read = None
    at_ms = hot.deliver_at(data + b"\x98\x01\x09" * 4, 0, len(data))
    assert at_ms == 0 or at_ms == read


@each_variant
def test_scan_finds_the_delayed_frames_among_others(hot: ModuleType) -> None:
    times = [0, 0, 1_790_000_000_000, 0, 5, 5, 0, 0]
    buf = b""
    for index, at_ms in enumerate(times):
        made = pb.Metadata(producer_name="p", sequence_id=index, publish_time=1)
        if at_ms:
            made.deliver_at_time = at_ms
        buf += build_send(1, index, made, b"\x98\x01\x05" * 3)
    out: list[SendFrame] = []
    assert hot.scan(buf, 0, len(buf), out) == len(buf)
    assert [frame.deliver_at_ms for frame in out] == times
    assert [frame.flags for frame in out] == [hot.DELAYED if at_ms else 0 for at_ms in times]
    assert hot.summarize(out).flags == hot.DELAYED


@each_variant
def test_a_negative_or_endless_time_is_none(hot: ModuleType) -> None:
    for value in (-1 & 2**64 - 1, 2**63):
        assert hot.deliver_at(b"\x98\x01" + varint(value), 0, 2 + len(varint(value))) == 0
