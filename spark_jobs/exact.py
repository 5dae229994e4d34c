"""Records one by one: which of them count, and what they amount to in one hour. Everything else is a faster way to the same result.

Counters: the sum of their values. Gauges: the integral of a step function over the hour. A value holds from its interval's start
to its end, or to the next record's start if that is sooner (whichever broker it is from: a topic has one size); over a silence of
at most `GAUGE_CARRY_MS_MAX` it holds until the next record; over a longer one nothing is charged. The integral is exact in
unit-milliseconds and rounded down once, to whole unit-seconds per topic and hour: every sum shown is a sum of these.

A record affects its own hour, and a neighbour if a gauge may be carried between the two. All is judged among the records that
affect the hour, so its result does not depend on which other hours are computed in the same run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from messaging.usage_schema import GAUGE_CARRY_MS_MAX
from spark_jobs.plan import HOUR_MS
from spark_jobs.rows import ATTRIBUTES, COUNTED, GOOD, NUMBERS, Column, Ints, Judged, Rows, attributes_of, sorted_by

Amounts = dict[tuple[str, ...], int]  # `ATTRIBUTES` -> units of a counter, or unit-milliseconds of a gauge
LOW = (1 << 32) - 1
_METER = ATTRIBUTES.index("meter")


@dataclass(frozen=True)
class Verdict:
    """`good`, `conflicts` and `copies` are places in the rows. `good`: of the hour and its neighbours; the other two only of the
    hour itself."""

    good: Ints
    conflicts: Ints
    copies: Ints


def near(rows: Rows, hour_ms: int) -> npt.NDArray[np.bool_]:
    """The records that affect this hour."""
    start, end = rows.numbers["interval_start_ms"], rows.numbers["interval_end_ms"]
    return (start < hour_ms + HOUR_MS + GAUGE_CARRY_MS_MAX) & (end > hour_ms - GAUGE_CARRY_MS_MAX)


def own(rows: Rows, hour_ms: int) -> npt.NDArray[np.bool_]:
    start: Ints = rows.numbers["interval_start_ms"]
    return (start >= hour_ms) & (start < hour_ms + HOUR_MS)


def decide(rows: Rows, judged: Judged, hour_ms: int) -> Verdict:
    """A copy of a record counts once. Different records of one identity are a conflict: nobody can know which of them is true, so
    none is billed."""
    places = np.flatnonzero((judged.problem == GOOD) & near(rows, hour_ms))
    keys: list[Column] = [rows.origin[places], rows.codes["series"][places], rows.numbers["seq"][places]]
    contents: list[Column] = [judged.group[places], *(rows.numbers[name][places] for name in NUMBERS if name != "seq")]
    order = sorted_by(*keys, *contents)
    same_identity = _equal_to_last(keys, order)
    copy = same_identity & _equal_to_last(contents, order)
    distinct = order[~copy]
    again = same_identity[~copy]  # of another content than the one before it
    conflict = again.copy()
    conflict[:-1] |= again[1:]
    in_hour = own(rows, hour_ms)
    conflicts, copies = places[distinct[conflict]], places[order[copy]]
    return Verdict(places[distinct[~conflict]], conflicts[in_hour[conflicts]], copies[in_hour[copies]])


def amounts_in(rows: Rows, judged: Judged, good: Ints, hour_ms: int) -> Amounts:
    """What the good records amount to, by group; only what is more than nothing."""
    examples = np.flatnonzero(judged.example >= 0)
    attributes = dict(zip(examples.tolist(), attributes_of(rows, judged.example[examples]), strict=True))
    counts = np.zeros(len(judged.example), dtype=bool)
    counts[[group for group, values in attributes.items() if values[_METER] in COUNTED]] = True
    is_counter = counts[judged.group[good]]
    in_hour = own(rows, hour_ms)[good]
    amounts: Amounts = {}
    counted = good[is_counter & in_hour]
    _add(amounts, attributes, judged.group[counted], rows.numbers["value"][counted], np.ones(len(counted), dtype=np.int64))
    gauges = good[~is_counter]
    order = sorted_by(
        judged.group[gauges],
        rows.numbers["interval_start_ms"][gauges],
        rows.numbers["interval_end_ms"][gauges],
        rows.origin[gauges],
        rows.numbers["seq"][gauges],
    )
    gauges = gauges[order]
    group, start, end = judged.group[gauges], rows.numbers["interval_start_ms"][gauges], rows.numbers["interval_end_ms"][gauges]
    until = end.copy()
    wait = start[1:] - end[:-1]
    carried = (group[1:] == group[:-1]) & (wait <= GAUGE_CARRY_MS_MAX)
    until[:-1][carried] = start[1:][carried]  # cut short by the next record, or extended to it
    held_ms = np.maximum(np.minimum(until, hour_ms + HOUR_MS) - np.maximum(start, hour_ms), 0)
    _add(amounts, attributes, group, rows.numbers["value"][gauges], held_ms)
    return amounts


def _add(amounts: Amounts, attributes: dict[int, tuple[str, ...]], group: npt.NDArray[np.int32], value: Ints, times: Ints) -> None:
    """Exact: 32 bits of the values at a time, with room for 2^31 records."""
    if not len(group):
        return
    size = int(group.max()) + 1
    high, low = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    np.add.at(high, group, (value >> 32) * times)
    np.add.at(low, group, (value & LOW) * times)
    for place in np.flatnonzero(high | low).tolist():
        key = attributes[place]
        amounts[key] = amounts.get(key, 0) + (int(high[place]) << 32) + int(low[place])


def _equal_to_last(columns: list[Column], order: Ints) -> npt.NDArray[np.bool_]:
    """For each place in `order`: whether all columns are what they are at the place before it."""
    equal = np.ones(len(order), dtype=bool)
    equal[:1] = False
    for column in columns:
        ordered = column[order]
        equal[1:] &= ordered[1:] == ordered[:-1]
    return equal
