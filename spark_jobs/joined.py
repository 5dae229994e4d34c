"""Partial sums of several batches put together for one hour, without looking at a record where that is possible."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from messaging.usage_schema import GAUGE_CARRY_MS_MAX
from spark_jobs.config import SequenceGap
from spark_jobs.exact import LOW, Amounts
from spark_jobs.partials import MEASURES, Batch
from spark_jobs.plan import HOUR_MS
from spark_jobs.rows import ATTRIBUTES, COUNTED, WORDS, Codes, Ints, expected, follows, sorted_by

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Joined:
    """Rows of partial sums: of the hour itself (`own`), and of the hours beside it; `near` are those whose batch may affect it."""

    hour_ms: int
    codes: dict[str, Codes]
    words: dict[str, Any]
    measures: dict[str, Ints]
    origin: Ints
    origins: tuple[tuple[str, int], ...]
    place: Ints  # -1, 0, 1: the hour before, the hour itself, the hour after
    near: Mask

    @property
    def series_count(self) -> int:
        return len(self.words["series"])

    def series(self, chosen: Mask) -> list[str]:
        """Names of the series chosen, by their codes."""
        return list(self.words["series"].take(pa.array(np.flatnonzero(chosen))).to_pylist())


def join(batches: Sequence[Batch], tables: Sequence[Any], hour_ms: int) -> Joined:
    origins = tuple(sorted({(batch.source, batch.boot_epoch) for batch in batches}))
    counts = np.array([table.num_rows for table in tables], dtype=np.int64)
    together = pa.concat_tables(tables).unify_dictionaries() if tables else None
    codes, words = {}, {}
    for name in WORDS:
        chunks = together[name].chunks if together is not None else []
        codes[name] = np.concatenate([chunk.indices.to_numpy() for chunk in chunks]) if chunks else np.empty(0, dtype=np.int32)
        words[name] = chunks[0].dictionary if chunks else pa.array([], pa.string())

    def spread(values: list[int]) -> Ints:
        return np.repeat(np.array(values, dtype=np.int64), counts)

    start, end = hour_ms - GAUGE_CARRY_MS_MAX, hour_ms + HOUR_MS + GAUGE_CARRY_MS_MAX
    return Joined(
        hour_ms,
        codes,
        words,
        {name: together[name].to_numpy() if together is not None else np.empty(0, dtype=np.int64) for name in MEASURES},
        spread([origins.index((batch.source, batch.boot_epoch)) for batch in batches]),
        origins,
        spread([(batch.hour_ms - hour_ms) // HOUR_MS for batch in batches]),
        spread([batch.interval_start_ms < end and batch.interval_end_ms > start for batch in batches]) > 0,
    )


def suspects(joined: Joined) -> Mask:
    """By code of the series: whether its records must be looked at one by one."""
    measures, places = joined.measures, np.flatnonzero(joined.near)
    series = joined.codes["series"]
    suspected = np.zeros(joined.series_count, dtype=bool)
    suspected[series[places[measures["suspect"][places] > 0]]] = True
    in_time = places[sorted_by(series[places], measures["first_start"][places])]
    before, after = in_time[:-1], in_time[1:]
    wrong = measures["first_start"][after] < measures["last_end"][before]
    for name in ATTRIBUTES:
        wrong |= joined.codes[name][after] != joined.codes[name][before]
    suspected[series[after[wrong & (series[before] == series[after])]]] = True
    by_number = places[sorted_by(series[places], joined.origin[places], measures["seq_min"][places])]
    before, after = by_number[:-1], by_number[1:]
    wrong = (measures["seq_min"][after] <= measures["seq_max"][before]) | (
        measures["first_start"][after] < measures["last_end"][before]
    )
    suspected[series[after[wrong & (series[before] == series[after]) & (joined.origin[before] == joined.origin[after])]]] = True
    return suspected


def amounts_of(joined: Joined, left_out: Mask) -> Amounts:
    """What the hour's series amount to, but those `left_out`."""
    measures, series = joined.measures, joined.codes["series"]
    high, low = np.zeros(joined.series_count, dtype=np.int64), np.zeros(joined.series_count, dtype=np.int64)
    own = np.flatnonzero((joined.place == 0) & ~left_out[series])
    np.add.at(high, series[own], measures["high"][own])
    np.add.at(low, series[own], measures["low"][own])
    gauge = np.array([meter not in COUNTED for meter in joined.words["meter"].to_pylist()], dtype=bool)
    near = np.flatnonzero(joined.near)
    near = near[gauge[joined.codes["meter"][near]] & ~left_out[series[near]]]
    near = near[sorted_by(series[near], measures["first_start"][near])]
    before, after = near[:-1], near[1:]
    ends, begins = measures["last_end"][before], measures["first_start"][after]
    held_ms = np.minimum(begins, joined.hour_ms + HOUR_MS) - np.maximum(ends, joined.hour_ms)
    carried = (series[before] == series[after]) & (begins - ends <= GAUGE_CARRY_MS_MAX) & (held_ms > 0)
    before, held_ms = before[carried], held_ms[carried]
    np.add.at(high, series[before], (measures["last_value"][before] >> 32) * held_ms)
    np.add.at(low, series[before], (measures["last_value"][before] & LOW) * held_ms)
    examples = np.full(joined.series_count, -1, dtype=np.int64)
    examples[series] = np.arange(len(series))
    used = np.flatnonzero(high | low)
    columns = [joined.words[name].take(pa.array(joined.codes[name][examples[used]])).to_pylist() for name in ATTRIBUTES]
    sums = [(first << 32) + last for first, last in zip(high[used].tolist(), low[used].tolist(), strict=True)]
    return dict(zip(zip(*columns, strict=True), sums, strict=True))


def gaps_of(joined: Joined, batches: Sequence[Batch], left_out: Mask, begun: Collection[tuple[str, int]]) -> list[SequenceGap]:
    """Sequence numbers that are in no file, of the hour's series but those `left_out`. `begun`: the boots whose first file is of
    this hour: of each span the first number is theirs."""
    measures, series = joined.measures, joined.codes["series"]
    gaps = _gaps_inside(joined, batches, left_out)
    places = np.flatnonzero((joined.place <= 0) & ~left_out[series])
    places = places[sorted_by(series[places], joined.origin[places], measures["seq_min"][places])]
    first = np.ones(len(places), dtype=bool)
    first[1:] = (series[places[1:]] != series[places[:-1]]) | (joined.origin[places[1:]] != joined.origin[places[:-1]])
    seq, last_seq, last_total = measures["seq_min"][places], np.full(len(places), -1, dtype=np.int64), np.zeros_like(places)
    last_seq[1:] = np.where(first[1:], -1, measures["seq_max"][places[:-1]])
    last_total[1:] = np.where(follows(seq[1:], last_seq[1:]), measures["last_total"][places[:-1]], 0)
    due = expected(seq, last_seq)
    last_end = np.zeros(len(places), dtype=np.int64)
    last_end[1:] = np.where(first[1:], 0, measures["last_end"][places[:-1]])
    starting = np.array([origin in begun for origin in joined.origins], dtype=bool)
    missing = (seq > due) & (joined.place[places] == 0)
    missing &= ~first | starting[joined.origin[places]]
    meters = joined.words["meter"].to_pylist()
    for at in np.flatnonzero(missing).tolist():
        row = places[at]
        lost = int(measures["total_before"][row] - last_total[at]) if meters[joined.codes["meter"][row]] in COUNTED else None
        name = joined.words["series"][int(series[row])].as_py()
        source, boot = joined.origins[joined.origin[row]]
        bounds = int(last_end[at]), int(measures["first_start"][row])
        gaps.append(SequenceGap(source, boot, name, int(due[at]), int(seq[at]) - 1, lost, *bounds))
    return gaps


def _gaps_inside(joined: Joined, batches: Sequence[Batch], left_out: Mask) -> list[SequenceGap]:
    present = np.zeros(joined.series_count, dtype=bool)
    present[joined.codes["series"]] = True
    codes = {name: code for code, name in enumerate(joined.words["series"].to_pylist())} if any(b.gaps for b in batches) else {}
    gaps = []
    for batch in batches:
        for name, first, last, lost, from_ms, until_ms in batch.gaps if batch.hour_ms == joined.hour_ms else ():
            code = codes.get(name, -1)
            if code >= 0 and present[code] and not left_out[code]:
                gaps.append(SequenceGap(batch.source, batch.boot_epoch, name, first, last, lost, from_ms, until_ms))
    return gaps
