"""What a deleted ledger leaves: its bytes, which are no longer to be counted as living in the segments that hold them.

Footers say where they are: each names the segment before it that holds blocks of the same ledger. Done in the background. The
counts only tell which segments are worth looking at; whoever removes or rewrites one reads its footer and looks again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from messaging.storage.local.format.segment import Segment
from messaging.storage.local.pausing import CHUNK, Pause
from messaging.storage.local.read.footers import BadFooter, Footer
from messaging.storage.local.read.open_files import OpenFiles

MANY = 64  # ledgers looked up in one footer: from here on it is read at once


def bytes_by_segment(
    segments: Mapping[int, Segment], files: OpenFiles, dead: Mapping[int, tuple[int, int]], pause: Pause
) -> Counter[int]:
    """Bytes of blocks by segment. `dead`: ledger -> (the newest segment with blocks of it, the one with its CREATED record).

    Blocks. Raises `OSError`."""
    numbers = sorted(segments)
    found: Counter[int] = Counter()
    waiting: dict[int, list[int]] = defaultdict(list)  # ledgers by the segment to look at next
    for ledger_id, (last_segment, _) in dead.items():
        waiting[last_segment].append(ledger_id)
    while waiting:
        number = max(waiting)
        ledgers = waiting.pop(number)
        before = bisect_left(numbers, number)
        lower = numbers[before - 1] if before else 0
        for ledger_id, size, link in _look_up(segments.get(number), files, ledgers, pause):
            found[number] += size
            # Where the links are broken (a rewriting left the ledger out already) the segments between are tried one by one.
            following = link if size else lower
            if following > 0 and dead[ledger_id][1] <= following < number:
                waiting[following].append(ledger_id)
    return found


def _look_up(segment: Segment | None, files: OpenFiles, ledgers: list[int], pause: Pause) -> Iterator[tuple[int, int, int]]:
    """(ledger, bytes, the segment before that holds blocks of it); bytes are 0 where it is not found."""
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
        except BadFooter:
            return  # whoever reads from it will say so; what is counted too high is not reclaimed
