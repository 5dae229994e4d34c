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
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import crc32c

HEADER = struct.Struct(">qqqq")
NO_ENTRY = -1


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
        compute: dict[DigestType, tuple[int, Callable[[bytes, bytes], bytes]]] = {
            DigestType.DUMMY: (0, lambda _header, _payload: b""),
            DigestType.CRC32C: (4, lambda header, payload: crc32c.crc32c(payload, crc32c.crc32c(header)).to_bytes(4, "big")),
            DigestType.CRC32: (8, lambda header, payload: zlib.crc32(payload, zlib.crc32(header)).to_bytes(8, "big")),
            DigestType.HMAC: (20, self._hmac),
        }
        self._size, self._compute = compute[digest_type]

    @property
    def overhead(self) -> int:
        """Bytes that an entry takes beside its payload."""
        return HEADER.size + self._size

    def pack(self, ledger_id: int, entry_id: int, last_confirmed: int, length: int, payload: bytes) -> bytes:
        header = HEADER.pack(ledger_id, entry_id, last_confirmed, length)
        return b"".join((header, self._compute(header, payload), payload))

    def unpack(self, ledger_id: int, entry_id: int, stored: bytes) -> Entry:
        """`entry_id` NO_ENTRY: whichever it is, as a bookie answers to the question for its last one. Raises `DigestMismatch`."""
        if len(stored) < self.overhead:
            raise DigestMismatch(f"{len(stored)} bytes are less than the {self.overhead} that every entry has")
        header, payload = stored[: HEADER.size], stored[self.overhead :]
        stored_ledger, stored_entry, last_confirmed, length = HEADER.unpack(header)
        if stored_ledger != ledger_id or entry_id not in (NO_ENTRY, stored_entry):
            raise DigestMismatch(f"asked for entry {ledger_id}:{entry_id}, got {stored_ledger}:{stored_entry}")
        if self._compute(header, payload) != stored[HEADER.size : self.overhead]:
            raise DigestMismatch(f"entry {ledger_id}:{stored_entry} does not match its {self.digest_type.name} digest")
        return Entry(ledger_id, stored_entry, last_confirmed, length, payload)

    def _hmac(self, header: bytes, payload: bytes) -> bytes:
        mac = hmac.new(self._mac_key, header, hashlib.sha1)
        mac.update(payload)
        return mac.digest()
