"""What a bookie stores of an entry, and the digests over it. Numbers are big-endian.

     0..7   ledger id
     8..15  entry id
    16..23  last add confirmed: the writer's when it sent the entry, so at most the entry id - 1
    24..31  length: bytes of all payloads of the ledger up to and with this one
    32..    digest, then the payload

The digest is over bytes 0..31 and the payload. The master key goes with every add and every fencing read; a bookie keeps the
first one that it sees for a ledger and refuses others.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import crc32c

HEADER = struct.Struct(">qqqq")
NO_ENTRY = -1
JOINED_BYTES_MAX = 4096  # copying so little costs less than one more part of a write

Buffer: TypeAlias = bytes | bytearray | memoryview
Body: TypeAlias = tuple[Buffer, ...]  # what a bookie stores of an entry: parts that are sent one behind the other, and not changed


class DigestType(IntEnum):
    """Numbers are those of the ledger's metadata."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


class DigestMismatch(Exception):
    """The bytes are not an entry of this ledger that its writer made."""


@dataclass(frozen=True, slots=True)
class Entry:
    """`length` counts the payloads of the ledger up to and with this one, in bytes."""

    ledger_id: int
    entry_id: int
    last_confirmed: int
    length: int
    payload: bytes


def master_key(password: bytes) -> bytes:
    return hashlib.sha1(b"ledger" + password).digest()


class Digest:
    """Packs and checks the entries of ledgers with one password and one type of digest."""

    def __init__(self, digest_type: DigestType, password: bytes) -> None:
        self.digest_type = digest_type
        self.master_key = master_key(password)
        self._mac_key = hashlib.sha1(b"mac" + password).digest()
        compute: dict[DigestType, tuple[int, Callable[[bytes, Sequence[Buffer]], bytes]]] = {
            DigestType.DUMMY: (0, lambda _header, _payload: b""),
            DigestType.CRC32C: (4, _crc32c),
            DigestType.CRC32: (8, _crc32),
            DigestType.HMAC: (20, self._hmac),
        }
        self._size, self._compute = compute[digest_type]

    @property
    def overhead(self) -> int:
        """Bytes that an entry takes beside its payload."""
        return HEADER.size + self._size

    def pack(self, ledger_id: int, entry_id: int, last_confirmed: int, length: int, *payload: Buffer) -> Body:
        """A large payload is not copied."""
        header = HEADER.pack(ledger_id, entry_id, last_confirmed, length)
        before = header + self._compute(header, payload)
        if sum(map(len, payload)) <= JOINED_BYTES_MAX:
            return (b"".join((before, *payload)),)
        return (before, *payload)

    def unpack(self, ledger_id: int, entry_id: int, stored: bytes) -> Entry:
        """`entry_id` NO_ENTRY: whichever it is, as a bookie answers to the question for its last one. Raises `DigestMismatch`."""
        if len(stored) < self.overhead:
            raise DigestMismatch(f"{len(stored)} bytes are less than the {self.overhead} that every entry has")
        header, payload = stored[: HEADER.size], stored[self.overhead :]
        stored_ledger, stored_entry, last_confirmed, length = HEADER.unpack(header)
        if stored_ledger != ledger_id or entry_id not in (NO_ENTRY, stored_entry):
            raise DigestMismatch(f"asked for entry {ledger_id}:{entry_id}, got {stored_ledger}:{stored_entry}")
        if self._compute(header, (payload,)) != stored[HEADER.size : self.overhead]:
            raise DigestMismatch(f"entry {ledger_id}:{stored_entry} does not match its {self.digest_type.name} digest")
        return Entry(ledger_id, stored_entry, last_confirmed, length, payload)

    def _hmac(self, header: bytes, payload: Sequence[Buffer]) -> bytes:
        mac = hmac.new(self._mac_key, header, hashlib.sha1)
        for part in payload:
            mac.update(part)
        return mac.digest()


def _crc32c(header: bytes, payload: Sequence[Buffer]) -> bytes:
    value = crc32c.crc32c(header)
    for part in payload:
        value = crc32c.crc32c(part, value)
    return value.to_bytes(4, "big")


def _crc32(header: bytes, payload: Sequence[Buffer]) -> bytes:
    value = zlib.crc32(header)
    for part in payload:
        value = zlib.crc32(part, value)
    return value.to_bytes(8, "big")
