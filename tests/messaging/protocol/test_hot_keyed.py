"""Hashes of keys against protobuf and mmh3, who gets which entry, and the frames of the entries that one consumer gets."""

from __future__ import annotations

import base64
from array import array
from itertools import accumulate
from types import ModuleType

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send
from tests.messaging.protocol.hot_variants import VARIANTS
from tests.support.clients.raw_client import send_frame

each_variant = pytest.mark.parametrize("hot", VARIANTS.values(), ids=VARIANTS)
TEXTS = st.text(max_size=40)
SMALL = st.binary(max_size=40)

VECTORS = {
    "": 0,
    "a": 1009084850,
    "key": 1654417988,
    "key-0": 1664612543,
    "my-key": 1844492593,
    "k1": 2110152746,
    "k2": 1479966664,
    "key1": 462881061,
    "key2": 1936800180,
    "key01": 39696932,
    "key02": 751761803,
    "hello": 613153351,
    "test": 980144659,
    "order-42": 1259446670,
    "Hello, Pulsar": 455369633,
    "キー": 1030492959,
    "é": 269551495,
    "prod-1-0": 530449579,
    "prod-1-1": 1803184011,
    "NONE_KEY": 504741539,
}


def hash_of(key: bytes) -> int:
    return mmh3.hash(key, 0, False) & 0x7FFFFFFF


def hashes_of(hot: ModuleType, *sends: bytes) -> list[int]:
    return list(hot.key_hashes(b"".join(sends), array("I", accumulate(map(len, sends)))))


def metadata_with(**fields: object) -> bytes:
    metadata = pb.Metadata(producer_name="prod-1", sequence_id=1, publish_time=1_700_000_000_000, **fields)  # type: ignore[arg-type]
    return build_send(1, 1, metadata, b"payload")


def without_checksum(frame: bytes) -> bytes:
    body = 8 + int.from_bytes(frame[4:8], "big")
    assert frame[body : body + 2] == b"\x0e\x01"
    return (len(frame) - 10).to_bytes(4, "big") + frame[4:body] + frame[body + 6 :]


@each_variant
@pytest.mark.parametrize(("key", "expected"), VECTORS.items())
def test_published_vectors(hot: ModuleType, key: str, expected: int) -> None:
    data = key.encode()
    assert hot.murmur(b"zz" + data + b"zz", 2, 2 + len(data)) == expected
    assert hashes_of(hot, metadata_with(partition_key=key)) == [expected]


@each_variant
@given(st.binary(max_size=200), st.integers(0, 5))
def test_murmur_is_that_of_mmh3(hot: ModuleType, data: bytes, offset: int) -> None:
    assert hot.murmur(b"\xff" * offset + data, offset, offset + len(data)) == hash_of(data)


@each_variant
@given(
    producer=TEXTS,
    sequence_id=st.integers(0, 2**64 - 1),
    key=st.none() | TEXTS,
    ordering_key=st.none() | SMALL,
    encoded=st.none() | st.booleans(),
    properties=st.dictionaries(TEXTS, TEXTS, max_size=3),
    unknown=SMALL,
    checksum=st.booleans(),
)
def test_the_key_is_what_protobuf_reads(
    hot: ModuleType,
    producer: str,
    sequence_id: int,
    key: str | None,
    ordering_key: bytes | None,
    encoded: bool | None,
    properties: dict[str, str],
    unknown: bytes,
    checksum: bool,
) -> None:
    if encoded and key is not None:
        key = base64.b64encode(key.encode()).decode()
    metadata = pb.Metadata(
        producer_name=producer,
        sequence_id=sequence_id,
        publish_time=1,
        partition_key=key,
        ordering_key=ordering_key,
        partition_key_b64_encoded=encoded,
        encryption_param=unknown,
    )
    for name, value in properties.items():
        metadata.properties.add(key=name, value=value)
    if ordering_key is not None:
        expected = ordering_key
    elif key is not None:
        expected = base64.b64decode(key) if encoded else key.encode()
    else:
        signed = sequence_id - 2**64 if sequence_id >> 63 else sequence_id  # as Java prints it
        expected = f"{producer}-{signed}".encode()
    frame = build_send(7, 3, metadata, b"payload")
    frame = frame if checksum else without_checksum(frame)
    other = send_frame(1, b"x", key="other")
    assert hashes_of(hot, other, frame, other) == [hash_of(b"other"), hash_of(expected), hash_of(b"other")]
    view = memoryview(frame)
    assert list(hot.key_hashes(view, array("I", [len(frame)]))) == [hash_of(expected)]


@each_variant
def test_a_key_that_is_no_base64_is_none(hot: ModuleType) -> None:
    hashes = [
        hashes_of(hot, metadata_with(partition_key=key, partition_key_b64_encoded=True))[0] for key in ("a b", "€", "YQ", "YQ==")
    ]
    assert hashes == [VECTORS["NONE_KEY"]] * 2 + [VECTORS["a"]] * 2


@given(st.data(), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4), st.integers(0, 60))
def test_the_variants_agree_whatever_a_producer_writes(data: st.DataObject, changes: list[tuple[int, int]], cut: int) -> None:
    """Bytes of the metadata, and its length, are anything; the frame itself was checked when it came."""
    frame = bytearray(metadata_with(partition_key="key", ordering_key=b"ordering", properties=[pb.KeyValue(key="a", value="b")]))
    body = 8 + int.from_bytes(frame[4:8], "big") + 6
    for at, value in changes:
        frame[body + at % (len(frame) - body)] = value
    stop = max(body + 4, len(frame) - cut)
    frame = frame[:stop]
    frame[:4] = (stop - 4).to_bytes(4, "big")
    hashes = {tuple(hashes_of(hot, bytes(frame), send_frame(1, b"x", key="a"))) for hot in VARIANTS.values()}
    assert len(hashes) == 1
    assert next(iter(hashes))[1] == VECTORS["a"]


@each_variant
@given(
    hashes=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=60),
    bounds=st.sets(st.integers(1, 65534), max_size=8),
    rooms=st.lists(st.integers(0, 12), min_size=3, max_size=3),
    room=st.integers(1, 60),
    aside_max=st.integers(0, 30),
    batches=st.booleans(),
    data=st.data(),
)
def test_entries_go_to_the_owners_of_their_slots(
    hot: ModuleType,
    hashes: list[int],
    bounds: set[int],
    rooms: list[int],
    room: int,
    aside_max: int,
    batches: bool,
    data: st.DataObject,
) -> None:
    uppers = [*sorted(bounds), 65535]
    owners = data.draw(st.lists(st.integers(0, 3), min_size=len(uppers), max_size=len(uppers)))
    slots = [hashed % 65535 + 1 for hashed in hashes]
    closed = set(data.draw(st.lists(st.sampled_from(slots), max_size=3)))
    counts = [index % 4 + 1 for index in range(len(hashes))] if batches else None
    first = data.draw(st.integers(0, len(hashes) - 1))
    left, expected, aside_expected, reached = [room, *rooms], [[], [], [], []], [], first  # type: ignore[var-annotated]
    for index in range(first, len(hashes)):
        owner = next(owner_of_slot for upper, owner_of_slot in zip(uppers, owners, strict=True) if slots[index] <= upper)
        if left[0] <= 0:
            break
        if owner and left[owner] > 0 and slots[index] not in closed:
            messages = counts[index] if counts else 1
            left[0] -= messages
            left[owner] -= messages
            expected[owner].append(index)
        elif len(aside_expected) == aside_max:
            break
        else:
            aside_expected.append(index)
        reached = index + 1
    picked: list[list[int]] = [[], [], [], []]
    aside: list[int] = []
    taken = array("q", [room, *rooms])
    uppers_and_owners = array("I", uppers), array("I", owners)
    stop = hot.route(
        array("I", hashes), first, len(hashes), 65535, 1, *uppers_and_owners, taken, closed, counts, picked, aside, aside_max
    )
    assert (stop, picked, aside, list(taken)) == (reached, expected, aside_expected, left)


@each_variant
def test_slot_0_is_slot_1(hot: ModuleType) -> None:
    picked: list[list[int]] = [[], [], []]
    rooms = array("q", [9, 9, 9])
    stop = hot.route(
        array("I", [0, 65536, 1, 2]), 0, 4, 65536, 0, array("I", [1, 65536]), array("I", [1, 2]), rooms, (), None, picked, [], 9
    )
    assert (stop, picked) == (4, [[], [0, 1, 2], [3]])


@each_variant
@given(
    payloads=st.lists(SMALL, min_size=1, max_size=20),
    first_entry=st.sampled_from([0, 100, 120, 16_370, 2**21 - 5, 2**31]),
    ledger_id=st.sampled_from([0, 1, 300, 2**40]),
    tail=st.sampled_from([b"", b"\x18\x05"]),
    data=st.data(),
)
def test_frames_of_picked_entries_are_those_of_each_alone(
    hot: ModuleType, payloads: list[bytes], first_entry: int, ledger_id: int, tail: bytes, data: st.DataObject
) -> None:
    sends = [send_frame(number, payload) for number, payload in enumerate(payloads)]
    block, end_offsets = b"".join(sends), array("I", accumulate(map(len, sends)))
    picked = sorted(data.draw(st.sets(st.integers(0, len(sends) - 1), min_size=1)))
    alone = [hot.messages(block, end_offsets, entry, entry + 1, ledger_id, first_entry + entry, 77, tail) for entry in picked]
    assert bytes(hot.picked_messages(block, end_offsets, picked, ledger_id, first_entry, 77, tail)) == b"".join(map(bytes, alone))
