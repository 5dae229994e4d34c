"""The segments of an open log and their files."""

from __future__ import annotations

from messaging.storage.local.device.disk import Disk
from messaging.storage.local.device.open_files import OpenFiles
from messaging.storage.local.format.segment import Segment


class SegmentTable:
    """`by_number` changes only with the log's turn (see `log_thread.py`); any thread may read it."""

    def __init__(self, disk: Disk, files_open_max: int) -> None:
        self.by_number: dict[int, Segment] = {}
        self.newest_number = 0  # whether the footer is readable or not
        self.files = OpenFiles(disk, files_open_max)

    def get(self, number: int) -> Segment | None:
        return self.by_number.get(number)

    def count_events(self, number: int, change: int) -> None:
        """Changes the number of records in a segment that must be kept."""
        segment = self.by_number.get(number)
        if segment is not None:
            segment.live_events += change
