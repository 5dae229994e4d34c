"""Finds the bytes that deleted ledgers leave in segments, so that they no longer count as live.

Footers tell where they are: each names the previous segment with blocks of the same ledger. Runs in the background. The counts only
nominate segments; the reclaimer reads a segment's footer before it removes or rewrites it.
"""

from __future__ import annotations

import errno
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from messaging.storage.local.device.open_files import OpenFiles
from messaging.storage.local.format.segment import Segment
from messaging.storage.local.pausing import CHUNK, Pause
from messaging.storage.local.read.footers import BadFooter, Footer

MANY = 64  # lookups in one footer from which on it is read whole


def bytes_by_segment(
    segments: Mapping[int, Segment], files: OpenFiles, dead: Mapping[int, tuple[int, int]], pause: Pause
) -> Counter[int]:
    """Bytes of dead blocks by segment. `dead`: ledger -> (the newest segment with blocks of it, the segment of its CREATED record).

    Blocks. Raises `OSError` where another try may succeed."""
    numbers = sorted(segments)
    sizes: Counter[int] = Counter()
    waiting: dict[int, list[int]] = defaultdict(list)  # ledgers, by the segment to look at next
    for ledger_id, (last_segment, _) in dead.items():
        waiting[last_segment].append(ledger_id)
    while waiting:
        number = max(waiting)
        ledgers = waiting.pop(number)
        before = bisect_left(numbers, number)
        lower = numbers[before - 1] if before else 0
        for ledger_id, size, link in _look_up(segments.get(number), files, ledgers, pause):
            sizes[number] += size
            # Where a link is broken (an earlier rewrite dropped the ledger), the segments in between are tried one by one.
            following = link if size else lower
            _, created_segment = dead[ledger_id]
            if following > 0 and created_segment <= following < number:
                waiting[following].append(ledger_id)
    return sizes


def _look_up(segment: Segment | None, files: OpenFiles, ledgers: list[int], pause: Pause) -> Iterator[tuple[int, int, int]]:
    """Yields (ledger, bytes, previous segment with blocks of it); bytes are 0 if the ledger is not found."""
    if segment is None or not segment.sealed:
        yield from ((ledger_id, 0, 0) for ledger_id in ledgers)
        return
    with files.use(segment.path) as file:
        try:
            footer = Footer(file, segment)
            if len(ledgers) >= MANY:
                footer.load()
            places = [(ledger_id, footer.find(ledger_id)) for ledger_id in ledgers]
            for index, (ledger_id, at) in enumerate(places):
                if at < 0:
                    yield ledger_id, 0, 0
                else:
                    yield ledger_id, footer.number("record_bytes", at), footer.number("previous_segments", at)
                if index % CHUNK == CHUNK - 1:
                    pause()
        except (BadFooter, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.EIO:
                raise
            return  # readers will report the damage; dead bytes that still count as live are merely not reclaimed
