"""`magnetar bench postgresql`: a broker that keeps metadata and messages in PostgreSQL beside one with its log of files.

Both are started once and driven in turns by the same generator, several times; the median of the turns counts. The database is
empty before and after: schemas that a broker left there are not touched, and then nothing is measured.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psycopg

from messaging.storage.postgresql.connection import SCHEMA
from messaging.storage.postgresql.ledgers.tables import SCHEMA as LEDGER_SCHEMA
from tests.benchmarks import load, wire
from tests.benchmarks.first_light import Case
from tests.benchmarks.load import Stalled
from tests.benchmarks.real_broker import RealBroker
from tests.benchmarks.report import Figure, Progress, Section, Table, number

TURNS = 3
TOPICS = 100  # made one after the other in each turn
PERMITS = 1000
LOCAL, DATABASE = "log of files", "PostgreSQL"
CASES = (
    Case("128 B, one in flight", 1_000, 128, 1, 1),
    Case("128 B, 1,000 in flight", 50_000, 128, 1, 1000),
    Case("1 KiB x 100 a batch, 50 in flight", 1_500, 1024, 100, 50),
    Case("1 KiB end to end, 1,000 in flight", 25_000, 1024, 1, 1000, consume=True),
)
LATENCY_X_MAX, SINGLE_X_MIN, BATCHES_X_MIN = 6.0, 0.3, 0.1


class Turn(NamedTuple):
    rate: float  # messages a second
    p50_ms: float  # to the receipt
    p99_ms: float
    broker_us: float  # CPU, of a message


def run(directory: Path | None, database_url: str, scale: float, progress: Progress) -> Section:
    """Raises `Stalled` if there is no empty database, or a broker does not answer."""
    section = Section(
        "One broker on PostgreSQL beside one with its log of files",
        f"{TURNS} turns each, one after the other, medians. The server shares the processors and the disk where it is on the same "
        f"machine. {_server(database_url)}",
        [Table(("load", "kept in", "messages/s", "receipt p50 ms", "p99 ms", "broker CPU us a message"), [])],
    )
    with tempfile.TemporaryDirectory(dir=directory, prefix="magnetar-bench-") as made:
        brokers: dict[str, RealBroker] = {}
        try:
            brokers[LOCAL] = RealBroker(_folder(made, "local"))
            urls = {"metadata_url": database_url, "ledger_url": database_url}
            brokers[DATABASE] = RealBroker(_folder(made, "database"), **urls)
            middles = {case: _in_turns(brokers, number, case, scale, progress) for number, case in enumerate(CASES)}
            topics_ms = {where: median(_topics(broker, turn) for turn in range(TURNS)) for where, broker in brokers.items()}
        finally:
            for broker in brokers.values():
                broker.close()
            _forget(database_url)
    for case, by_store in middles.items():
        section.tables[0].rows.extend((case.name, where, *map(number, turn)) for where, turn in by_store.items())
    rows: list[tuple[str, ...]] = [(where, number(each_ms)) for where, each_ms in topics_ms.items()]
    section.tables.append(Table(("kept in", f"a topic made, ms (of {TOPICS} one after the other)"), rows))
    alone, single, batches, delivered = ((by_store[LOCAL], by_store[DATABASE]) for by_store in middles.values())
    section.figures += [
        Figure("receipt, one in flight: PostgreSQL / log", alone[1].p50_ms / alone[0].p50_ms, LATENCY_X_MAX, at_least=False),
        Figure("messages/s, 1,000 in flight: PostgreSQL / log", single[1].rate / single[0].rate, SINGLE_X_MIN),
        Figure("messages/s, batches: PostgreSQL / log", batches[1].rate / batches[0].rate, BATCHES_X_MIN),
        Figure("messages/s, end to end: PostgreSQL / log", delivered[1].rate / delivered[0].rate, SINGLE_X_MIN),
    ]
    return section


def _in_turns(brokers: dict[str, RealBroker], number: int, case: Case, scale: float, progress: Progress) -> dict[str, Turn]:
    turns: dict[str, list[Turn]] = {where: [] for where in brokers}
    for turn in range(TURNS + 1):  # the first one warms up
        for where, broker in brokers.items():
            progress(f"{case.name}, {where}, {f'turn {turn}' if turn else 'to warm up'}")
            measured = _turn(broker, f"persistent://public/default/bench-{number}-{turn}", case, scale if turn else scale / 5)
            turns[where] += [measured] if turn else []
    return {where: Turn(*map(median, zip(*of_store, strict=True))) for where, of_store in turns.items()}


def _turn(broker: RealBroker, topic: str, case: Case, scale: float) -> Turn:
    peer, name = load.publisher(broker.address, topic)
    stream = wire.Stream(name, max(20, int(case.entries * scale)), case.size, case.batch)
    permits = PERMITS * case.batch
    consumer = load.subscriber(broker.address, topic, permits) if case.consume else None
    before = broker.cost().cpu_s
    result = load.Run(peer, stream, case.window, case.rate_per_s, consumer, permits).run()
    cpu_us = (broker.cost().cpu_s - before) / result.messages * 1e6
    peer.close()
    if consumer is not None:
        consumer.close()
    broker.forget(topic)
    receipts_ms = sorted(result.receipt_ms)
    return Turn(result.messages_per_s, median(receipts_ms), receipts_ms[round(len(receipts_ms) * 0.99) - 1], cpu_us)


def _topics(broker: RealBroker, turn: int) -> float:
    """ms for each."""
    names = [f"persistent://public/default/topics-{turn}-{number}" for number in range(TOPICS)]
    start = time.perf_counter()
    for name in names:
        broker.create_topic(name)
    return (time.perf_counter() - start) * 1e3 / TOPICS


def _folder(made: str, name: str) -> Path:
    folder = Path(made, name)
    folder.mkdir()
    return folder


def _server(database_url: str) -> str:
    try:
        with psycopg.connect(database_url) as connection:
            settings = connection.execute("select current_setting('server_version'), current_setting('fsync')").fetchone()
            used = connection.execute(
                "select nspname from pg_namespace where nspname = any(%s)", ([SCHEMA, LEDGER_SCHEMA],)
            ).fetchone()
    except psycopg.Error as error:
        raise Stalled(f"there is no PostgreSQL: {' '.join(str(error).split())}") from None
    if used is not None:
        raise Stalled(f"a broker keeps something in this database (schema {used[0]}): name an empty one")
    assert settings is not None
    version, fsync = settings
    return f"PostgreSQL {version}" + ("" if fsync == "on" else f", with fsync = {fsync}: its figures are worth nothing") + "."


def _forget(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        for schema in (SCHEMA, LEDGER_SCHEMA):
            connection.execute(f"drop schema if exists {schema} cascade".encode())
