"""A point of history: what one series carried and held over one interval, and how points are packed.

A series is a tenant, a namespace, a topic or partition, or a subscription of one. Brokers make a point of it once a minute while
something happens there, and none while nothing does. Values are integers in base units, in the order of `COLUMNS`:

    counters   what was added within the interval; two points are put together by adding
    peaks      the highest within the interval; put together by the higher
    states     what was at the end of the interval; put together by taking the later

Packed, a point is a few unsigned LEB128 numbers: seconds from the start of its chunk to its end, its width in milliseconds, a
bitmap of the values that are not 0, and those values. Points of a chunk follow one another, so that adding one is appending bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

COUNTERS = (
    "messages_in",
    "bytes_in",
    "messages_out",
    "bytes_out",
    "timed_publishes",  # of which the time to the receipt was measured: one at a time on a topic
    "publish_us",  # of these, together
    "throttled_ms",  # how long a rate limit kept something waiting, looked at once a second
    "expired_entries",
    "backlog_entry_ms",  # the backlog, times how long it was that: divided by the width, its mean
)
PEAKS = (
    "in_peak",  # messages a second, over 5 s
    "out_peak",
    "publish_us_max",
    "backlog_max",
    "age_max_ms",  # of the oldest message that is not acknowledged
)
STATES = (
    "backlog_entries",  # of a topic: of its subscription that has most; of a namespace and a tenant: of all subscriptions
    "oldest_ms",  # when that message was stored, ms since 1970; 0: there is none, 1: not known
    "stored_bytes",
    "producers",
    "consumers",
)
COLUMNS = (*COUNTERS, *PEAKS, *STATES)
OLDEST_UNKNOWN = 1
VALUE_MAX = (1 << 63) - 1
WIDTH_MS_MAX = 3_600_000  # of a point; what was longer between two looks is not known

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
_INDEX = {name: index for index, name in enumerate(COLUMNS)}
_PEAKS_AT, _STATES_AT = len(COUNTERS), len(COUNTERS) + len(PEAKS)


class Point(NamedTuple):
    """Half-open, ms since 1970. Of an hour `covered_ms` may be less than its width: how much of it is known."""

    from_ms: int
    until_ms: int
    values: tuple[int, ...]

    def value(self, column: str) -> int:
        return self.values[_INDEX[column]]

    @property
    def width_ms(self) -> int:
        return self.until_ms - self.from_ms


def values_of(**values: int) -> tuple[int, ...]:
    """Those that are not named are 0. A column that does not exist is a KeyError."""
    row = [0] * len(COLUMNS)
    for name, value in values.items():
        row[_INDEX[name]] = min(max(0, value), VALUE_MAX)
    return tuple(row)


def together(earlier: Sequence[int], later: Sequence[int]) -> tuple[int, ...]:
    """Of one series, one interval after the other."""
    return tuple(
        later[index] if index >= _STATES_AT else max(a, later[index]) if index >= _PEAKS_AT else a + later[index]
        for index, a in enumerate(earlier)
    )


def side_by_side(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """Of two series over the same interval, such as partitions: everything adds up but times and ages."""
    values = [a + b for a, b in zip(one, other, strict=True)]
    for name in ("publish_us_max", "age_max_ms"):
        values[_INDEX[name]] = max(one[_INDEX[name]], other[_INDEX[name]])
    oldest = _INDEX["oldest_ms"]
    values[oldest] = _oldest(one[oldest], other[oldest])
    return tuple(values)


def share(values: Sequence[int], part_ms: int, width_ms: int) -> tuple[int, ...]:
    """Of what an interval carried, the part that falls on `part_ms` of it, as if it was even. Peaks and states stay."""
    return tuple(value if index >= _PEAKS_AT else value * part_ms // width_ms for index, value in enumerate(values))


def at_rest(values: Sequence[int], width_ms: int, until_ms: int) -> tuple[int, ...]:
    """The next interval of a series that ended with `values`, if nothing happens in it: what it holds stays, and grows older."""
    states = tuple(values[_STATES_AT:])
    backlog, oldest_ms = states[0], states[1]
    row = [0] * _STATES_AT
    row[_INDEX["backlog_entry_ms"]] = backlog * width_ms
    row[_INDEX["backlog_max"]] = backlog
    row[_INDEX["age_max_ms"]] = max(0, until_ms - oldest_ms) if oldest_ms > OLDEST_UNKNOWN else 0
    return (*row, *states)


def _oldest(one: int, other: int) -> int:
    """Where one of them is not known the answer is not, unless there is no other."""
    if OLDEST_UNKNOWN in (one, other):
        return OLDEST_UNKNOWN
    return min(one, other) if one and other else one or other


# --- packing


def pack(point: Point, chunk_ms: int) -> bytes:
    """`chunk_ms`: the start of the chunk, at or before the end of the point."""
    packed = bytearray()
    _put(packed, (point.until_ms - chunk_ms) // 1000)
    _put(packed, point.width_ms)
    _put(packed, sum(1 << index for index, value in enumerate(point.values) if value))
    for value in point.values:
        if value:
            _put(packed, value)
    return bytes(packed)


def unpack(data: bytes, chunk_ms: int) -> Iterator[Point]:
    """In the order in which they were added. Ends are to the second. Raises `ValueError` for what `pack` did not write."""
    at = 0
    while at < len(data):
        seconds, at = _get(data, at)
        width_ms, at = _get(data, at)
        present, at = _get(data, at)
        if present >> len(COLUMNS):
            raise ValueError("a point has values that are not known here: it is of a later release")
        values = [0] * len(COLUMNS)
        for index in range(len(COLUMNS)):
            if present >> index & 1:
                values[index], at = _get(data, at)
        until_ms = chunk_ms + seconds * 1000
        yield Point(until_ms - width_ms, until_ms, tuple(values))


def pack_all(points: Iterable[Point], chunk_ms: int) -> bytes:
    return b"".join(pack(point, chunk_ms) for point in points)


def _put(packed: bytearray, value: int) -> None:
    while value > 0x7F:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)


def _get(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a point is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
