"""Files with the adds of many ledgers, one ledger after the other.

    pack    = "MGLPACK1" ledger*
    ledger  = length u32 | head as JSON | (length u32 | payload of an add) * adds

Big-endian. A pack has no checksum of its own: the backup has one of each of its files.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

import msgspec

from messaging.json_types import decoder_of
from messaging.storage.bookkeeper.block_format import decode
from messaging.storage.fence_table import scope_of
from messaging.storage.ledger_store import StoreError

MAGIC = b"MGLPACK1"
CONTENT_FORMAT = 1
HEAD_BYTES_MAX = 1 << 20
ADD_BYTES_MAX = 256 << 20
_LENGTH = struct.Struct(">I")


class LedgerHead(msgspec.Struct, frozen=True):
    ledger_id: int
    adds: int
    properties: dict[str, str]


class StoreContent(msgspec.Struct, frozen=True):
    """What a backup has of a store, and what there has to be in its packs. `missing`: ledgers that were listed and were not there,
    before the backup as after it."""

    format: int
    generation: str
    epoch: int
    packs: list[str]
    ledgers: int
    adds: int
    missing: list[int]


class DamagedPack(StoreError):
    """A pack is not what was written."""


class PackCount(NamedTuple):
    ledger_ids: list[int]
    adds: int
    scopes: set[str]


def framed(content: bytes) -> tuple[bytes, bytes]:
    return _LENGTH.pack(len(content)), content


def head_bytes(head: LedgerHead) -> tuple[bytes, bytes]:
    return framed(msgspec.json.encode(head))


class Pack(NamedTuple):
    """A file of a backup, and the checksum that it had when it was written."""

    path: Path
    sha256: str


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _SummedFile:
    """A file whose checksum is made as it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        content = self._file.read(size)
        self.digest.update(content)
        return content


def ledgers_of(path: Path, sha256: str | None = None) -> Iterator[tuple[LedgerHead, Iterator[bytes]]]:
    """The payloads of a ledger are to be read before the next ledger is. Whether the checksum matches, where one is given, is known
    behind the last ledger. Blocks. Raises `DamagedPack`, `OSError`."""
    with path.open("rb") as opened:
        file = opened if sha256 is None else _SummedFile(opened)
        if file.read(len(MAGIC)) != MAGIC:
            raise DamagedPack(f"{path.name} is no pack of ledgers")
        while (head := _head(path, file)) is not None:
            yield head, _payloads(path, file, head)
        if isinstance(file, _SummedFile) and file.digest.hexdigest() != sha256:
            raise DamagedPack(f"{path.name} does not match its checksum")


def checked(path: Path) -> PackCount:
    """Reads all of a pack, and whether each ledger's blocks follow one another. Blocks. Raises `DamagedPack`, `OSError`."""
    ledger_ids, adds, scopes = list[int](), 0, set[str]()
    for head, payloads in ledgers_of(path):
        ledger_ids.append(head.ledger_id)
        adds += head.adds
        scopes.add(scope_of(head.properties))
        last, end_bytes = -1, 0
        for number, payload in enumerate(payloads):
            try:
                stored = decode(head.ledger_id, number, payload)
            except ValueError as error:
                raise DamagedPack(f"{path.name}: ledger {head.ledger_id}, block {number}: {error}", head.ledger_id) from None
            if stored.after_entry != last or stored.end_bytes != end_bytes + stored.size_bytes:
                raise DamagedPack(f"{path.name}: ledger {head.ledger_id}: a block before block {number} is missing", head.ledger_id)
            last, end_bytes = stored.block.last_entry, stored.end_bytes
    return PackCount(ledger_ids, adds, scopes)


def _head(path: Path, file: _Readable) -> LedgerHead | None:
    """None at the end of the file."""
    length = file.read(_LENGTH.size)
    if not length:
        return None
    try:
        return decoder_of(LedgerHead).decode(_read(path, file, length, HEAD_BYTES_MAX))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedPack(f"{path.name}: where a ledger was to begin is something else: {error}") from None


def _payloads(path: Path, file: _Readable, head: LedgerHead) -> Iterator[bytes]:
    for _ in range(head.adds):
        yield _read(path, file, file.read(_LENGTH.size), ADD_BYTES_MAX)


def _read(path: Path, file: _Readable, length: bytes, bytes_max: int) -> bytes:
    size = _LENGTH.unpack(length)[0] if len(length) == _LENGTH.size else bytes_max + 1
    content = file.read(size) if size <= bytes_max else b""
    if len(content) != size:
        raise DamagedPack(f"{path.name} is cut off, or not a pack of ledgers")
    return content
