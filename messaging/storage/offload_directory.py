"""Offloaded ledgers as files of a directory: the plainest home, and the proof of the seam.

``ledger-<id>``:  BLOCK record*, as in the log (`local/records.py`), checksums seeded with the ledger's id
                  | FOOTER record: header: length of the ledger in bytes u64; data: (first entry i64, place in the file u64)*
                  | place of the footer u64
A file is written under another name and renamed once it is on the disk, so that one with the right name is whole.
"""

from __future__ import annotations

import asyncio
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from messaging.storage.ledger_store import Block, Corrupt, LedgerInfo, LedgerReader, NoSuchEntry, NoSuchLedger, Unavailable
from messaging.storage.local.format import records

T = TypeVar("T")

COPY_BYTES = 8 << 20  # read and written at a time
COPY_ENTRIES = 100_000


class DirectoryOffloader:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def _path(self, ledger_id: int) -> Path:
        return self._directory / f"ledger-{ledger_id}"

    async def offload(self, info: LedgerInfo, reader: LedgerReader) -> None:
        writing = await _off_loop(lambda: _Writing(self._directory, info.ledger_id))
        try:
            entry = 0
            while entry <= info.last_entry:
                blocks = await reader.read(entry, entries_max=COPY_ENTRIES, bytes_max=COPY_BYTES)
                await _off_loop(lambda blocks=blocks: writing.add(blocks))  # type: ignore[misc]
                entry = blocks[-1].last_entry + 1
            await _off_loop(lambda: writing.finish(self._path(info.ledger_id), info))
        finally:
            await _off_loop(writing.close)

    async def open(self, ledger_id: int) -> DirectoryReader:
        return await _off_loop(lambda: DirectoryReader(self._path(ledger_id), ledger_id))

    async def delete(self, ledger_id: int) -> None:
        await _off_loop(lambda: self._path(ledger_id).unlink(missing_ok=True))


class _Writing:
    """One file being written. Blocks."""

    def __init__(self, directory: Path, ledger_id: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._draft = directory / f"draft-{ledger_id}"
        self._file = self._draft.open("wb")
        self._ledger_id = ledger_id
        self._seed = records.seed_of(ledger_id, 0, 0)
        self._index = array("q")

    def add(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._index.extend((block.first_entry, self._file.tell()))
            self._put(records.BLOCK, block.first_entry, block.header, block.end_offsets, block.data)

    def _put(self, type_: int, first: int, header: bytes, end_offsets: array[int], data: bytes | memoryview) -> None:
        body = records.BODY.pack(type_, 0, 0, self._ledger_id, first, len(end_offsets), len(header), len(data))
        body += header + records.end_offsets_bytes(end_offsets)
        whole = body + data
        self._file.write(records.CRC.pack(records.checksum(whole, self._seed)) + whole)

    def finish(self, path: Path, info: LedgerInfo) -> None:
        footer = self._file.tell()
        self._put(records.FOOTER, info.last_entry, records.LENGTH.pack(info.length_bytes), array("I"), self._index.tobytes())
        self._file.write(records.LENGTH.pack(footer))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._draft.replace(path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def close(self) -> None:
        self._file.close()
        self._draft.unlink(missing_ok=True)


class DirectoryReader:
    """Opening blocks (and holds a descriptor until `aclose`): `DirectoryOffloader.open` does it off the loop."""

    def __init__(self, path: Path, ledger_id: int) -> None:
        self.ledger_id = ledger_id
        self._seed = records.seed_of(ledger_id, 0, 0)
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise NoSuchLedger(f"there is no offloaded ledger {ledger_id}", ledger_id) from None
        try:
            self._read_footer()
        except BaseException:
            os.close(self._descriptor)
            raise

    def _read_footer(self) -> None:
        size = os.fstat(self._descriptor).st_size
        end = size - records.LENGTH.size
        place = records.LENGTH.unpack(os.pread(self._descriptor, records.LENGTH.size, end))[0] if end > 0 else size
        view, record = self._record(place, end - place, 0)
        index = array("q")
        index.frombytes(view[record.data_start : record.stop])
        self._firsts, self._places = index[::2], index[1::2]
        self._places.append(place)
        self._last_entry = record.first_entry

    def _record(self, place: int, size: int, entry: int) -> tuple[memoryview, records.Record]:
        view = memoryview(os.pread(self._descriptor, max(size, 0), place))
        record = records.parse(view, 0)
        if record is None or record.stop != size or not records.checksum_matches(view, record, self._seed):
            raise Corrupt(f"the offloaded copy of ledger {self.ledger_id} is damaged at entry {entry}", self.ledger_id, entry)
        return view, record

    async def read(self, first: int, *, entries_max: int, bytes_max: int) -> list[Block]:
        if not 0 <= first <= self._last_entry:
            raise NoSuchEntry(f"ledger {self.ledger_id} ends at entry {self._last_entry}; {first} was asked for", self.ledger_id)
        return await _off_loop(lambda: self._read(first, entries_max, bytes_max))

    def _read(self, first: int, entries_max: int, bytes_max: int) -> list[Block]:
        found: list[Block] = []
        size = 0
        for at in range(bisect_right(self._firsts, first) - 1, len(self._firsts)):
            if found and self._firsts[at] >= first + entries_max:
                break
            try:
                view, record = self._record(self._places[at], self._places[at + 1] - self._places[at], self._firsts[at])
            except Corrupt:
                if found:  # the next read begins with it, and says so
                    break
                raise
            size += record.stop - record.data_start
            if found and size > bytes_max:
                break
            found.append(records.block_of(view, record, copy=False))
        return found

    async def aclose(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


async def _off_loop(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise Unavailable(f"the directory of offloaded ledgers: {error}") from error
