"""The bytes of entries and packets, held against vectors that were computed from the public description of BookKeeper."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from messaging.bookkeeper import bookkeeper_pb2 as pb
from messaging.bookkeeper import generate
from messaging.bookkeeper.core import packets, plain_packets
from messaging.bookkeeper.core.entries import HEADER, NO_ENTRY, Digest, DigestMismatch, DigestType, master_key
from messaging.bookkeeper.core.packets import FrameSplitter, Status, decode_answer
from messaging.bookkeeper.errors import ProtocolViolation

PAYLOAD = b"hello world"
VECTORS = [
    (DigestType.DUMMY, b"", ""),
    (DigestType.CRC32C, b"", "391bb8ca"),
    (DigestType.CRC32, b"", "000000007b76fd94"),
    (DigestType.HMAC, b"foobar", "59614f3a0d0e6bb4892b31bbba27cc35afa4c4bb"),
]


def test_the_generated_code_is_that_of_the_schema() -> None:
    pytest.importorskip("grpc_tools", reason="needs the protobuf compiler: pip install grpcio-tools")
    for target, text in generate.generated().items():
        assert (generate.ROOT / target).read_text() == text, f"{target} is old: run python -m messaging.bookkeeper.generate"


@pytest.mark.parametrize(("digest_type", "password", "expected"), VECTORS)
def test_an_entry_has_its_ids_its_length_and_its_digest(digest_type: DigestType, password: bytes, expected: str) -> None:
    stored = b"".join(Digest(digest_type, password).pack(7, 3, 2, 11, PAYLOAD))
    assert stored[:32].hex() == "000000000000000700000000000000030000000000000002000000000000000b"
    assert stored[32:-11].hex() == expected
    assert stored[-11:] == PAYLOAD


@pytest.mark.parametrize(("digest_type", "password", "_expected"), VECTORS)
def test_an_entry_is_read_as_it_was_written(digest_type: DigestType, password: bytes, _expected: str) -> None:
    digest = Digest(digest_type, password)
    entry = digest.unpack(7, 3, b"".join(digest.pack(7, 3, 2, 11, PAYLOAD)))
    assert (entry.entry_id, entry.last_confirmed, entry.length, entry.payload) == (3, 2, 11, PAYLOAD)


@pytest.mark.parametrize("digest_type", [DigestType.CRC32C, DigestType.CRC32, DigestType.HMAC])
def test_one_changed_bit_anywhere_is_noticed(digest_type: DigestType) -> None:
    digest = Digest(digest_type, b"")
    stored = b"".join(digest.pack(7, 3, 2, 11, PAYLOAD))
    for position in range(len(stored)):
        damaged = bytearray(stored)
        damaged[position] ^= 1
        with pytest.raises(DigestMismatch):
            digest.unpack(7, 3, bytes(damaged))


def test_an_entry_of_another_id_is_no_answer() -> None:
    digest = Digest(DigestType.CRC32C, b"")
    stored = b"".join(digest.pack(7, 3, 2, 11, PAYLOAD))
    with pytest.raises(DigestMismatch, match="asked for entry 7:4, got 7:3"):
        digest.unpack(7, 4, stored)
    with pytest.raises(DigestMismatch, match="asked for entry 8:-1, got 7:3"):
        digest.unpack(8, NO_ENTRY, stored)
    assert digest.unpack(7, NO_ENTRY, stored).entry_id == 3


def test_p14_a_payload_may_be_empty() -> None:
    digest = Digest(DigestType.CRC32C, b"")
    assert digest.unpack(1, 0, b"".join(digest.pack(1, 0, -1, 0, b""))).payload == b""
    with pytest.raises(DigestMismatch, match="35 bytes"):
        digest.unpack(1, 0, bytes(35))


@pytest.mark.parametrize("digest_type", list(DigestType))
def test_a_large_payload_in_parts_is_not_copied(digest_type: DigestType) -> None:
    digest, payload = Digest(digest_type, b""), bytes(range(256)) * 40
    parts = (payload[:5], memoryview(payload)[5:])
    body = digest.pack(7, 3, 2, 20_000, *parts)
    assert body[1] is parts[0] and body[2] is parts[1]
    assert digest.unpack(7, 3, b"".join(body)).payload == payload
    assert len(digest.pack(7, 3, 2, 11, b"hello ", b"world")) == 1, "a small one is less work in one piece"


def test_the_master_key_is_of_the_password() -> None:
    assert master_key(b"").hex() == "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
    assert master_key(b"foobar").hex() == "951273d194a6b67be531d77ae6007211f49a5c52"


@pytest.mark.parametrize("recovery", [False, True])
@pytest.mark.parametrize(
    ("txn_id", "ledger_id", "entry_id"),
    [(0, 0, 0), (1, 7, 3), (2**40, 2**62, 2**61), (300, 2**31, 129), (2**14, 127, 2**21), (2**14 - 1, 128, 2**21 - 1)],
)
def test_an_add_that_is_encoded_by_hand_is_what_protobuf_reads(txn_id: int, ledger_id: int, entry_id: int, recovery: bool) -> None:
    body = b"".join(Digest(DigestType.CRC32C, b"").pack(ledger_id, entry_id, -1, 300, bytes(300)))
    frame = packets.encode_add(txn_id, ledger_id, entry_id, master_key(b""), len(body), recovery) + body
    request = pb.Request.FromString(frame[4:])
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert (request.header.version, request.header.operation, request.header.txnId) == (3, pb.ADD_ENTRY, txn_id)
    assert request.header.priority == (100 if recovery else 0)
    add = request.addRequest
    assert (add.ledgerId, add.entryId, add.masterKey, add.body) == (ledger_id, entry_id, master_key(b""), body)
    assert add.flag == (1 if recovery else 0)
    assert len(frame) - len(body) <= packets.ADD_OVERHEAD_BYTES


def test_a_fencing_read_has_the_key_the_flag_and_priority() -> None:
    request = pb.Request.FromString(packets.encode_read(9, 7, NO_ENTRY, master_key(b"x"))[4:])
    assert (request.header.operation, request.header.priority) == (pb.READ_ENTRY, 100)
    assert (request.readRequest.entryId, request.readRequest.flag, request.readRequest.masterKey) == (-1, 1, master_key(b"x"))
    plain = pb.Request.FromString(packets.encode_read(9, 7, 3)[4:])
    assert not plain.readRequest.HasField("flag") and not plain.readRequest.HasField("masterKey")


def test_plain_packets_are_those_of_version_2() -> None:
    """The read against a vector that was computed from the public description."""
    assert plain_packets.encode_read(7, 3).hex() == "00000014" + "02020000" + "0000000000000007" + "0000000000000003"
    (body,) = Digest(DigestType.CRC32C, b"").pack(7, 3, 2, 11, PAYLOAD)
    frame = plain_packets.encode_add(master_key(b""), len(body)) + body
    assert frame[:8].hex() == f"{len(frame) - 4:08x}" + "02010000"
    assert frame[8:28] == master_key(b"") and frame[28:] == body


@pytest.mark.parametrize(("error", "status"), [(0, Status.OK), (2, Status.NO_ENTRY), (104, Status.FENCED), (9, Status.UNKNOWN)])
def test_a_plain_answer_says_what_was_asked(error: int, status: Status) -> None:
    packet = bytes.fromhex("02020000") + error.to_bytes(4, "big") + bytes(7) + b"\x07" + bytes(7) + b"\x03stored"
    assert plain_packets.is_plain(packet)
    assert plain_packets.decode_answer(packet) == ((plain_packets.READ, 7, 3), status, b"stored")


@pytest.mark.parametrize("packet", [b"\x02\x02", b"\x03\x02" + bytes(22), b"\x02\x03" + bytes(22)])
def test_what_is_no_plain_answer_is_a_violation_of_the_protocol(packet: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="no response of version 2"):
        plain_packets.decode_answer(packet)


def test_both_statuses_of_an_answer_count() -> None:
    header = pb.Header(version=3, operation=pb.ADD_ENTRY, txnId=5)
    for outer, inner, expected in (
        (0, 0, Status.OK),
        (0, 504, Status.FENCED),
        (502, 0, Status.UNAUTHORIZED),
        (777, 0, Status.UNKNOWN),
    ):
        response = pb.Response(header=header, status=outer, addResponse=pb.AddResponse(status=inner, ledgerId=1, entryId=1))
        assert decode_answer(response.SerializeToString()).status is expected


def test_what_is_no_packet_is_a_violation_of_the_protocol() -> None:
    with pytest.raises(ProtocolViolation, match="no response of version 3"):
        decode_answer(b"\x02\x02\x00\x00")
    with pytest.raises(ProtocolViolation, match="a frame of 4294967295 bytes"):
        FrameSplitter().feed(b"\xff\xff\xff\xff")


def test_frames_are_cut_wherever_a_socket_divides_them() -> None:
    stream = b"".join(len(packet).to_bytes(4, "big") + packet for packet in (b"", b"one", b"three" * 100))
    for step in (1, 2, 3, 7, 1000):
        splitter = FrameSplitter()
        packets_read = [packet for start in range(0, len(stream), step) for packet in splitter.feed(stream[start : start + step])]
        assert packets_read == [b"", b"one", b"three" * 100]


def test_the_header_of_an_entry_has_32_bytes() -> None:
    assert HEADER.size == 32


def test_p17_nothing_of_the_core_looks_at_a_clock() -> None:
    """Leases and time limits are the shell's; what is acknowledged or lost is never decided by one."""
    for path in Path(packets.__file__).parent.glob("*.py"):
        imported = {
            alias.name if isinstance(node, ast.Import) else node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert not imported & {"time", "datetime", "asyncio", "random", "secrets"}, path.name
