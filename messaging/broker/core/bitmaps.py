"""Stretches of consecutive values in compressed bitmaps. Pure."""

from __future__ import annotations

from pyroaring import BitMap


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


def runs_of(bitmap: BitMap) -> list[tuple[int, int]]:
    """The contiguous stretches of a bitmap, in order."""
    runs: list[tuple[int, int]] = []
    first = last = -2
    for value in bitmap:
        if value != last + 1:
            if last >= 0:
                runs.append((first, last))
            first = value
        last = value
    if last >= 0:
        runs.append((first, last))
    return runs
