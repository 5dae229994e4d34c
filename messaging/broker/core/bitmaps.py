"""Ranges of consecutive values in compressed bitmaps. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyroaring import BitMap

BITMAP_BYTES = 200  # of an empty one
SHORT = 16  # values of a range on average: a walk over all of them costs less than finding the ends of each range
ENTRY_IDS = 1 << 32  # an entry id is less than this


def bitmap_of(entries: Sequence[int]) -> BitMap:
    """A peer may name any number; those that cannot be entry ids are left out."""
    try:
        return BitMap(entries)
    except OverflowError:
        return BitMap([entry for entry in entries if 0 <= entry < ENTRY_IDS])


def bitmap_of_ranges(ranges: Sequence[tuple[int, int]]) -> BitMap:
    """Of the entries in `ranges`: (first, last)."""
    bitmap = BitMap()
    for first, last in ranges:
        bitmap.add_range(first, last + 1)
    return bitmap


def run_length(bitmap: BitMap, first: int) -> int:
    """How many consecutive values from `first` on are in `bitmap`: found by doubling, then halving."""
    if first not in bitmap:
        return 0
    step = 1
    while bitmap.range_cardinality(first, first + 2 * step) == 2 * step:
        step *= 2
    low, high = step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        if bitmap.range_cardinality(first, first + middle) == middle:
            low = middle
        else:
            high = middle
    return low


def ranges_of(bitmap: BitMap) -> Iterator[tuple[int, int]]:
    """The ranges (first, last) of a bitmap, in order. Each costs about the same, however long it is."""
    if not bitmap:
        return
    if len(bitmap) < SHORT * count_ranges(bitmap):
        yield from _short_ranges(bitmap)
        return
    first, last = bitmap.min(), bitmap.max()
    while True:
        stop = first + run_length(bitmap, first)
        yield first, stop - 1
        if stop > last:
            return
        first = bitmap.next_set_bit(stop)


def _short_ranges(bitmap: BitMap) -> Iterator[tuple[int, int]]:
    """The same for one whose ranges are mostly short: each value costs little."""
    first = last = bitmap.min()
    for value in bitmap:
        if value > last + 1:
            yield first, last
            first = value
        last = value
    yield first, last


def count_ranges(bitmap: BitMap) -> int:
    """How many ranges `ranges_of` gives: the values whose predecessor is not there."""
    return len(bitmap) - bitmap.intersection_cardinality(bitmap.shift(1))


def bitmap_bytes(bitmap: BitMap) -> int:
    """About how much memory it takes: for each 65,536 values two bytes per value that is there, at most 8 KiB."""
    if not bitmap:
        return 0
    stretches = (bitmap.max() >> 16) - (bitmap.min() >> 16) + 1
    return BITMAP_BYTES + min(2 * len(bitmap), stretches << 13) + 32 * stretches
