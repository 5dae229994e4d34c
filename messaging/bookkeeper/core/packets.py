"""Packets of version 3: a length of four bytes, big-endian, then a protobuf `Request` or `Response`, matched by transaction id.

Adds are encoded by hand: their body goes to several bookies and is not copied for each. Field order is free in protobuf, so the
body is the last field of an add, and the add the last of its request.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from google.protobuf.message import DecodeError

from messaging.bookkeeper import bookkeeper_pb2 as pb
from messaging.bookkeeper.errors import ProtocolViolation

VERSION = 3
HIGH_PRIORITY = 100
FRAME_BYTES_MAX = 5 * 1024 * 1024  # what bookies allow unless they are told otherwise
# What an add has around its stored entry: keys, ids and lengths in the longest form that they have.
ADD_OVERHEAD_BYTES = 128
_FLAG_RECOVERY_ADD = b"\xa0\x06\x01"  # field 100, a number: 1
_FLAG_FENCE = 1
_BOOKIE_INFO_ALL = 3


class Status(IntEnum):
    """Answers of bookies, and below zero what the client itself reports about a request that got none."""

    OK = 0
    NO_LEDGER = 402
    NO_ENTRY = 403
    BAD_REQUEST = 404
    IO_ERROR = 501
    UNAUTHORIZED = 502
    BAD_VERSION = 503
    FENCED = 504
    READ_ONLY = 505
    TOO_MANY_REQUESTS = 506
    UNKNOWN_LEDGER_STATE = 507
    UNKNOWN = 599  # a number that this client does not know
    TIMED_OUT = -1
    CONNECTION_LOST = -2
    OVERLOADED = -3  # too much is on its way to the bookie already; the request was not sent

    @classmethod
    def of(cls, number: int) -> Status:
        return cls._value2member_map_.get(number, cls.UNKNOWN)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is the stored entry of a read. `disk` is (total, free) in bytes."""

    txn_id: int
    status: Status
    body: bytes = b""
    disk: tuple[int, int] | None = None


_ONE_BYTE = [bytes((value,)) for value in range(0x80)]


def _varint(value: int) -> bytes:
    """Negative numbers go as 64 bits. The short forms are most of what an add has."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if 0 <= value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if 0 <= value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_add(txn_id: int, ledger_id: int, entry_id: int, key: bytes, body_size: int, recovery: bool = False) -> bytes:
    """The frame of an add up to its body, which the caller sends behind it."""
    header = b"\x08\x03\x10\x02\x18" + _varint(txn_id) + (b"\x20\x64" if recovery else b"")
    fields = b"\x08%b\x10%b\x1a%b%b" % (_varint(ledger_id), _varint(entry_id), _varint(len(key)), key)
    if recovery:
        fields += _FLAG_RECOVERY_ADD
    fields += b"\x22" + _varint(body_size)
    packet = b"\x0a%b%b\xaa\x06%b%b" % (_varint(len(header)), header, _varint(len(fields) + body_size), fields)
    return (len(packet) + body_size).to_bytes(4, "big") + packet


def _framed(request: pb.Request) -> bytes:
    packet = request.SerializeToString()
    return len(packet).to_bytes(4, "big") + packet


def _header(operation: pb.Operation, txn_id: int, priority: int | None = None) -> pb.Header:
    return pb.Header(version=VERSION, operation=operation, txnId=txn_id, priority=priority)


def encode_read(txn_id: int, ledger_id: int, entry_id: int, fence_key: bytes | None = None) -> bytes:
    """With a key the read fences the ledger: the bookie refuses adds from then on, but for those of a recovery."""
    read = pb.ReadRequest(ledgerId=ledger_id, entryId=entry_id)
    if fence_key is not None:
        read.masterKey, read.flag = fence_key, _FLAG_FENCE
    priority = None if fence_key is None else HIGH_PRIORITY
    return _framed(pb.Request(header=_header(pb.READ_ENTRY, txn_id, priority), readRequest=read))


def encode_bookie_info(txn_id: int) -> bytes:
    request = pb.BookieInfoRequest(requested=_BOOKIE_INFO_ALL)
    return _framed(pb.Request(header=_header(pb.GET_BOOKIE_INFO, txn_id), getBookieInfoRequest=request))


def encode_start_tls(txn_id: int) -> bytes:
    return _framed(pb.Request(header=_header(pb.START_TLS, txn_id), startTLSRequest=pb.Empty()))


def decode_answer(packet: bytes) -> Answer:
    """Raises `ProtocolViolation` if it is no response of version 3."""
    try:
        response = pb.Response.FromString(packet)
    except DecodeError as error:
        raise ProtocolViolation(f"a packet of {len(packet)} bytes is no response of version 3 of the protocol: {error}") from error
    txn_id, status = response.header.txnId, response.status
    if response.HasField("addResponse"):
        # Both statuses have to say that it is done.
        return Answer(txn_id, Status.of(status or response.addResponse.status))
    if response.HasField("readResponse"):
        read = response.readResponse
        status = status or read.status
        return Answer(txn_id, Status.of(status), read.body) if not status else Answer(txn_id, Status.of(status))
    if response.HasField("getBookieInfoResponse"):
        info = response.getBookieInfoResponse
        return Answer(txn_id, Status.of(status or info.status), disk=(info.totalDiskCapacity, info.freeDiskSpace))
    return Answer(txn_id, Status.of(status))


class FrameSplitter:
    """Cuts what a socket gives into packets; keeps at most one frame."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._max = frame_bytes_max
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The packets that are complete. Raises `ProtocolViolation` for a frame above the limit; the connection is of no use
        then.
        """
        buffer = self._buffer
        buffer += data
        packets = []
        start = 0
        while len(buffer) - start >= 4:
            size = int.from_bytes(buffer[start : start + 4], "big")
            if size > self._max:
                raise ProtocolViolation(f"a frame of {size} bytes is above the limit of {self._max}; no bookie sends that")
            end = start + 4 + size
            if len(buffer) < end:
                break
            packets.append(bytes(buffer[start + 4 : end]))
            start = end
        del buffer[:start]
        return packets
