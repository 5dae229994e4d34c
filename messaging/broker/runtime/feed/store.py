"""The broker's snapshot of the control plane on disk: a full state, and a journal of the changes since.

A change costs its own size: it is appended to the journal and synced. When the journal has grown longer than the state, a new state
is written beside it and the old files go; changes meanwhile go to the next journal. In a folder:

    state-N      everything before journal-N, as pages of a full feed; complete when its last page has no `next_key`
    journal-N    pages in the order in which they were taken; a last one that was cut off by a crash is ignored and overwritten

    record:  length of the page (4 bytes), its CRC-32 (4 bytes), the page (JSON of `messaging.adminrpc.feed.FeedApply`)

Everything here blocks, and is called by one thread at a time, except that `write_state` may run beside `append`. Raises `OSError`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.atomic_files import DRAFT_SUFFIX, make_directory, replacing
from messaging.json_types import decoder_of
from messaging.storage.disk_reserve import NO_RESERVE, NO_SPACE, DiskReserve

log = structlog.get_logger("broker.feed")

COMPACTED_FROM_BYTES = 1 << 20  # a journal below that is left alone
PAGE_ENTITIES = 500  # of a state
_HEAD = Struct(">II")
_PAGE = decoder_of(FeedApply)
_BODY_BEGINS = b'{"from_version":'

Entity = tuple[str, str, dict[str, Any]]
Written = TypeVar("Written")


class FeedStore:
    def __init__(self, folder: Path, reserve: DiskReserve = NO_RESERVE) -> None:
        self._folder = folder
        self._reserve = reserve  # a full disk keeps no key from being revoked
        self._number = 0  # of the journal that is appended to
        self._journal_bytes = 0  # of whole records in it
        self._state_bytes = 0

    # --- reading

    def load(self) -> Iterator[FeedApply]:
        """What was applied, in order: pages of a full feed first. After it, `append` continues where the whole records end.

        Nothing, if a journal is damaged before its end: a key may have been revoked there. The broker then lets nobody in by a key
        before the web process has told everything again."""
        for draft in (*self._folder.glob(f"*{DRAFT_SUFFIX}"), *self._folder.glob("*.draft")):  # the second: of earlier releases
            draft.unlink()
        first = 0
        pages: list[FeedApply] = []
        for number in sorted(self._numbers("state"), reverse=True):
            records = _records(self._path("state", number))
            if records.pages and not records.pages[-1].next_key:
                first, pages, self._state_bytes = number, records.pages, records.size_bytes
                break
            log.warning("feed.state_damaged", file=self._path("state", number).name)
        # Above all that is there, whatever of it can be read: what comes next must not be taken for older than that.
        self._number = max(self._numbers("state") + self._numbers("journal"), default=0)
        for number in sorted(number for number in self._numbers("journal") if number >= first):
            records = _records(self._path("journal", number))
            if records.damaged:
                log.error("feed.journal_damaged", file=self._path("journal", number).name, at_byte=records.size_bytes)
                return
            self._journal_bytes = records.size_bytes if number == self._number else 0
            pages += records.pages
        self._delete_before(first)
        yield from pages

    def _numbers(self, kind: str) -> list[int]:
        names = (path.name.removeprefix(f"{kind}-") for path in self._folder.glob(f"{kind}-*"))
        return [int(name) for name in names if name.isdecimal()]

    def _path(self, kind: str, number: int) -> Path:
        return self._folder / f"{kind}-{number}"

    # --- writing

    def append(self, page: FeedApply) -> None:
        """Durable when it returns. After a failure the next one writes over what was left behind."""
        record = _record(page)
        path = self._path("journal", self._number)
        is_new = not path.exists()
        self._with_space(lambda: self._write_record(path, record))
        if is_new:
            self._sync_folder()
        self._journal_bytes += len(record)

    def _write_record(self, path: Path, record: bytes) -> None:
        descriptor = self._open(path, 0)
        try:
            os.ftruncate(descriptor, self._journal_bytes)
            _write(descriptor, record, self._journal_bytes)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _with_space(self, work: Callable[[], Written]) -> Written:
        """Again and again while the disk is full and some space is left in the reserve."""
        self._reserve.make_room()
        while True:
            try:
                return work()
            except OSError as error:
                if error.errno not in NO_SPACE or not self._reserve.release():
                    raise

    @property
    def compaction_is_due(self) -> bool:
        return self._journal_bytes > max(COMPACTED_FROM_BYTES, self._state_bytes)

    def next_number(self) -> int:
        """Begins another journal. What came before it goes to `write_state` with this number."""
        self._number += 1
        self._journal_bytes = 0
        return self._number

    def write_state(self, number: int, head: FeedApply, entities: Iterable[Entity]) -> None:
        """`entities` are everything as of `head`. Deletes what it replaces."""
        listed = list(entities)
        with replacing(self._path("state", number), durable=False) as draft:  # made durable by what follows
            size = self._with_space(lambda: self._write_pages(draft, _pages(head, listed)))
        self._sync_folder()
        self._state_bytes = size
        self._delete_before(number)

    def _write_pages(self, path: Path, pages: Iterable[FeedApply]) -> int:
        size = 0
        descriptor = self._open(path, os.O_TRUNC)
        try:
            for page in pages:
                record = _record(page)
                _write(descriptor, record, size)
                size += len(record)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return size

    def _delete_before(self, number: int) -> None:
        for kind in ("state", "journal"):
            for old in self._numbers(kind):
                if old < number:
                    self._path(kind, old).unlink(missing_ok=True)

    def _open(self, path: Path, flags: int) -> int:
        make_directory(self._folder, mode=0o700)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)

    def _sync_folder(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _pages(head: FeedApply, entities: list[Entity]) -> Iterator[FeedApply]:
    for start in range(0, max(len(entities), 1), PAGE_ENTITIES):
        changes = [
            FeedChange(version=head.to_version, kind=kind, key=key, state=state)
            for kind, key, state in entities[start : start + PAGE_ENTITIES]
        ]
        following = entities[start + PAGE_ENTITIES : start + PAGE_ENTITIES + 1]
        next_key = f"{following[0][0]} {following[0][1]}" if following else ""
        yield msgspec.structs.replace(head, full=True, from_version=0, newest_version=0, changes=changes, next_key=next_key)


def _record(page: FeedApply) -> bytes:
    body = msgspec.json.encode(page)
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def _write(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


class _Records(NamedTuple):
    """The whole records of a file from its beginning, how many bytes they have, and whether whole ones come after what is not."""

    pages: list[FeedApply]
    size_bytes: int
    damaged: bool


def _records(path: Path) -> _Records:
    data = path.read_bytes()
    pages: list[FeedApply] = []
    at = 0
    while (page := _page_at(data, at)) is not None:
        pages.append(page[0])
        at = page[1]
    if at < len(data):
        log.warning("feed.record_cut_off", file=path.name, at_byte=at, file_bytes=len(data))
    return _Records(pages, at, _whole_after(data, at))


def _page_at(data: bytes, at: int) -> tuple[FeedApply, int] | None:
    """The page of the record at that place, and where the next one begins."""
    if len(data) - at < _HEAD.size:
        return None
    length, checksum = _HEAD.unpack_from(data, at)
    body = memoryview(data)[at + _HEAD.size : at + _HEAD.size + length]
    if len(body) != length or not length or zlib.crc32(body) != checksum:
        return None
    try:
        return _PAGE.decode(body), at + _HEAD.size + length
    except msgspec.DecodeError:
        return None


def _whole_after(data: bytes, at: int) -> bool:
    """Whether a whole record begins somewhere after `at`. A record that was cut off is the last one."""
    place = data.find(_BODY_BEGINS, at + 1)
    while place >= 0:
        if place - _HEAD.size > at and _page_at(data, place - _HEAD.size) is not None:
            return True
        place = data.find(_BODY_BEGINS, place + 1)
    return False
