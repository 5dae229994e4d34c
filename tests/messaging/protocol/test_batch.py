"""Opening stored payloads: every codec within its bound, every lie a `ProtocolError` and never a flood."""

from __future__ import annotations

import sys
import threading
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.limits.sizes import BATCH_MESSAGES_MAX
from messaging.protocol import batch
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import ProtocolError, Stored, parse_stored
from messaging.settings import Settings

CODECS = [pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY]
COMPRESSED = CODECS[1:]
each_codec = pytest.mark.parametrize("codec", CODECS, ids=pb.Compression.Name)
each_compressed = pytest.mark.parametrize("codec", COMPRESSED, ids=pb.Compression.Name)


@each_codec
@given(st.binary(max_size=2000))
def test_round_trip(codec: int, data: bytes) -> None:
    assert batch.decompress(codec, batch.compress(codec, data), len(data), 4000) == data


@each_compressed
@pytest.mark.parametrize("declared", [0, 1, 99, 101, 200, 10_000])
def test_another_size_than_declared(codec: int, declared: int) -> None:
    with pytest.raises(ProtocolError):
        batch.decompress(codec, batch.compress(codec, b"x" * 100), declared, 1 << 20)


@each_compressed
@pytest.mark.parametrize("declared", [-1, 1025, 1 << 31])
def test_more_than_allowed_is_refused_unread(codec: int, declared: int) -> None:
    with pytest.raises(ProtocolError, match="at most 1024"):
        batch.decompress(codec, b"", declared, 1024)


@each_compressed
def test_a_bomb_does_not_go_off(codec: int) -> None:
    """16 MiB of zeros that declare a thousand bytes: opening them must not take more than a little."""
    bomb = batch.compress(codec, bytes(16 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            batch.decompress(codec, bomb, 1000, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@each_compressed
def test_other_threads_run_while_the_largest_message_is_opened(codec: int) -> None:
    """No thread is made to let another run here: whoever runs while another opens a message was let run by the codec."""
    size = Settings().message_bytes_max * batch.UNPACKED_TIMES_MAX
    packed = batch.compress(codec, bytes(size))
    under_way = threading.Event()
    done = threading.Event()

    def opens() -> None:
        under_way.set()
        data = batch.decompress(codec, packed, size, size)
        done.set()
        assert len(data) == size

    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1_000)
    try:
        seen = False
        for _ in range(50):  # a busy machine may let this thread run too late
            under_way.clear()
            done.clear()
            thread = threading.Thread(target=opens)
            thread.start()
            while not done.wait(0.0001):
                seen = seen or under_way.is_set()
            thread.join()
            if seen:
                break
    finally:
        sys.setswitchinterval(before_s)
    assert seen


@each_compressed
@given(st.binary(max_size=200), st.integers(0, 4000))
def test_garbage_is_a_frame_error(codec: int, garbage: bytes, declared: int) -> None:
    try:
        data = batch.decompress(codec, garbage, declared, 4000)
    except ProtocolError:
        return
    assert len(data) == declared


@each_compressed
@given(st.binary(min_size=1, max_size=300), st.data())
def test_cut_off_is_a_frame_error(codec: int, data: bytes, draw: st.DataObject) -> None:
    compressed = batch.compress(codec, data)
    cut = draw.draw(st.integers(0, len(compressed) - 1))
    try:
        opened = batch.decompress(codec, compressed[:cut], len(data), 4000)
    except ProtocolError:
        return
    assert opened == data  # zlib and zstd end with a checksum; without it all the bytes are there


def test_an_unknown_codec() -> None:
    with pytest.raises(ProtocolError, match="77"):
        batch.decompress(77, b"x", 1, 10)


def single(payload: bytes, **fields: object) -> bytes:
    head = pb.SingleMetadata(payload_size=len(payload), **fields).SerializeToString()  # type: ignore[arg-type]
    return len(head).to_bytes(4, "big") + head + payload


def singles(packed: Stored, bytes_max: int) -> Iterator[batch.Single]:
    return batch.singles(packed, batch.unpack(packed, bytes_max))


def stored(data: bytes, count: int | None, **fields: object) -> Stored:
    metadata = pb.Metadata(producer_name="p", sequence_id=40, publish_time=1, **fields)  # type: ignore[arg-type]
    if count is not None:
        metadata.num_messages_in_batch = count
    return Stored(metadata, data)


@each_codec
def test_the_messages_of_a_batch(codec: int) -> None:
    data = single(b"one", partition_key="k", properties=[pb.KeyValue(key="a", value="b")]) + single(
        b"", sequence_id=7, event_time=5, null_value=True
    )
    packed = stored(batch.compress(codec, data), 2, compression=codec, uncompressed_size=len(data))
    first, second = singles(packed, 1000)
    assert first == (0, 2, {"a": "b"}, "k", False, 0, 40, b"one", False)
    assert second == (1, 2, {}, None, False, 5, 7, b"", True)


def test_a_message_that_is_no_batch() -> None:
    (message,) = singles(stored(b"hello", None, partition_key="k", event_time=3), 1000)
    assert message == (-1, 1, {}, "k", False, 3, 40, b"hello", False)


def test_a_batch_of_one_has_an_index() -> None:
    (message,) = singles(stored(single(b"x"), 1), 1000)
    assert (message.batch_index, message.batch_size) == (0, 1)


def test_an_encrypted_batch_stays_closed() -> None:
    closed = stored(b"secret", 3, encryption_keys=[pb.EncryptionKey(key="k", value=b"v")], compression=pb.ZLIB, uncompressed_size=9)
    (message,) = singles(closed, 1000)
    assert (message.batch_index, message.payload) == (-1, b"secret")


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (single(b"x"), 2),
        (single(b"x"), 2**31 - 1),
        (single(b"x"), 0),
        (single(b"x"), -1),
        (b"", 1),
        (b"\x00\x00\x00\x00", 1),
        (b"\xff\xff\xff\xff", 1),
        (b"\x00\x00\x00\x05abc", 1),
        (single(b"x")[:-1], 1),
        ((2).to_bytes(4, "big") + b"\x18\x64" + b"x", 1),  # payload_size 100
        ((11).to_bytes(4, "big") + b"\x18" + b"\xff" * 9 + b"\x01" + b"x" * 9, 1),  # payload_size -1
        ((2).to_bytes(4, "big") + b"\xff\xff", 1),
    ],
)
def test_a_batch_that_is_not_what_it_says(data: bytes, count: int) -> None:
    with pytest.raises(ProtocolError):
        list(singles(stored(data, count), 1000))


@given(st.binary(max_size=100), st.integers(-5, 2**31 - 1))
def test_singles_of_garbage(data: bytes, count: int) -> None:
    try:
        messages = list(singles(stored(data, count), 1000))
    except ProtocolError:
        return
    assert len(messages) == count
    assert sum(len(message.payload) for message in messages) <= len(data)


def test_zlib_data_behind_the_end_is_not_counted() -> None:
    assert batch.decompress(pb.ZLIB, zlib.compress(b"abc") + b"tail", 3, 100) == b"abc"


def test_texts_of_a_message_that_are_not_utf8_are_shown_as_well_as_can_be() -> None:
    """Protobuf gives bytes for them, which no JSON of a WebSocket consumer can hold: it got this message never."""
    metadata = pb.Metadata(producer_name="p", sequence_id=1, publish_time=1, partition_key="<key>")
    metadata.properties.add(key="<key>", value="<key>")
    data = metadata.SerializeToString().replace(b"<key>", b"<\xffey>")
    (message,) = batch.singles(parse_stored(len(data).to_bytes(4, "big") + data), b"")
    assert (message.partition_key, message.properties) == ("<\ufffdey>", {"<\ufffdey>": "<\ufffdey>"})


def test_a_batch_of_more_messages_than_the_limits_allow_is_not_opened() -> None:
    metadata = pb.Metadata(producer_name="p", sequence_id=1, publish_time=1, num_messages_in_batch=BATCH_MESSAGES_MAX + 1)
    data = metadata.SerializeToString()
    with pytest.raises(ProtocolError, match="declares 131073 messages"):
        list(batch.singles(parse_stored(len(data).to_bytes(4, "big") + data), bytes(2 << 20)))
