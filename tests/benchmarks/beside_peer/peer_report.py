"""The rows of the comparison with a peer, what each is judged by, and the tables made of what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

from tests.benchmarks.generator import Loaded
from tests.benchmarks.report import Figure, Section, Table, number

COMPILED, PLAIN, PEER = "compiled", "plain Python", "peer"
OURS = (COMPILED, PLAIN)
RESIDENT_TARGET = 0.3


def per_core(loaded: Loaded) -> float:
    """Messages a core and second; with a consumer, of those that went both ways."""
    return loaded.messages_per_core_s * (loaded.received_share or 1.0)


class Judged(NamedTuple):
    """What counts of a row, as a ratio of ours to the peer's, and the targets for it (None: none is set)."""

    what: str
    of: Callable[[Loaded], float]
    compiled: float | None = None
    plain: float | None = None
    at_least: bool = True

    def target(self, ours: str) -> float | None:
        return self.compiled if ours == COMPILED else self.plain


class Row(NamedTuple):
    """One kind of load: `load` as the generator is told it, `topics` in all."""

    name: str
    load: tuple[str, ...]
    judged: Judged
    topics: int = 1

    def names(self, base: str) -> list[str]:
        """The topics that the generator makes of a base name."""
        return [base] if self.topics == 1 else [f"{base}-{number}" for number in range(self.topics)]


def _a_core(compiled: float | None = None, plain: float | None = None) -> Judged:
    return Judged("messages a core", per_core, compiled, plain)


_P50 = Judged("p50", lambda loaded: loaded.p50_ms, 0.25, 0.25, at_least=False)
_P99 = Judged("p99", lambda loaded: loaded.p99_ms, 0.4, 0.4, at_least=False)

ROWS = (
    Row("128 B, 1,000 in flight", ("-size", "128", "-window", "1000"), _a_core(5, 2)),
    Row("128 B x 100 a batch, 100 in flight", ("-size", "128", "-batch", "100", "-window", "100"), _a_core(3, 3)),
    Row("1 KiB x 100 a batch, 50 in flight", ("-size", "1024", "-batch", "100", "-window", "50"), _a_core(3, 3)),
    Row("64 KiB, 50 in flight", ("-size", "65536", "-window", "50"), _a_core(5, 5)),
    Row("128 B, one in flight", ("-size", "128", "-window", "1"), _P50),
    Row("1 KiB at 10,000/s", ("-size", "1024", "-rate", "10000"), _P99),
    Row("128 B, Shared consumer, individual acks", ("-size", "128", "-window", "1000", "-consume"), _a_core()),
    Row("128 B, 200 topics on 2 connections", ("-size", "128", "-window", "1000", "-topics", "100", "-conns", "2"), _a_core(), 200),
)


class Measured(NamedTuple):
    """`rounds`: (row, broker) -> one result a round. `resident_mib` after each row; the other two by broker."""

    rounds: dict[tuple[str, str], list[Loaded]]
    resident_mib: dict[tuple[str, str], float]
    idle_mib: dict[str, float]
    start_s: dict[str, float]
    version: str


def section(rows: tuple[Row, ...], measured: Measured, words: str, failures: list[str], details: list[tuple[str, str]]) -> Section:
    figures = [figure for row in rows for ours in OURS if (figure := _figure(row, ours, measured)) is not None]
    figures += _resident_figures(rows, measured)
    tables = [_brokers(measured), _all(rows, measured), _ratios(rows, measured)]
    return Section(f"Beside the peer, Pulsar {measured.version}", words, tables, figures, failures, details)


def ratio(row: Row, ours: str, measured: Measured) -> float | None:
    """Ours to the peer's, the median of all rounds; None where one of them was not measured."""
    ratios = _ratios_by_round(row, ours, measured)
    return statistics.median(ratios) if ratios else None


def _ratios_by_round(row: Row, ours: str, measured: Measured) -> list[float]:
    """What disturbs one round disturbs both sides of it, more or less."""
    pairs = zip(measured.rounds.get((row.name, ours), []), measured.rounds.get((row.name, PEER), []), strict=False)
    both = [(row.judged.of(mine), row.judged.of(theirs)) for mine, theirs in pairs]
    return [mine / theirs for mine, theirs in both if mine and theirs]


def _figure(row: Row, ours: str, measured: Measured) -> Figure | None:
    target, value = row.judged.target(ours), ratio(row, ours, measured)
    if target is None or value is None:
        return None
    return Figure(f"{row.name}, {ours}: {row.judged.what} to the peer's", value, target, at_least=row.judged.at_least)


def _resident_figures(rows: tuple[Row, ...], measured: Measured) -> list[Figure]:
    figures = []
    for ours in OURS:
        pairs = [[measured.resident_mib.get((row.name, broker), 0.0) for broker in (ours, PEER)] for row in rows]
        ratios = [mine / theirs for mine, theirs in pairs if mine and theirs]
        if ratios:
            what = f"resident memory, {ours}, to the peer's: the worst row"
            figures.append(Figure(what, max(ratios), RESIDENT_TARGET, at_least=False))
    return figures


def _brokers(measured: Measured) -> Table:
    columns = ("broker", "start to healthy, s", "resident when idle, MiB")
    return Table(
        columns, [(name, number(start_s), number(measured.idle_mib.get(name, 0.0))) for name, start_s in measured.start_s.items()]
    )


def _all(rows: tuple[Row, ...], measured: Measured) -> Table:
    columns = (
        "load",
        "broker",
        "messages/s",
        "broker CPU us a message",
        "messages a core and second",
        "cores",
        "receipt p50 / p99 ms",
        "delivery p50 / p99 ms",
        "delivered",
        "resident MiB",
    )
    lines = []
    for row in rows:
        for broker in (*OURS, PEER):
            rounds = measured.rounds.get((row.name, broker))
            if rounds:
                lines.append((row.name, broker, *_cells(rounds), number(measured.resident_mib.get((row.name, broker), 0.0))))
    return Table(columns, lines)


def _cells(rounds: list[Loaded]) -> tuple[str, ...]:
    middle = Loaded(*(statistics.median(values) for values in zip(*rounds, strict=True)))
    delivered = middle.received_share > 0
    return (
        number(middle.messages_per_s),
        number(middle.cpu_us),
        number(per_core(middle)),
        number(middle.cores),
        f"{number(middle.p50_ms)} / {number(middle.p99_ms)}",
        f"{number(middle.delivery_p50_ms)} / {number(middle.delivery_p99_ms)}" if delivered else "",
        f"{middle.received_share:.0%}" if delivered else "",
    )


def _ratios(rows: tuple[Row, ...], measured: Measured) -> Table:
    """With the ratio of every round: how far they lie apart says what the medians are worth."""
    lines = []
    for row in rows:
        cells = [_ratio_cell(row, ours, measured) for ours in OURS]
        lines.append((row.name, row.judged.what, *cells))
    return Table(("load", "ratio to the peer of", *(f"{ours} (each round)" for ours in OURS)), lines)


def _ratio_cell(row: Row, ours: str, measured: Measured) -> str:
    value = ratio(row, ours, measured)
    if value is None:
        return "not measured"
    return f"{number(value)} ({', '.join(map(number, _ratios_by_round(row, ours, measured)))})"
