"""Seals a segment that gets no more commits: writes its footer, then the seal that locates the footer."""

from __future__ import annotations

from dataclasses import replace

from messaging.storage.local.format import records
from messaging.storage.local.format import summary as summary
from messaging.storage.local.format.segment import SEAL_OFFSET, Segment, seal_bytes
from messaging.storage.local.write.active import ActiveSegment


def write_footer(active: ActiveSegment) -> None:
    """Footer, sync, seal, sync. Closes the file of `active`. Blocks. Raises `OSError`."""
    segment, file = active.segment, active.file
    try:
        content = active.footer()
        footer = records.encode(segment.seed, records.FOOTER, -1, -1, b"", summary.encode(content))
        file.write([footer], segment.data_stop)
        file.sync()
        segment.footer_offset = segment.data_stop
        written = len(footer)
        file.write([seal_bytes(with_footer(segment, written))], SEAL_OFFSET)
        file.sync()
        segment.footer_bytes = written
        segment.overhead_bytes = content.overhead_bytes
        segment.events = content.events.count
    finally:
        file.close()


def with_footer(segment: Segment, footer_bytes: int) -> Segment:
    """A copy marked as sealed. The segment in use is marked only once the seal is durable."""
    return replace(segment, footer_bytes=footer_bytes)
