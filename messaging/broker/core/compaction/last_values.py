"""Which messages are the last of their key, for any number of keys in bounded memory. Pure but for the files that it is given.

Every message with a key adds a record of 24 bytes to one of 256 parts, chosen by a digest of the key: the digest, and the number of
the message with a bit for tombstones. Parts are written to files as they grow. In the end each part is gone through by itself, and
one with very many keys several times, each time for some of them. What survives is a bitmap of numbers, at most a bit for each.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Protocol

from pyroaring import BitMap64

from messaging.broker.core.compaction.messages import LEFT_OUT, TOMBSTONE

PARTS = 256
BUFFER_BYTES = 16 << 10  # of each part, before it is written
DIGEST_BYTES = 16
KEYS_MAX = 1 << 18  # that are gone through at once, and as many as a piece of a file has: about 150 bytes each
_RECORD = struct.Struct(f">{DIGEST_BYTES}sQ")


class PartFile(Protocol):
    """Holds records of one kind."""

    def write(self, records: bytes) -> None: ...

    def read(self) -> Iterator[bytes]:
        """What was written, in order, in pieces of whole records of 24 or of 16 bytes."""


class RecordBuffer:
    """Records that go to a file when they are more than `BUFFER_BYTES`; `make` makes it then."""

    def __init__(self, make: Callable[[], PartFile]) -> None:
        self._make = make
        self._file: PartFile | None = None
        self.buffer = bytearray()  # whoever adds to it calls `spill` when it is full

    def spill(self) -> None:
        if self._file is None:
            self._file = self._make()
        self._file.write(bytes(self.buffer))
        self.buffer.clear()

    def read(self) -> Iterator[bytes]:
        if self._file is not None:
            yield from self._file.read()
        yield bytes(self.buffer)


class LastValues:
    """`part` makes the file of a part, when that is first needed. `salt`: random bytes, so that nobody can choose keys with equal
    digests."""

    def __init__(self, part: Callable[[int], PartFile], salt: bytes) -> None:
        self._hash = blake2b(digest_size=DIGEST_BYTES, key=salt)
        self._parts = [RecordBuffer(lambda index=index: part(index)) for index in range(PARTS)]  # type: ignore[misc]
        self._buffers = [part.buffer for part in self._parts]

    def add(self, keys: Iterable[bytes | None], kinds: Sequence[int], first_number: int) -> None:
        """Messages with numbers from `first_number` on, which is higher than all before, have these keys."""
        copy, buffers, pack = self._hash.copy, self._buffers, _RECORD.pack
        for number, (key, kind) in enumerate(zip(keys, kinds, strict=True), first_number):
            if key is None or kind == LEFT_OUT:
                continue
            hashed = copy()
            hashed.update(key)
            digest = hashed.digest()
            buffer = buffers[digest[0]]
            buffer += pack(digest, number << 1 | (kind == TOMBSTONE))
            if len(buffer) >= BUFFER_BYTES:
                self._parts[digest[0]].spill()

    def surviving(self, step: Callable[[], None] = lambda: None) -> BitMap64:
        """The number of the last message of each key, unless that is a tombstone. Calls `step` now and then."""
        surviving = BitMap64()
        for part in self._parts:
            left = [(1, 0)]  # the keys whose digests give these remainders by these numbers
            while left:
                divisor, remainder = left.pop()
                last = _last_of(part, divisor, remainder, step)
                if last is None:
                    left += ((2 * divisor, remainder), (2 * divisor, remainder + divisor))
                else:
                    surviving.update(number >> 1 for number in last.values() if not number & 1)
                step()
        return surviving


def _last_of(part: RecordBuffer, divisor: int, remainder: int, step: Callable[[], None]) -> dict[bytes, int] | None:
    """The last number for each digest of a part; None: they are too many."""
    last: dict[bytes, int] = {}
    for records in part.read():
        pairs = _RECORD.iter_unpack(records)
        if divisor == 1:
            last.update(pairs)
        else:
            last.update(pair for pair in pairs if int.from_bytes(pair[0][-4:], "big") % divisor == remainder)
        if len(last) > KEYS_MAX:
            return None
        step()
    return last
