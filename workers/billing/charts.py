"""Stacked columns as shapes for SVG, drawn by the server. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

WIDTH, HEIGHT = 1000.0, 220.0
LABELS_MAX = 12
LABEL_WIDTH = 40.0
GAP_PART = 0.18  # of a column, between it and the next


@dataclass(frozen=True)
class Bar:
    """`series` counts from 1; it says the colour. `title` is what the pointer shows."""

    series: int
    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True)
class Label:
    """Below a column, in the same units across as the bars."""

    x: float
    text: str


@dataclass(frozen=True)
class Chart:
    bars: tuple[Bar, ...]
    labels: tuple[Label, ...]
    highest: int  # what the top edge stands for


Cells = Mapping[tuple[str, date], int]


def stacked(steps: Sequence[date], names: Sequence[str], cells: Cells, titles: Mapping[tuple[str, date], str]) -> Chart:
    """Columns of `steps`, each of the parts `names` from the bottom up. Parts below 0 (corrections) are not drawn."""
    heights = {step: sum(max(0, cells.get((name, step), 0)) for name in names) for step in steps}
    highest = max(heights.values(), default=0)
    bars: list[Bar] = []
    if not steps:
        return Chart((), (), 0)
    width = WIDTH / len(steps)
    for column, step in enumerate(steps):
        top = HEIGHT
        for index, name in enumerate(names, 1):
            value = cells.get((name, step), 0)
            if value <= 0 or not highest:
                continue
            height = HEIGHT * value / highest
            top -= height
            title = titles.get((name, step), name)
            left, wide = round(column * width, 2), round(width * (1 - GAP_PART), 2)
            bars.append(Bar(index, left, round(top, 2), wide, round(height, 2), title))
    return Chart(tuple(bars), _labels(steps), highest)


def _labels(steps: Sequence[date]) -> tuple[Label, ...]:
    monthly = len(steps) > 1 and all(step.day == 1 for step in steps)
    every = -(-len(steps) // LABELS_MAX)
    return tuple(
        Label(round(WIDTH * index / len(steps), 2), f"{step:%Y-%m}" if monthly else f"{step:%m-%d}")
        for index, step in enumerate(steps)
        if index % every == 0 and WIDTH * index / len(steps) <= WIDTH - LABEL_WIDTH
    )
