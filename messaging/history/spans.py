"""Half-open spans of time, in ms. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[int, int]
Spans = Sequence[Span]  # in order, apart from one another
ALWAYS_MS = 1 << 62


def united(spans: Iterable[Span]) -> list[Span]:
    """Those that overlap or touch, as one."""
    whole: list[Span] = []
    for start, end in sorted(spans):
        if whole and start <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        else:
            whole.append((start, end))
    return whole


def without(spans: Iterable[Span], gaps: Iterable[Span]) -> list[Span]:
    """What is left of `spans`."""
    left = united(spans)
    for gap_from, gap_until in gaps:
        kept: list[Span] = []
        for start, end in left:
            if gap_until <= start or gap_from >= end:
                kept.append((start, end))
                continue
            if start < gap_from:
                kept.append((start, gap_from))
            if gap_until < end:
                kept.append((gap_until, end))
        left = kept
    return left


def between(spans: Spans) -> list[Span]:
    """What is in none of them."""
    gaps, at = [], 0
    for start, end in spans:
        gaps.append((at, start))
        at = end
    return [*gaps, (at, ALWAYS_MS)]
