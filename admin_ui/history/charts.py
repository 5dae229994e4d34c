"""Charts of history: which there are, and their lines as SVG paths. Pure.

A line is broken where nothing is known, and where there was nothing to measure; what is not known is a band of its own. The
vertical axis begins at 0 and ends at a round number above everything that is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from admin_ui import formatting
from admin_ui.translation import figures
from admin_ui.translation.texts import gettext, gettext_lazy
from tenants.history.figures import HistoryFigures

WIDTH, HEIGHT = 1000, 160
Value = Callable[[HistoryFigures], float | None]


@dataclass(frozen=True)
class Measure:
    """`key`: of a figure. `shade`: which colour of the series, from 1. A `peak` is drawn thin: it is the highest, not the mean."""

    key: str
    label: str
    shade: int
    peak: bool = False

    def value(self, figures: HistoryFigures) -> float | None:
        found: float | None = getattr(figures, self.key)
        return found


@dataclass(frozen=True)
class ChartKind:
    """`form`: how its numbers are written, here and in history-charts.js."""

    name: str
    title: str
    form: str
    measures: tuple[Measure, ...]
    note: str = ""
    quiet: str = ""  # what is said instead of a chart in which everything is 0


MESSAGES = ChartKind(
    "messages",
    gettext_lazy("Messages a second"),
    "rate",
    (
        Measure("rate_in", gettext_lazy("in, mean"), 1),
        Measure("rate_out", gettext_lazy("out, mean"), 2),
        Measure("peak_in", gettext_lazy("in, highest 5 s"), 1, peak=True),
        Measure("peak_out", gettext_lazy("out, highest 5 s"), 2, peak=True),
    ),
)
THROUGHPUT = ChartKind(
    "throughput",
    gettext_lazy("Bytes a second"),
    "bytes",
    (Measure("throughput_in", gettext_lazy("in, mean"), 1), Measure("throughput_out", gettext_lazy("out, mean"), 2)),
)
BACKLOG = ChartKind(
    "backlog",
    gettext_lazy("Backlog, in entries"),
    "count",
    (Measure("backlog_mean", gettext_lazy("mean"), 3), Measure("backlog_max", gettext_lazy("highest"), 3, peak=True)),
    quiet=gettext_lazy("Nothing waited."),
)
AGE = ChartKind(
    "age",
    gettext_lazy("Age of the oldest entry that waits"),
    "span",
    (Measure("oldest_age_max_seconds", gettext_lazy("highest"), 4),),
    quiet=gettext_lazy("Nothing grew old."),
)
LATENCY = ChartKind(
    "latency",
    gettext_lazy("Time to the receipt"),
    "ms",
    (Measure("publish_ms_mean", gettext_lazy("mean"), 5), Measure("publish_ms_max", gettext_lazy("highest"), 5, peak=True)),
    note=gettext_lazy("In the broker, of one block of messages at a time. Gaps without a band: nothing was published."),
)
THROTTLED = ChartKind(
    "throttled",
    gettext_lazy("Held back by rate limits, part of the time"),
    "percent",
    (Measure("throttled_part", gettext_lazy("part"), 6),),
    quiet=gettext_lazy("Rate limits held nothing back."),
)
EXPIRED = ChartKind(
    "expired",
    gettext_lazy("Entries that expired, each step"),
    "count",
    (Measure("expired_entries", gettext_lazy("expired"), 7),),
    quiet=gettext_lazy("Nothing expired."),
)
CLIENTS = ChartKind(
    "clients",
    gettext_lazy("Clients connected, at the end of each step"),
    "count",
    (Measure("producers", gettext_lazy("producers"), 1), Measure("consumers", gettext_lazy("consumers"), 2)),
)
STORED = ChartKind(
    "stored", gettext_lazy("Stored"), "bytes", (Measure("stored_bytes", gettext_lazy("at the end of each step"), 8),)
)

OF_TOPICS = (MESSAGES, THROUGHPUT, BACKLOG, AGE, LATENCY, THROTTLED, EXPIRED, CLIENTS, STORED)


def _out_only(kind: ChartKind) -> ChartKind:
    measures = tuple(each for each in kind.measures if "_in" not in each.key and each.key != "producers")
    return ChartKind(kind.name, kind.title, kind.form, measures, kind.note, kind.quiet)


OF_SUBSCRIPTION = tuple(map(_out_only, (MESSAGES, THROUGHPUT, BACKLOG, AGE, THROTTLED, EXPIRED, CLIENTS)))


@dataclass(frozen=True)
class Line:
    label: str
    shade: int
    peak: bool
    other: bool  # of what it is compared with
    path: str


@dataclass(frozen=True)
class Chart:
    """`top`, `middle`, `zero`: what the edges of the vertical axis stand for. `bands`: (x, width) of what is not known."""

    kind: ChartKind
    lines: tuple[Line, ...]
    top: str
    middle: str
    zero: str
    bands: tuple[tuple[float, float], ...]
    summary: str
    quiet: bool = False
    values: dict[str, list[float | None]] = field(default_factory=dict)


def charts_of(
    kinds: Sequence[ChartKind], steps: Sequence[HistoryFigures], compared: Sequence[HistoryFigures], step_ms: int, pending: int = 0
) -> list[Chart]:
    """`compared`: steps of the same width, or none. `pending`: how many of the last steps are still to come."""
    bands = tuple(bands_of(steps, step_ms, pending))
    return [_chart(kind, steps, compared, bands) for kind in kinds]


def _chart(
    kind: ChartKind, steps: Sequence[HistoryFigures], compared: Sequence[HistoryFigures], bands: tuple[tuple[float, float], ...]
) -> Chart:
    shown = [measure for measure in kind.measures if any(measure.value(each) is not None for each in steps)]
    others = [each for each in kind.measures if not each.peak and any(each.value(step) is not None for step in compared)]
    every = [measure.value(each) for measure in shown for each in steps] + [
        measure.value(each) for measure in others for each in compared
    ]
    highest = max((value for value in every if value is not None), default=0.0)
    top = round_above(highest, kind.form)
    lines = [Line(each.label, each.shade, each.peak, False, path_of([each.value(step) for step in steps], top)) for each in shown]
    lines += [
        Line(
            gettext("{label}, compared").format(label=each.label),
            each.shade,
            False,
            True,
            path_of([each.value(step) for step in compared], top, len(steps)),
        )
        for each in others
    ]
    values = {each.key: [rounded(each.value(step)) for step in steps] for each in shown}
    values |= {f"other {each.key}": [rounded(each.value(step)) for step in compared] for each in others}
    return Chart(
        kind,
        tuple(lines),
        written(top, kind.form),
        written(top / 2, kind.form),
        "0",
        bands,
        _summary(kind, shown, steps),
        quiet=bool(kind.quiet) and highest == 0 and any(value is not None for value in every),
        values=values,
    )


def path_of(values: Sequence[float | None], top: float, count: int = 0) -> str:
    """Steps as high as their value over their whole width, since a value is of all of its step. Broken where there is none."""
    width = WIDTH / max(1, count or len(values))
    parts: list[str] = []
    drawn = False
    for index, value in enumerate(values):
        if value is None:
            drawn = False
            continue
        x, y = index * width, HEIGHT - HEIGHT * value / top if top else HEIGHT
        parts.append(f"{'L' if drawn else 'M'}{x:.1f} {y:.1f}H{x + width:.1f}")
        drawn = True
    return "".join(parts)


def bands_of(steps: Sequence[HistoryFigures], step_ms: int, pending: int) -> list[tuple[float, float]]:
    """What is not known, or not of all of a step."""
    width = WIDTH / max(1, len(steps))
    bands: list[tuple[float, float]] = []
    for index, each in enumerate(steps[: len(steps) - pending]):
        if each.known_seconds * 1000 >= step_ms - SLACK_MS:
            continue
        x = index * width
        if bands and abs(bands[-1][0] + bands[-1][1] - x) < 0.05:
            bands[-1] = (bands[-1][0], bands[-1][1] + width)
        else:
            bands.append((x, width))
    return [(round(x, 1), round(size, 1)) for x, size in bands]


SLACK_MS = 2_500  # of a step, between the points of two minutes


def round_above(value: float, form: str) -> float:
    """1, 2 or 5 times a power of 10, or of 1024 of bytes."""
    if form == "percent":
        return 1.0
    if value <= 0:
        return 1.0
    unit = 1.0
    base = 1024.0 if form == "bytes" else 10.0
    if form == "span":
        return next(
            (edge for edge in (10, 30, 60, 300, 900, 3_600, 10_800, 43_200, 86_400) if edge >= value), -(-value // 86_400) * 86_400
        )
    while unit * base <= value:
        unit *= base
    while form != "bytes" and unit > value:
        unit /= base
    factors = (1, 2, 5, 10) if form != "bytes" else (1, 2, 5, 10, 20, 50, 100, 200, 500, 1024)
    return unit * next(factor for factor in factors if unit * factor >= value)


def written(value: float | None, form: str) -> str:
    """As `OF_MEASURES` of static/admin_ui/js/format.js does; shares are parts of 1."""
    if value is None:
        return formatting.UNKNOWN
    if form == "rate":
        return f"{figures.rate(value)}/s"
    if form == "bytes":
        return figures.size(value)
    if form == "span":
        return figures.span(value)
    if form == "ms":
        return figures.of_language(f"{formatting.digits(value, 2 if value < 10 else 0)} ms")
    if form == "percent":
        return figures.percent(value * 100)
    return figures.count(value) if value >= 10 or value == int(value) else figures.of_language(formatting.digits(value, 1))


def rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _summary(kind: ChartKind, shown: Sequence[Measure], steps: Sequence[HistoryFigures]) -> str:
    """For who does not see the chart: the highest of each line."""
    parts = []
    for measure in shown:
        values = [value for each in steps if (value := measure.value(each)) is not None]
        parts.append(gettext("{label}: at most {values}").format(label=measure.label, values=written(max(values), kind.form)))
    return "; ".join(parts) or gettext("nothing is known")
