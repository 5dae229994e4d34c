"""The header page of a segment, written again: it says nothing that is not known from elsewhere."""

from __future__ import annotations

from pathlib import Path

from messaging.storage.local.device.disk import DiskFile
from messaging.storage.local.format import records
from messaging.storage.local.format.segment import Segment, header_page, parse_name
from messaging.storage.local.recover.commit_scan import Scan


def restore_header_page(file: DiskFile, path: Path, store_id: int) -> Segment | None:
    """The segment of that name, if commits of this log stand behind its header page; that page is durable again then. None where
    there is no such commit.

    Without its seal the segment has to be read in whole, and sealed again. Raises `OSError`."""
    place = parse_name(path.name)
    assert place is not None
    segment = Segment(*place, path, records.seed_of(store_id, *place), file.size(), recycled=True)
    if next(Scan(file, segment).commits(), None) is None:
        return None
    file.write([header_page(store_id, *place, recycled=True)], 0)
    file.sync()
    return segment
