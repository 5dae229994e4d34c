"""Columns as shapes for SVG, drawn by the server. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

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


class Part(NamedTuple):
    """Of a column."""

    series: int
    value: int
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


def bars_of(columns: Sequence[Sequence[Part]], highest: int, height_max: float, *, inset: float = 0.0) -> tuple[Bar, ...]:
    """`columns` from left to right, each of its parts from the bottom up; `highest` is as high as `height_max`. Parts below 1 are
    not drawn. `inset`: part of a column's width that is left free before it."""
    bars: list[Bar] = []
    for number, parts in enumerate(columns):
        width, top = WIDTH / len(columns), height_max
        for part in parts:
            if part.value > 0:
                height = height_max * part.value / highest
                top -= height
                x, wide = round((number + inset) * width, 2), round(width * (1 - GAP_PART), 2)
                bars.append(Bar(part.series, x, round(top, 2), wide, round(height, 2), part.title))
    return tuple(bars)


def stacked(steps: Sequence[date], names: Sequence[str], cells: Cells, titles: Mapping[tuple[str, date], str]) -> Chart:
    """Columns of `steps`, each of the parts `names` from the bottom up. Parts below 0 (corrections) are not drawn."""
    heights = {step: sum(max(0, cells.get((name, step), 0)) for name in names) for step in steps}
    highest = max(heights.values(), default=0)
    columns = [
        [Part(series, cells.get((name, step), 0), titles.get((name, step), name)) for series, name in enumerate(names, 1)]
        for step in steps
    ]
    return Chart(bars_of(columns, highest, HEIGHT), _labels(steps), highest)


def _labels(steps: Sequence[date]) -> tuple[Label, ...]:
    monthly = len(steps) > 1 and all(step.day == 1 for step in steps)
    every = -(-len(steps) // LABELS_MAX)
    return tuple(
        Label(round(WIDTH * index / len(steps), 2), f"{step:%Y-%m}" if monthly else f"{step:%m-%d}")
        for index, step in enumerate(steps)
        if index % every == 0 and WIDTH * index / len(steps) <= WIDTH - LABEL_WIDTH
    )
