"""Points of a series as cells of a grid: of each how much of it is known, and what. Pure.

Nothing is filled in that was not seen. Where the time is covered and there is no point, nothing happened: what the series held
stays as it was, as long as nothing is unknown in between. Elsewhere the cell, or the part of it, is unknown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from messaging.history.points import COLUMNS, COUNTERS, HOUR_MS, MINUTE_MS, PEAKS, Point, at_rest, share, side_by_side, together
from messaging.history.spans import ALWAYS_MS, Span, Spans, between, without

_STATES_AT = len(COUNTERS) + len(PEAKS)
NOTHING = (0,) * len(COLUMNS)
BACKLOG_TIME = COLUMNS.index("backlog_entry_ms")
SLACK_MS = 2_000  # between the end of a point and of the minute in which it was taken
GONE_MS = HOUR_MS  # after the last that was heard of a broker, it is taken to carry nothing where others are


class Cell(NamedTuple):
    """`known_ms`: how much of it is known; the counters are of that. Where a clock was set back it may be more than the width.
    `held_ms`: of how much of it the states are known, too; they are the last ones that are."""

    from_ms: int
    until_ms: int
    known_ms: int
    held_ms: int
    values: tuple[int, ...]

    @property
    def held(self) -> bool:
        return self.held_ms > 0

    @property
    def width_ms(self) -> int:
        return self.until_ms - self.from_ms


class _Sum:
    """What is put together in one cell."""

    __slots__ = ("held_ms", "known_ms", "values")

    def __init__(self) -> None:
        self.values = NOTHING
        self.known_ms = self.held_ms = 0

    def add(self, values: tuple[int, ...], known_ms: int) -> None:
        self.values = together(self.values, values)
        self.known_ms += known_ms
        self.held_ms += known_ms


class Source(NamedTuple):
    """What one broker told of a series, and of which times it told everything."""

    points: Iterable[Point]
    covered: Spans


def cells_of(sources: Sequence[Source], covered: Spans, from_ms: int, until_ms: int, step_ms: int) -> list[Cell]:
    """Of [from_ms, until_ms) in cells of `step_ms`. `sources`: of one series, which is at one broker at a time, with points of
    before, so that what it held is known. After a point its broker says whether it rested; before the first `covered` does. A
    point is known time, whatever they say; what two brokers tell of the same time is known once, and who began later has it."""
    sums = [_Sum() for _ in range(max(0, -(-(until_ms - from_ms) // step_ms)))]
    known = [(point, index) for index, source in enumerate(sources) for point in source.points]
    known.sort(key=lambda each: (each[0].from_ms, each[0].until_ms))
    untold = [_untold(source.covered) for source in sources] if len(sources) > 1 else []
    told = [0] * len(sources)  # up to where each of them has
    at, last = 0, None  # up to where it is known, and what the last point said
    for point, index in known:
        if last is not None and point.from_ms - at > SLACK_MS and (elsewhere := _perhaps_elsewhere(untold, at)):
            covered = without(covered, elsewhere)
        last = _rest(sums, last, covered, at, min(point.from_ms, until_ms), from_ms, step_ms)
        others = max((end for other, end in enumerate(told) if other != index), default=0)
        _spread(sums, point, others, from_ms, step_ms)
        told[index] = max(told[index], point.until_ms)
        at, last, covered = max(at, point.until_ms), point.values, sources[index].covered
    _rest(sums, last, covered, at, until_ms, from_ms, step_ms)
    return [_cell(each, index, from_ms, until_ms, step_ms) for index, each in enumerate(sums)]


def _untold(covered: Spans) -> list[Span]:
    """What a broker has not told since it was there, for as long as it may have carried something."""
    return [(start, min(end, start + GONE_MS)) for start, end in between(covered)[1:]]


def _perhaps_elsewhere(untold: Iterable[Sequence[Span]], at: int) -> list[Span]:
    """Between two points a series may have been at a broker that was killed before it told so. One that had it for longer than a
    minute has told."""
    spans = []
    for of_broker in untold:
        for index in range(bisect_right(of_broker, (at + MINUTE_MS, ALWAYS_MS)) - 1, -1, -1):
            if of_broker[index][1] <= at:
                break
            spans.append(of_broker[index])
    return spans


def _cell(total: _Sum, index: int, from_ms: int, until_ms: int, step_ms: int) -> Cell:
    start = from_ms + index * step_ms
    end = min(start + step_ms, until_ms)
    known_ms, held_ms = _without_overlap(total.known_ms, end - start), _without_overlap(total.held_ms, end - start)
    values = list(total.values)
    values[BACKLOG_TIME] = values[BACKLOG_TIME] * held_ms // max(1, total.held_ms)
    return Cell(start, end, known_ms, held_ms, tuple(values))


def _without_overlap(told_ms: int, width_ms: int) -> int:
    """Ends of points are kept to the second: one may begin a moment before the end of the one before."""
    return width_ms if 0 < told_ms - width_ms <= SLACK_MS else told_ms


def _spread(sums: list[_Sum], point: Point, told_ms: int, from_ms: int, step_ms: int) -> None:
    """A point over the cells that it reaches into, as if it was even. One without a width only says what is held. The time until
    `told_ms` is known already: what is counted in it adds up, and it is no longer for that."""
    width_ms = max(1, point.width_ms)
    first, end = max(point.from_ms, from_ms), min(point.until_ms, from_ms + len(sums) * step_ms)
    if end <= first:
        return
    at = first
    while at < end:
        index = (at - from_ms) // step_ms
        stop = min(end, from_ms + (index + 1) * step_ms)
        due = share(point.values, stop - point.from_ms, width_ms)  # up to here: differences of these add up to the whole
        before = share(point.values, at - point.from_ms, width_ms)
        part = [a - b if column < len(COUNTERS) else a for column, (a, b) in enumerate(zip(due, before, strict=True))]
        known_ms = stop - min(stop, max(at, told_ms))
        part[BACKLOG_TIME] = part[BACKLOG_TIME] * known_ms // (stop - at)
        sums[index].add(tuple(part), known_ms)
        at = stop


def _rest(
    sums: list[_Sum], last: tuple[int, ...] | None, covered: Spans, since_ms: int, until_ms: int, from_ms: int, step_ms: int
) -> tuple[int, ...] | None:
    """The time between two points: at rest where it is covered. Returns what is still known to be held at the end of it."""
    at = since_ms
    index = max(0, bisect_right(covered, (at, 1 << 62)) - 1)
    while at < until_ms:
        while index < len(covered) and covered[index][1] <= at:
            index += 1
        start = covered[index][0] if index < len(covered) else until_ms
        if start > at:
            if min(start, until_ms) - at > SLACK_MS:
                last = None  # what happened in between is unknown
            at = min(start, until_ms)
            continue
        stop = min(until_ms, covered[index][1])
        _rest_cells(sums, last, max(at, from_ms), stop, from_ms, step_ms)
        at = stop
    return last


def _rest_cells(sums: list[_Sum], last: tuple[int, ...] | None, at: int, stop: int, from_ms: int, step_ms: int) -> None:
    while at < stop:
        index = (at - from_ms) // step_ms
        if index >= len(sums):
            return
        end = min(stop, from_ms + (index + 1) * step_ms)
        total = sums[index]
        if last is None:
            total.values = together(total.values, (*NOTHING[:_STATES_AT], *total.values[_STATES_AT:]))
            total.known_ms += end - at
        else:
            total.add(at_rest(last, end - at, end), end - at)
        at = end


def merged(parts: Sequence[Sequence[Cell | None]], places: Sequence[Cell]) -> list[Cell]:
    """Of several parts over the same grid, such as a namespace at each of several brokers. A part of which nothing is known in a
    cell makes the cell as unknown as it is itself; one that is None there has no part in it. `places`: the cells of the grid, for
    those in which nobody has a part."""
    return [
        _side_by_side([cell for cell in cells if cell is not None], place) for place, *cells in zip(places, *parts, strict=True)
    ]


def _side_by_side(there: Sequence[Cell], place: Cell) -> Cell:
    if not there:
        return place._replace(known_ms=0, held_ms=0, values=NOTHING)
    known_ms, held_ms = min(cell.known_ms for cell in there), min(cell.held_ms for cell in there)
    first, *others = (_within(cell, known_ms, held_ms) for cell in there)
    for other in others:
        first = side_by_side(first, other)
    return Cell(there[0].from_ms, there[0].until_ms, known_ms, held_ms, tuple(first))


def _within(cell: Cell, known_ms: int, held_ms: int) -> Sequence[int]:
    """Its values over as much time as is known of all parts: a minute of one broker and ten seconds of another are not ten seconds
    of both. Counts stay whole where it is only a moment less."""
    values = list(share(cell.values, known_ms, cell.known_ms) if cell.known_ms - known_ms > SLACK_MS else cell.values)
    values[BACKLOG_TIME] = cell.values[BACKLOG_TIME] * held_ms // cell.held_ms if cell.held_ms else 0
    return values


def hour_of(cells: Sequence[Cell]) -> Point | None:
    """The cells of an hour as one point, as wide as what is known of it, at its end. None: nothing is."""
    known_ms = sum(cell.known_ms for cell in cells)
    if not known_ms:
        return None
    values = NOTHING
    for cell in cells:
        if cell.known_ms:
            values = together(values, cell.values if cell.held else (*cell.values[:_STATES_AT], *values[_STATES_AT:]))
    until_ms = cells[-1].until_ms
    known_ms = min(known_ms, until_ms - cells[0].from_ms)
    held_ms = sum(cell.held_ms for cell in cells)
    if 0 < held_ms < known_ms:  # of the rest its backlog is not known: the mean is that of what is
        values = tuple(value * known_ms // held_ms if index == BACKLOG_TIME else value for index, value in enumerate(values))
    return Point(until_ms - known_ms, until_ms, values)


def hours_at_one(sources: Sequence[Source]) -> list[Source]:
    """Of a series that is at one broker at a time, with hours as `hour_of` makes them: of each hour one point, as wide as what its
    brokers know together, or the hour. Each says how much of it that is, and not which part; who knows most of it has it."""
    hours: dict[int, list[tuple[Point, int]]] = defaultdict(list)
    for index, source in enumerate(sources):
        for point in source.points:
            hours[-(-point.until_ms // HOUR_MS)].append((point, index))
    points: list[list[Point]] = [[] for _ in sources]
    for end, found in sorted(hours.items()):
        whole = len(found) == len({index for _, index in found}) and all(point.until_ms == end * HOUR_MS for point, _ in found)
        for point, index in [_one_hour(found)] if whole else found:
            points[index].append(point)
    return [source._replace(points=of_broker) for source, of_broker in zip(sources, points, strict=True)]


def _one_hour(found: Sequence[tuple[Point, int]]) -> tuple[Point, int]:
    ordered = sorted(found, key=lambda each: each[0].width_ms)
    told_ms = sum(point.width_ms for point, _ in ordered)
    known_ms = min(HOUR_MS, told_ms)
    values = list(ordered[0][0].values)
    for point, _ in ordered[1:]:
        values = list(together(values, point.values))
    values[BACKLOG_TIME] = values[BACKLOG_TIME] * known_ms // max(1, told_ms)
    last, index = ordered[-1]
    return Point(last.until_ms - known_ms, last.until_ms, tuple(values)), index
