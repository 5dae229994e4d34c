"""Rewrites the damaged header page of a segment: all that it says is known from elsewhere."""

from __future__ import annotations

from pathlib import Path

from messaging.storage.local.device.disk import DiskFile
from messaging.storage.local.format import records
from messaging.storage.local.format.segment import Segment, header_page, parse_name
from messaging.storage.local.read.commit_scan import Scan


def restore_header_page(file: DiskFile, path: Path, store_id: int) -> Segment | None:
    """Restores the header page durably and returns the segment, if commits of this log follow the page; else returns None.

    The seal is lost, so the segment must be replayed and sealed again. Raises `OSError`."""
    place = parse_name(path.name)
    assert place is not None
    segment = Segment(*place, path, records.seed_of(store_id, *place), file.size(), recycled=True)
    if next(Scan(file, segment).commits(), None) is None:
        return None
    file.write([header_page(store_id, *place, recycled=True)], 0)
    file.sync()
    return segment
