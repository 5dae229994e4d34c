"""What a log consists of at one moment, for a backup that copies its files while the log is written.

A copy of these files, each as far as it is part of the image, is what a crash at that moment would have left: recovery opens it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from messaging.storage.local.device.disk import Disk
from messaging.storage.local.environment import LogEnvironment
from messaging.storage.local.format.directory import FORMAT_VERSION
from messaging.storage.local.format.manifest import Manifest
from messaging.storage.local.format.segment import (
    SEAL_OFFSET,
    BadSegment,
    LogPosition,
    Segment,
    name_of,
    parse_name,
    read_segment,
)
from messaging.storage.local.log import Log


class LogFile(msgspec.Struct, frozen=True):
    """A segment's file: its first `stop_bytes` are part of the image, what follows up to `size_bytes` is zero. Of one that is not
    `sealed`, the place of the seal is zero too: it may be sealed while it is copied."""

    name: str
    stop_bytes: int
    size_bytes: int
    sealed: bool

    def masked(self, page: bytes) -> bytes:
        """`page`: its header page as it was read."""
        return page if self.sealed else page[:SEAL_OFFSET] + bytes(len(page) - SEAL_OFFSET)


class LogImage(msgspec.Struct, frozen=True):
    """`small_files` are the others, with their content."""

    files: list[LogFile]
    small_files: dict[str, str]
    end: LogPosition


def take_image(log: Log, active: Segment, end_offset: int, generation: str) -> LogImage:
    """`active`: the segment that is written, up to `end_offset`. Call with the log's turn, while no commit is under way; reads some
    header pages. Raises `OSError`."""
    environment = log.environment
    newest: dict[int, int] = {}
    for name in environment.disk.names(environment.directory):
        if parsed := parse_name(name):
            newest[parsed.number] = max(parsed.generation, newest.get(parsed.number, 0))
    end = LogPosition(active.number, end_offset)
    files = [_file(log, number, its_generation, end) for number, its_generation in sorted(newest.items())]
    return LogImage([file for file in files if file is not None], _small_files(environment, generation, end), end)


def _file(log: Log, number: int, generation: int, end: LogPosition) -> LogFile | None:
    if number == end.segment:
        return LogFile(name_of(number, generation), end.offset, log.segments.by_number[number].size_bytes, sealed=False)
    segment = log.segments.get(number)
    if segment is None or segment.generation != generation:  # rewritten a moment ago, about to be removed, or damaged
        return _on_disk(log.environment.disk, log.environment, number, generation)
    return _of(segment)


def _of(segment: Segment) -> LogFile:
    footer_bytes = segment.footer_bytes  # once: the sealing thread sets it last
    stop = segment.footer_offset + footer_bytes if footer_bytes else segment.data_stop
    return LogFile(segment.path.name, stop, segment.size_bytes, sealed=footer_bytes > 0)


def _on_disk(disk: Disk, environment: LogEnvironment, number: int, generation: int) -> LogFile | None:
    """None: it was removed meanwhile."""
    path = environment.directory / name_of(number, generation)
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        size_bytes = file.size()
        try:
            segment = read_segment(file, path, environment.store_id)
        except BadSegment:  # recovery says of it what can be said: it is copied as it is
            return LogFile(path.name, size_bytes, size_bytes, sealed=True)
        return _of(segment) if segment.sealed else LogFile(path.name, size_bytes, size_bytes, sealed=True)
    finally:
        file.close()


def _small_files(environment: LogEnvironment, generation: str, end: LogPosition) -> dict[str, str]:
    return {
        "format": _json({"format": FORMAT_VERSION, "store_id": f"{environment.store_id:016x}"}),
        "epoch": _json({"epoch": environment.epoch}),
        "manifest": _json(Manifest(generation, end, None)),
    }


def _json(content: Any) -> str:
    return msgspec.json.encode(content).decode()
