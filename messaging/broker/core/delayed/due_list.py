"""What of the index of delayed messages is due when: pages in the order of time, and counts. Pure; slow enough for a thread.
Imported there only, because it loads numpy."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import numpy as np
from pyroaring import BitMap

from messaging.broker.core.delayed.newest import NewestParts
from messaging.broker.core.delayed.overrides import Rescheduled
from messaging.broker.core.delayed.run_format import (
    Entries,
    Positions,
    decode_block,
    joined,
    of_arrays,
    of_slot,
)
from messaging.broker.core.delayed.run_jobs import BLOCK_ENTRIES, DueEntry
from messaging.broker.core.delayed.time_slots import ENTRY_BITS, ENTRY_MASK
from messaging.storage.ledger_store import Position


def of_newest(parts: NewestParts) -> Entries:
    groups = [_of_group(*group) for group in parts.groups]
    return joined([*(of_arrays(*chunk) for chunk in parts.chunks), *map(of_slot, parts.slots), *groups])


def _of_group(at_ms: int, ledger_id: int, entries: BitMap) -> Entries:
    ids = np.frombuffer(array("Q", entries), np.uint64)
    return Entries(np.full(len(ids), at_ms, np.int64), ids | np.uint64(ledger_id << ENTRY_BITS))


def of_rescheduled(times: Mapping[Position, Rescheduled]) -> Entries:
    at = array("q", [time.at_ms for time in times.values()])
    return of_arrays(at, array("Q", [ledger_id << ENTRY_BITS | entry_id for ledger_id, entry_id in times]))


def positions_of(sets: Mapping[int, BitMap]) -> Positions:
    numbers = [
        np.frombuffer(array("Q", entries), np.uint64) | np.uint64(ledger_id << ENTRY_BITS) for ledger_id, entries in sets.items()
    ]
    return np.concatenate(numbers) if numbers else np.empty(0, np.uint64)


def without(entries: Entries, positions: Positions) -> Entries:
    if not len(positions) or not len(entries.times):
        return entries
    kept = ~np.isin(entries.positions, positions)
    return Entries(entries.times[kept], entries.positions[kept])


def window(entries: Entries, from_ms: int, until_ms: int) -> Entries:
    kept = (entries.times >= from_ms) & (entries.times < until_ms)
    return Entries(entries.times[kept], entries.positions[kept])


def in_memory(newest: NewestParts, rescheduled: Mapping[Position, Rescheduled], from_ms: int, until_ms: int) -> Entries:
    return window(joined([of_newest(newest), of_rescheduled(rescheduled)]), from_ms, until_ms)


def block_within(data: bytes | None, from_ms: int, until_ms: int) -> Entries:
    """Nothing of a block that cannot be read."""
    try:
        entries = joined([]) if data is None else decode_block(data)
    except ValueError:
        entries = joined([])
    return window(entries, from_ms, until_ms)


def behind(parts: Sequence[Entries], after: DueEntry | None, before_ms: int) -> Entries:
    """What is due before `before_ms`, and behind `after` in the order of times and positions."""
    every = joined(list(parts))
    kept = every.times < before_ms
    if after is not None:
        position = np.uint64(after.ledger_id << ENTRY_BITS | after.entry_id)
        kept &= (every.times > after.at_ms) | ((every.times == after.at_ms) & (every.positions > position))
    return Entries(every.times[kept], every.positions[kept])


def count_before(parts: Sequence[Entries], after: DueEntry | None, before_ms: int) -> int:
    """How many that are; an entry that is in two parts counts twice."""
    return len(behind(parts, after, before_ms).times)


def page(parts: Sequence[Entries], after: DueEntry | None, before_ms: int, count: int) -> list[DueEntry]:
    """The first `count` of those, each position once, in order."""
    every = behind(parts, after, before_ms)
    if len(every.times) > 8 * count:  # sorting all of a million is not needed
        last = np.partition(every.times, 4 * count)[4 * count]
        kept = every.times <= last
        every = Entries(every.times[kept], every.positions[kept])
    order = np.lexsort((every.positions, every.times))
    times, positions = every.times[order].tolist(), every.positions[order].tolist()
    times_by_position: dict[int, int] = {}
    for at_ms, number in zip(times, positions, strict=True):
        times_by_position.setdefault(number, at_ms)
        if len(times_by_position) >= count:
            break
    return [DueEntry(at_ms, number >> ENTRY_BITS, number & ENTRY_MASK) for number, at_ms in times_by_position.items()]


def counts(
    exact: Sequence[Entries], left_out: Positions, rescheduled: Entries, runs: Sequence[tuple[Sequence[int], int]], edges: list[int]
) -> list[int]:
    """How many are due between each of `edges` and the next: those of `exact`, without `left_out`, `rescheduled`, and what `runs`
    have (the first times of some blocks, and how many entries are in them), spread evenly over the time of each block."""
    every = without(joined(list(exact)), left_out)
    _, first = np.unique(every.positions, return_index=True)
    totals = np.histogram(np.concatenate([every.times[first], rescheduled.times]), np.array(edges, np.int64))[0].astype(np.float64)
    for starts, entries in runs:
        at = np.arange(len(starts) + 1, dtype=np.float64) * BLOCK_ENTRIES
        at[-1] = entries
        times = np.array([*starts, starts[-1] + 1], np.float64)
        totals += np.diff(np.interp(np.array(edges, np.float64), times, at))
    return [round(total) for total in totals.tolist()]
