"""Which messages are the last of their key, for any number of keys in bounded memory. Pure but for the files that it is given.

Every message with a key adds a record of 24 bytes to one of 256 parts, chosen by a digest of the key: the digest, and the number of
the message with a bit for tombstones. Parts are written to files as they grow. In the end each part is gone through by itself: the
keys of only one are in memory at a time. What survives is a bitmap of numbers, at most a few bytes each.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Protocol

from pyroaring import BitMap64

PARTS = 256
BUFFER_BYTES = 16 << 10  # of each part, before it is written
DIGEST_BYTES = 16
_RECORD = struct.Struct(f">{DIGEST_BYTES}sQ")


class PartFile(Protocol):
    """Holds the records of one part."""

    def write(self, records: bytes) -> None: ...

    def read(self) -> Iterator[bytes]:
        """What was written, in order, in pieces of whole records."""


class LastValues:
    """`part` makes the file of a part, when that is first needed. `salt`: random bytes, so that nobody can choose keys with equal
    digests."""

    def __init__(self, part: Callable[[int], PartFile], salt: bytes) -> None:
        self._part = part
        self._salt = salt
        self._buffers = [bytearray() for _ in range(PARTS)]
        self._files: dict[int, PartFile] = {}

    def add(self, key: bytes, number: int, *, tombstone: bool) -> None:
        """Message `number`, which is higher than all before, has this key."""
        digest = blake2b(key, digest_size=DIGEST_BYTES, key=self._salt).digest()
        index = digest[0]
        buffer = self._buffers[index]
        buffer += _RECORD.pack(digest, number << 1 | tombstone)
        if len(buffer) >= BUFFER_BYTES:
            file = self._files.get(index)
            if file is None:
                file = self._files[index] = self._part(index)
            file.write(bytes(buffer))
            buffer.clear()

    def surviving(self, step: Callable[[], None] = lambda: None) -> BitMap64:
        """The number of the last message of each key, unless that is a tombstone. Calls `step` after each part."""
        found = BitMap64()
        for index, buffer in enumerate(self._buffers):
            file = self._files.get(index)
            last: dict[bytes, int] = {}
            for records in (*(file.read() if file is not None else ()), bytes(buffer)):
                last.update(_RECORD.iter_unpack(records))
            found.update(number >> 1 for number in last.values() if not number & 1)
            step()
        return found
