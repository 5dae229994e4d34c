"""Reading a segment commit by commit, and deciding what damage means.

A commit says what was synced before it was written. So where bytes do not match their checksums:

- a later intact commit knows the place to have been synced: *corrupt*. The commits after it are kept, the damage is reported.
- no later commit knows that: the *torn* tail of a commit that was never confirmed, or rot in the last one; nothing tells them
  apart. The log ends before it; the bytes are set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from messaging.storage.local.device.bad_pages import read_around
from messaging.storage.local.device.disk import DiskFile
from messaging.storage.local.format import records
from messaging.storage.local.format.records import COMMIT, COMMIT_BYTES, CommitHeader, Record
from messaging.storage.local.format.segment import PAGE_BYTES, Segment

WINDOW_BYTES = 4 << 20
_ZEROS = bytes(WINDOW_BYTES)
_COMMIT_PATTERN = records.BODY.pack(COMMIT, 0, 0, -1, -1, 0, records.COMMIT_HEADER.size, 0)


class CommitRecord(NamedTuple):
    """One commit: `view` begins at its first byte; `records` are those that are intact, found by their lengths."""

    offset: int
    header: CommitHeader
    view: memoryview
    records: list[Record]


class Damage(NamedTuple):
    segment: int
    start: int
    stop: int
    synced: bool  # known to have been durable: rot, not a torn write

    def __str__(self) -> str:
        kind = "corrupt (it was synced)" if self.synced else "torn or rotten tail"
        return f"segment {self.segment}, bytes {self.start} to {self.stop}: {kind}"


@dataclass
class Scan:
    """Iterate over `commits()`; afterwards `stop` is the end of the log in this segment and `damage` lists what was damaged."""

    file: DiskFile
    segment: Segment
    start: int = PAGE_BYTES
    limit: int = 0  # commits must end here; 0: at the end of the file
    synced_until: int = 0  # how far this segment was synced according to commits of later segments
    stop: int = 0
    sequence: int = 0
    epoch: int = 0
    damage: list[Damage] = field(default_factory=list)
    unreadable: bool = False  # the disk could not return some of it

    def commits(self) -> Iterator[CommitRecord]:
        window = _Window(self.file, self.limit or self.file.size(), self._cannot_read)
        offset = self.start
        while True:
            commit = self._commit_at(window, offset)
            if commit is not None and len(commit.records) == commit.header.records:
                yield commit
                offset += COMMIT_BYTES + commit.header.body_bytes
                continue
            following = self._next_after(window, offset)
            damaged_stop = self._damaged_stop(window, offset, commit, following)
            if following is None or not _knows_synced(following, self.segment.number, offset):
                if damaged_stop > offset:
                    self.damage.append(Damage(self.segment.number, offset, damaged_stop, offset < self.synced_until))
                self.stop = offset
                return
            self.damage.append(Damage(self.segment.number, offset, following.offset, True))
            if commit is None:  # its header is damaged: records up to the next commit may be intact
                view = window.get(offset, following.offset - offset)
                commit = CommitRecord(offset, following.header, view, _intact_records(view, self.segment.seed))
            yield commit
            self.sequence = following.header.sequence - 1
            offset = following.offset

    def _cannot_read(self) -> None:
        self.unreadable = True

    def _commit_at(self, window: _Window, offset: int) -> CommitRecord | None:
        head = window.get(offset, COMMIT_BYTES)
        header = _header(head, self.segment, offset)
        if header is None or not self._continues(header):
            return None
        view = window.get(offset, COMMIT_BYTES + header.body_bytes)
        if len(view) == COMMIT_BYTES + header.body_bytes:
            self.sequence, self.epoch = header.sequence, header.epoch
        return CommitRecord(offset, header, view, _intact_records(view, self.segment.seed))

    def _continues(self, header: CommitHeader) -> bool:
        """Whether the commit may follow the previous one: the next of the same epoch, or the first of a later epoch."""
        if not self.sequence or header.sequence == self.sequence + 1:
            return header.epoch >= self.epoch
        return header.epoch > self.epoch and header.sequence > self.sequence

    def _next_after(self, window: _Window, offset: int) -> CommitRecord | None:
        """The next intact commit that could follow, however far away."""
        for body in _find(window, _COMMIT_PATTERN, offset + 1):
            place = body - records.CRC.size
            header = _header(window.get(place, COMMIT_BYTES), self.segment, place)
            if header is not None and header.sequence > self.sequence and header.epoch >= self.epoch:
                return CommitRecord(place, header, memoryview(b""), [])
        return None

    def _damaged_stop(self, window: _Window, offset: int, commit: CommitRecord | None, following: CommitRecord | None) -> int:
        """The end of the bytes that are not a valid commit; `offset` if there are none."""
        if following is None and commit is not None:
            return min(offset + COMMIT_BYTES + commit.header.body_bytes, window.limit)
        if self.segment.recycled and following is None:
            return offset  # leftovers of a recycled file mean nothing
        return _last_byte(window, offset)


class _Window:
    """A sliding window over a file."""

    def __init__(self, file: DiskFile, limit: int, unreadable: Callable[[], None]) -> None:
        self.limit = limit
        self._unreadable = unreadable
        self._file = file
        self._start = 0
        self._data = b""

    def get(self, offset: int, size: int) -> memoryview:
        """Up to `size` bytes; fewer at the limit."""
        size = max(0, min(size, self.limit - offset))
        if offset < self._start or offset + size > self._start + len(self._data):
            wanted = min(max(size, WINDOW_BYTES), max(0, self.limit - offset))
            self._data = read_around(self._file, wanted, offset, self._unreadable)
            self._start = offset
        begin = offset - self._start
        return memoryview(self._data)[begin : begin + size]

    def written(self, offset: int, overlap: int) -> Iterator[tuple[int, bytes]]:
        """(offset, bytes) of all non-zero stretches; each begins `overlap` bytes before the end of the previous one."""
        following = self._file.next_data(offset)
        while following is not None and following < self.limit:
            offset = max(offset, following - overlap)
            data = bytes(self.get(offset, WINDOW_BYTES))
            if data != _ZEROS[: len(data)]:
                yield offset, data
            if len(data) <= overlap:
                return
            offset += len(data) - overlap
            following = self._file.next_data(offset + overlap)


def _header(head: memoryview, segment: Segment, offset: int) -> CommitHeader | None:
    if len(head) < COMMIT_BYTES:
        return None
    record = records.parse(head, 0)
    if (
        record is None
        or record.type != COMMIT
        or record.stop != COMMIT_BYTES
        or not records.checksum_matches(head, record, segment.seed)
    ):
        return None
    header = records.commit_header(head, record)
    return header if (header.segment, header.offset) == (segment.number, offset) else None


def _intact_records(view: memoryview, seed: int) -> list[Record]:
    intact = []
    at = COMMIT_BYTES
    while at < len(view):
        record = records.parse(view, at)
        if record is None:
            break
        if records.checksum_matches(view, record, seed):
            intact.append(record)
        at = record.stop
    return intact


def _knows_synced(commit: CommitRecord, segment: int, offset: int) -> bool:
    header = commit.header
    return (header.synced_segment, header.synced_offset) > (segment, offset)


def _find(window: _Window, pattern: bytes, offset: int) -> Iterator[int]:
    for start, data in window.written(offset, len(pattern)):
        at = data.find(pattern)
        while at >= 0:
            yield start + at
            at = data.find(pattern, at + 1)


def _last_byte(window: _Window, offset: int) -> int:
    """The offset after the last non-zero byte, from `offset` on."""
    last = offset
    for start, data in window.written(offset, 0):
        last = start + len(data.rstrip(b"\0"))
    return last
