"""Packets of version 2, for adds of writers and reads that do not fence: a bookie takes and gives their bodies as they are.

With version 3 it copies each body into a message of protobuf, on the heap of its virtual machine, and stops to collect the garbage.
Numbers are big-endian.

    request    size u32 | header u32 | master key, 20 bytes | stored entry             of an add
               size u32 | header u32 | ledger id i64 | entry id i64                     of a read
    response   size u32 | header u32 | error u32 | ledger id i64 | entry id i64 | stored entry of a read

The header is the version (8 bits), the operation (8) and flags (16). There are no transaction ids: an answer says which entry of
which ledger was added or read, and answers all requests for just that. So nothing that fences or recovers comes here, whose answers
must not be taken for others.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from messaging.bookkeeper.core.packets import Status
from messaging.bookkeeper.errors import ProtocolViolation

VERSION = 2
ADD, READ = 1, 2
_ADD_BEGIN = struct.Struct(">IBBH")
_READ = struct.Struct(">IBBHqq")
_ANSWER = struct.Struct(">BBHIqq")
_STATUSES = {
    0: Status.OK,
    1: Status.NO_LEDGER,
    2: Status.NO_ENTRY,
    100: Status.BAD_REQUEST,
    101: Status.IO_ERROR,
    102: Status.UNAUTHORIZED,
    103: Status.BAD_VERSION,
    104: Status.FENCED,
    105: Status.READ_ONLY,
    106: Status.TOO_MANY_REQUESTS,
    107: Status.UNKNOWN_LEDGER_STATE,
}


class Asked(NamedTuple):
    """What a request is answered by."""

    operation: int
    ledger_id: int
    entry_id: int


class PlainAnswer(NamedTuple):
    """`body` is the stored entry of a read."""

    asked: Asked
    status: Status
    body: bytes


def encode_add(key: bytes, body_size: int) -> bytes:
    """The frame of an add up to its body, which the caller sends behind it."""
    return _ADD_BEGIN.pack(4 + len(key) + body_size, VERSION, ADD, 0) + key


def encode_read(ledger_id: int, entry_id: int) -> bytes:
    return _READ.pack(_READ.size - 4, VERSION, READ, 0, ledger_id, entry_id)


def is_plain(packet: bytes) -> bool:
    """No message of protobuf begins so."""
    return packet[:1] == b"\x02"


def decode_answer(packet: bytes) -> PlainAnswer:
    """Raises `ProtocolViolation` if it is no response of version 2."""
    try:
        version, operation, _flags, error, ledger_id, entry_id = _ANSWER.unpack_from(packet)
    except struct.error:
        raise ProtocolViolation(f"a packet of {len(packet)} bytes is no response of version 2 of the protocol") from None
    if version != VERSION or operation not in (ADD, READ):
        problem = f"a packet of version {version}, operation {operation}, is no response of version 2 of the protocol"
        raise ProtocolViolation(problem)
    return PlainAnswer(Asked(operation, ledger_id, entry_id), _STATUSES.get(error, Status.UNKNOWN), packet[_ANSWER.size :])
