"""What must be there when a log is opened: without it, a file that was removed or restored from an older backup would look like one
that was reclaimed, or like a log that ended earlier.

    manifest    JSON: {"generation": text, "end": [segment, offset], "removed": [[first, last], ...]}

`generation` is the name that this log and its metadata agreed on (see `messaging/storage/managed/generations.py`). The log was
durable up to `end` when the manifest was written. Every segment up to there exists, unless its number is in a range of `removed`;
later segments have no gaps.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

import msgspec

from messaging.json_types import decoder_of
from messaging.storage.ledger_store import Unavailable
from messaging.storage.local.device.disk import Disk, read_file
from messaging.storage.local.format.directory import REPAIR, write_whole
from messaging.storage.local.format.segment import LogPosition

NAME = "manifest"
LOST = "segments are missing"
AFTER_AN_EARLIER_RELEASE = (
    "If an earlier release has run on this directory since, which deletes segments that nobody needs without noting it here, "
    "nothing is lost: run `magnetar log repair`, and start again. Otherwise restore"
)
ACCEPTED = "accepted"  # the generation of a log that takes whatever metadata there is at its next start

START = LogPosition(0, 0)


class Range(NamedTuple):
    """Numbers of segments."""

    first: int
    last: int


class Manifest(msgspec.Struct, frozen=True):
    generation: str = ""
    end: LogPosition = START
    removed: tuple[Range, ...] | None = None  # None: not known, as in a log of an earlier release or after a repair

    def removed_numbers(self, existing: AbstractSet[int]) -> set[int]:
        if self.removed is None:
            return set(range(1, max(existing, default=0))) - existing
        return {number for first, last in self.removed for number in range(first, last + 1)}

    def missing(self, existing: AbstractSet[int], end: LogPosition | None = None) -> list[str]:
        """What should be there and is not, in sentences. `existing`: numbers of segments. `end`: where the log was found to
        end; None if that is not known yet."""
        every = range(1, max(max(existing, default=0), self.end.segment) + 1)
        lost = sorted(set(every) - existing - self.removed_numbers(existing))
        sentences: list[str] = []
        if lost:
            names = ", ".join(f"segment-{number:010d}" for number in lost[:5]) + (", ..." if len(lost) > 5 else "")
            sentences.append(f"{len(lost)} {LOST} ({names})")
        if end is not None and end < self.end:
            sentences.append(
                f"the log ends at byte {end.offset} of segment {end.segment}, but had come to byte {self.end.offset} of segment "
                f"{self.end.segment}: a segment is older than the rest"
            )
        return sentences


class MissingPart(Unavailable):
    """Something that was durable is not there."""

    retryable = False

    @classmethod
    def of(cls, missing: list[str]) -> MissingPart:
        restore = AFTER_AN_EARLIER_RELEASE if any(LOST in sentence for sentence in missing) else "Restore"
        return cls(
            f"{'; '.join(missing)}. {restore} the whole data directory from one backup; "
            "`magnetar log repair` gives up what is missing"
        )


def read(disk: Disk, directory: Path) -> Manifest | None:
    """None if there is none. Raises `Unavailable` and `OSError`."""
    if NAME not in disk.names(directory):
        return None
    try:
        return decoder_of(Manifest).decode(read_file(disk, directory / NAME))
    except msgspec.DecodeError as error:
        raise Unavailable(f"{directory / NAME} cannot be read: {error}; {REPAIR}") from None


def write(disk: Disk, directory: Path, manifest: Manifest) -> None:
    """Raises `OSError`. On a full disk a long manifest says less, and stays true."""
    short = msgspec.json.encode(Manifest(manifest.generation))
    write_whole(disk, directory / NAME, msgspec.json.encode(manifest), short)


class ManifestFile:
    """The manifest of an open log. Thread-safe; `write`, `reach` and `forget_segment` block and raise `OSError`."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self._lock = threading.Lock()
        self._content = Manifest()
        self._removed: set[int] = set()

    @property
    def generation(self) -> str:
        return self._content.generation

    def load(self, segments: Iterable[int]) -> None:
        """`segments`: the numbers of all that exist. Raises `MissingPart`, `Unavailable` and `OSError`."""
        existing = set(segments)
        self._content = read(self._disk, self._directory) or Manifest()
        self._removed = self._content.removed_numbers(existing)
        self._require(self._content.missing(existing))

    @property
    def end(self) -> LogPosition:
        return self._content.end

    def check_end(self, segments: Iterable[int], end: LogPosition) -> None:
        """`end`: where the log ends. Raises `MissingPart`."""
        self._require(self._content.missing(set(segments), end))

    def _require(self, missing: list[str]) -> None:
        if missing:
            raise MissingPart.of(missing)

    def write(self, generation: str, end: LogPosition) -> None:
        """Makes the name of a generation durable, and that the log is durable up to `end`."""
        with self._lock:
            self._write(Manifest(generation, max(end, self._content.end), _ranges(self._removed)))

    def reach(self, end: LogPosition) -> None:
        """The log is durable up to `end`. Nothing is written where it has no name yet."""
        with self._lock:
            if self._content.generation and end > self._content.end:
                self._write(Manifest(self._content.generation, end, _ranges(self._removed)))

    def forget_segment(self, number: int) -> None:
        """Call before the file of a segment that holds nothing is removed."""
        with self._lock:
            self._removed.add(number)
            self._write(Manifest(self._content.generation, self._content.end, _ranges(self._removed)))

    def _write(self, content: Manifest) -> None:
        write(self._disk, self._directory, content)
        self._content = content


def _ranges(numbers: Iterable[int]) -> tuple[Range, ...]:
    ranges: list[Range] = []
    for number in sorted(numbers):
        if ranges and ranges[-1].last == number - 1:
            ranges[-1] = Range(ranges[-1].first, number)
        else:
            ranges.append(Range(number, number))
    return tuple(ranges)
