"""What a cell of history says, in the units of people. What is not known is None, and never 0. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from messaging.history.cells import Cell
from messaging.history.points import COLUMNS, OLDEST_UNKNOWN
from messaging.times import time_text

_INDEX = {name: index for index, name in enumerate(COLUMNS)}
PerSecond = Annotated[float | None, Meta(description="Mean over the known part, per second.")]


class HistoryFigures(msgspec.Struct, kw_only=True):
    """One step of history. null: not known, or there was nothing to measure."""

    begins: Annotated[str, Meta(description="ISO 8601, UTC.")]
    known_seconds: Annotated[float, Meta(description="How much of the step is known: what brokers told of it.")]
    messages_in: Annotated[int | None, Meta(description="In the known part.")]
    messages_out: int | None
    bytes_in: int | None
    bytes_out: int | None
    rate_in: PerSecond
    rate_out: PerSecond
    throughput_in: PerSecond
    throughput_out: PerSecond
    peak_in: Annotated[float | None, Meta(description="Messages per second over the busiest 5 s; null for sums of topics.")]
    peak_out: float | None
    backlog_mean: Annotated[float | None, Meta(description="Entries.")]
    backlog_max: int | None
    backlog_entries: Annotated[int | None, Meta(description="At the end of what is known.")]
    oldest_age_max_seconds: Annotated[
        float | None, Meta(description="Of the oldest message that was not acknowledged; 0: there was none.")
    ]
    publish_ms_mean: Annotated[float | None, Meta(description="From a block of messages to its receipt, of those measured.")]
    publish_ms_max: float | None
    throttled_part: Annotated[float | None, Meta(description="Of the time, in which a rate limit held something back: 0 to 1.")]
    expired_entries: int | None
    stored_bytes: int | None
    producers: int | None
    consumers: int | None

    @property
    def known(self) -> bool:
        return self.known_seconds > 0


def figures_of(cells: Sequence[Cell]) -> list[HistoryFigures]:
    return [_figures(cell) for cell in cells]


def _figures(cell: Cell) -> HistoryFigures:
    known, held = cell.known_ms > 0, cell.held

    def value(name: str) -> int:
        return cell.values[_INDEX[name]]

    def counted(name: str) -> int | None:
        return value(name) if known else None

    def rate(name: str) -> float | None:
        return value(name) * 1000 / cell.known_ms if known else None

    def peak(name: str, messages: str) -> float | None:
        """Sums of topics have none: their topics' are of different times."""
        return float(value(name)) if known and (value(name) or not value(messages)) else None

    def state(name: str) -> int | None:
        return value(name) if held else None

    timed = value("timed_publishes")
    age_known = held and value("oldest_ms") != OLDEST_UNKNOWN
    return HistoryFigures(
        begins=time_text(cell.from_ms),
        known_seconds=cell.known_ms / 1000,
        messages_in=counted("messages_in"),
        messages_out=counted("messages_out"),
        bytes_in=counted("bytes_in"),
        bytes_out=counted("bytes_out"),
        rate_in=rate("messages_in"),
        rate_out=rate("messages_out"),
        throughput_in=rate("bytes_in"),
        throughput_out=rate("bytes_out"),
        peak_in=peak("in_peak", "messages_in"),
        peak_out=peak("out_peak", "messages_out"),
        backlog_mean=value("backlog_entry_ms") / cell.held_ms if cell.held_ms else None,
        backlog_max=state("backlog_max"),
        backlog_entries=state("backlog_entries"),
        oldest_age_max_seconds=value("age_max_ms") / 1000 if age_known or value("age_max_ms") else None,
        publish_ms_mean=value("publish_us") / timed / 1000 if timed else None,
        publish_ms_max=value("publish_us_max") / 1000 if timed else None,
        throttled_part=min(1.0, value("throttled_ms") / cell.known_ms) if known else None,
        expired_entries=counted("expired_entries"),
        stored_bytes=state("stored_bytes"),
        producers=state("producers"),
        consumers=state("consumers"),
    )
