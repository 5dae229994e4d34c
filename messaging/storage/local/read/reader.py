"""Reads blocks of one ledger: locates the extents, fetches them with a few large reads, verifies every checksum.

The event loop takes a snapshot of the index (references, no copies) and submits reads to the kernel if the locations are known.
Otherwise a thread of the read pool searches footers, opens files and diagnoses damage.
"""

from __future__ import annotations

import asyncio
import errno
from array import array
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextlib import suppress

from messaging.storage.ledger_store import SPARSE, Block, Corrupt, NoSuchEntry, NoSuchLedger, Unavailable
from messaging.storage.local.device.aio import AioContext
from messaging.storage.local.device.bad_pages import read_around
from messaging.storage.local.device.disk import DiskFile
from messaging.storage.local.format.extents import EXTENT_WIDTH
from messaging.storage.local.format.segment import Segment
from messaging.storage.local.ledger_state import LedgerState
from messaging.storage.local.read.footers import BadFooter
from messaging.storage.local.read.gathered_blocks import GatheredBlocks, Wanted, extent_of, plan
from messaging.storage.local.read.index import EntryIndex, Place
from messaging.storage.local.segments import SegmentTable

REWRITES_MAX = 3  # of segments that one read looks for again because they were rewritten meanwhile

Flush = Callable[[], Awaitable[None]]


def in_memory(state: LedgerState, last: int) -> list[Place]:
    """The places known to the index in memory, in entry order, up to entry `last`. Copies no extents."""
    places: list[Place] = []
    for extents in state.extents_in_memory():
        if extents.table:
            last = min(last, extents.last_entry)
            places.append(Place(extents.segment, 0, last, extents.link, extents.table))
            last = extents.table[0] - 1
    places.reverse()
    return places


def _at_hand(places: list[Place], index: EntryIndex, ledger_id: int, entry: int) -> Place | None:
    """The place that holds `entry` if it is known without reading the disk. `places`: the places known to the index in memory."""
    at = bisect_left(places, entry, key=_last_of)
    place = places[at] if at < len(places) and places[at].table[0] <= entry else index.recent(ledger_id)
    return place if place is not None and place.table[0] <= entry <= place.last else None


def forecast(state: LedgerState, entry_index: EntryIndex, first: int, entries_max: int, bytes_max: int) -> int:
    """See `LedgerStore`. Only segments whose index is in memory, and the one where the ledger was last read, are known."""
    places = in_memory(state, state.last_entry)
    place = _at_hand(places, entry_index, state.ledger_id, first)
    if place is None or SPARSE in state.properties:
        return 0
    table, until = place.table, min(place.last + 1, first + entries_max)
    index, room = extent_of(table, first), bytes_max
    while index < len(table) and table[index] < until:
        room -= table[index + 1] & 0xFFFFFFFF
        if room < 0:
            return max(0, table[index] - first)  # 0: the first extent is too large, and its block boundaries are unknown
        index += EXTENT_WIDTH
    return (min(table[index], place.last + 1) if index < len(table) else place.last + 1) - first


class LocalLedgerReader:
    def __init__(
        self, state: LedgerState, segments: SegmentTable, index: EntryIndex, pool: Executor, aio: AioContext | None, flush: Flush
    ) -> None:
        self.ledger_id = state.ledger_id
        self._state = state
        self._segments = segments
        self._index = index
        self._pool = pool
        self._aio = aio
        self._flush = flush

    async def read(self, first: int, *, entries_max: int, bytes_max: int) -> list[Block]:
        state = self._state
        self._check(first)
        if first > state.last_entry:
            await self._flush()  # confirmed but not written yet: wait for the write
            self._check(first)
        last = state.last_entry
        places = in_memory(state, last)  # before `last_segment`: see `ledger_state.py`
        segments = (state.created_segment, state.last_segment)
        entries_max = max(1, entries_max)
        until = last + 1 if SPARSE in state.properties else first + entries_max
        wanted = Wanted(state.ledger_id, first, last, entries_max, until, bytes_max, segments)
        blocks = [] if self._aio is None else await self._fetch_here(wanted, places, self._aio)
        if not blocks:
            blocks = await self._fetch_elsewhere(wanted, places)
        if blocks and self._index.unreadable:
            self._index.returned(state.ledger_id, first, blocks[-1].last_entry + 1)
        return blocks

    async def _fetch_elsewhere(self, wanted: Wanted, places: list[Place]) -> list[Block]:
        state = self._state
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self.fetch_in_thread, wanted, places)
        except Corrupt:
            if state.deleted:
                raise NoSuchLedger(f"ledger {self.ledger_id} was deleted", self.ledger_id) from None
            raise
        except (OSError, BadFooter, KeyError, RuntimeError, MemoryError) as error:
            if state.deleted:
                raise NoSuchLedger(f"ledger {self.ledger_id} was deleted", self.ledger_id) from None
            raise Unavailable(f"ledger {self.ledger_id} cannot be read: {error}", self.ledger_id) from error

    async def aclose(self) -> None:
        return None

    def _check(self, first: int) -> None:
        state = self._state
        if state.deleted:
            raise NoSuchLedger(f"ledger {self.ledger_id} was deleted", self.ledger_id)
        confirmed = max(state.last_entry, state.writer.last_confirmed if state.writer else -1)
        if not 0 <= first <= confirmed:
            raise NoSuchEntry(f"ledger {self.ledger_id} ends at entry {confirmed}; {first} was asked for", self.ledger_id)

    async def _fetch_here(self, wanted: Wanted, places: list[Place], aio: AioContext) -> list[Block]:
        """Reads without a thread, if the segment is open and its index is known. Returns no blocks if that is not enough or
        something is wrong; a thread then finds out what."""
        place = _at_hand(places, self._index, wanted.ledger_id, wanted.first)
        if place is None:
            return []
        segment, files = self._segments.get(place.segment), self._segments.files
        if segment is None or segment.generation != place.generation or not files.is_open(segment.path):
            return []
        gathered = GatheredBlocks(wanted._replace(last=min(wanted.last, place.last)))
        index = extent_of(place.table, wanted.first)
        with suppress(OSError), files.use(segment.path) as file:
            while index < len(place.table) and not gathered.full and not gathered.hole:
                index, stretches, begin, stop = plan(place.table, index, gathered)
                view = await _completed(file, stop - begin, begin, aio)
                if view is None:
                    break
                gathered.take(view, stretches, segment.seed)
        return gathered.blocks

    def fetch_in_thread(self, wanted: Wanted, places: list[Place]) -> list[Block]:
        """Runs in a thread of the pool."""
        blocks = self._gather(wanted, places, last_try=False)
        return blocks if blocks is not None else self._gather(wanted, places, last_try=True) or []

    def _gather(self, wanted: Wanted, places: list[Place], *, last_try: bool) -> list[Block] | None:
        """Returns None if a damaged footer was found and rebuilt, so that a retry makes sense; never on the last try."""
        gathered = GatheredBlocks(wanted)
        place: Place | None = None
        rewrites = REWRITES_MAX
        while True:
            try:
                place = self._fetch_next(places, gathered)
            except FileNotFoundError:
                place = self._fetch_next(places, gathered)  # the segment was rewritten meanwhile: the table has the new file now
            if gathered.full or gathered.next_entry > wanted.last:
                return gathered.blocks
            if place is not None and gathered.next_entry <= place.last and rewrites and self._rewritten(place):
                rewrites -= 1
                gathered.look_again()
            elif place is None or gathered.next_entry <= place.last:
                break  # a hole: later places cannot fill it
        if not gathered.blocks:
            if not last_try and self._index.check(*wanted.segments):
                return None
            later = gathered.resume_at
            if later < 0:  # no intact block follows in this segment, or no segment with blocks is left
                later = place.last + 1 if place is not None else wanted.last + 1
            asked_s = None if gathered.unreadable else self._index.doubtful_since(*wanted.segments)
            doubtful = gathered.unreadable or asked_s is not None
            if doubtful and not self._index.is_lost(wanted.ledger_id, wanted.first, asked_s):
                raise OSError(errno.EIO, f"entry {wanted.first} cannot be read now: it counts as lost where that lasts")
            text = f"ledger {wanted.ledger_id}: entry {wanted.first} does not match its checksum; the next to try is {later}"
            raise Corrupt(text, wanted.ledger_id, wanted.first, later)
        return gathered.blocks

    def _rewritten(self, place: Place) -> bool:
        """Whether another file has replaced the one where this was located: what was not found there is in the new one."""
        segment = self._segments.get(place.segment)
        return segment is not None and segment.generation != place.generation

    def _fetch_next(self, places: list[Place], gathered: GatheredBlocks) -> Place | None:
        """Fetches from the segment that holds the next entry there is. Returns None if there is none."""
        first, last = gathered.wanted.segments
        entry = gathered.next_entry
        at = bisect_left(places, entry, key=_last_of)
        place: Place | None = places[at] if at < len(places) and (at or places[0].table[0] <= entry) else None
        following = at if place is None else at + 1
        if (
            place is None or self._segments.by_number[place.segment].generation > 0
        ):  # the index in memory describes the first generation only
            last = last if place is None else max(last, place.segment)
            place = self._index.locate(gathered.wanted.ledger_id, entry, first, last)
        if place is None and following < len(places):
            place = places[following]  # the segment is lost or there is a gap: the next one tells where reading continues
        if place is not None:
            self._fetch_segment(self._segments.by_number[place.segment], place.table, gathered)
        return place

    def _fetch_segment(self, segment: Segment, table: array[int], gathered: GatheredBlocks) -> None:
        index = max(0, extent_of(table, gathered.next_entry))
        with self._segments.files.use(segment.path) as file:
            while index < len(table) and not gathered.full:
                index, stretches, begin, stop = plan(table, index, gathered)
                view = memoryview(read_around(file, stop - begin, begin, gathered.cannot_read))
                gathered.take(view, stretches, segment.seed)
                if gathered.hole:
                    return


async def _completed(file: DiskFile, size: int, offset: int, aio: AioContext) -> memoryview | None:
    """The bytes of an asynchronous read; None if it could not be started or failed."""
    ended: asyncio.Future[memoryview | None] = asyncio.get_running_loop().create_future()

    def done(view: memoryview | None) -> None:
        if not ended.done():
            ended.set_result(view)

    return await ended if file.begin_read(size, offset, aio, done) else None


def _last_of(place: Place) -> int:
    return place.last
