"""The segments of an open log, and their files."""

from __future__ import annotations

from messaging.storage.local.device.disk import Disk
from messaging.storage.local.format.segment import Segment
from messaging.storage.local.read.open_files import OpenFiles


class SegmentTable:
    """`by_number` changes with the log's turn only (see `write/log_thread.py`); any thread may look."""

    def __init__(self, disk: Disk, files_open_max: int) -> None:
        self.by_number: dict[int, Segment] = {}
        self.newest_number = 0  # whether that one can be read or not
        self.files = OpenFiles(disk, files_open_max)

    def get(self, number: int) -> Segment | None:
        return self.by_number.get(number)

    def count_events(self, number: int, change: int) -> None:
        """So many more records of that segment must not be forgotten."""
        segment = self.by_number.get(number)
        if segment is not None:
            segment.live_events += change
