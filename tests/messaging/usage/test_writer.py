"""Files of usage records: complete or not there, read back equal by an independent reader."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import defaultdict
from pathlib import Path

import duckdb
import pytest

from messaging.broker.usage import writer
from messaging.broker.usage.collector import UsageCollector
from messaging.broker.usage.record import HOUR_MS, TopicTotals, UsageRecord
from messaging.broker.usage.recorder import UsageRecorder
from messaging.usage_schema import COLUMNS, SCHEMA_VERSION

NOON_MS = 1_763_726_400_000  # 2025-11-21 12:00 UTC


def record(seq: int = 0, start_ms: int = NOON_MS, meter: str = "bytes_in", value: int = 5) -> UsageRecord:
    topic = "persistent://acme/orders/new"
    return UsageRecord(
        "broker/1", 7, f"{meter}|{topic}", seq, "acme", "acme/orders", topic, meter, value, value, start_ms, start_ms + 60_000,
        start_ms + 60_000, SCHEMA_VERSION,
    )  # fmt: skip


def read(path: Path) -> list[tuple[object, ...]]:
    found = duckdb.sql(f"select * from read_parquet('{path}')")
    assert found is not None
    return found.fetchall()


def test_another_reader_finds_every_row_and_the_manifest_agrees(tmp_path: Path) -> None:
    records = [record(0), record(1, NOON_MS + 60_000, value=2**62), record(0, meter="messages_in", value=1)]
    path = writer.write(records, tmp_path, 3)
    assert path.parent == tmp_path / "date=2025-11-21" / "hour=12"
    relation = duckdb.sql(f"select * from read_parquet('{path}', hive_partitioning=false)")
    assert relation is not None
    assert relation.columns == [column for column, _ in COLUMNS]
    assert [str(t) for t in relation.types] == [{"string": "VARCHAR", "int64": "BIGINT", "int32": "INTEGER"}[t] for _, t in COLUMNS]
    assert relation.fetchall() == [tuple(r) for r in records]
    manifest = json.loads(path.with_suffix(".json").read_bytes())
    assert manifest == {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "rows": 3,
        "interval_start_ms": NOON_MS,
        "interval_end_ms": NOON_MS + 120_000,
        "sums": {"bytes_in": 2**62 + 5, "messages_in": 1},
        "source": "broker/1",
        "boot_epoch": 7,
        "schema_version": SCHEMA_VERSION,
        "file_numbers": [3],
    }


def test_records_are_split_by_the_hour_of_the_event() -> None:
    early, late = record(0, NOON_MS - 60_000), record(1, NOON_MS)
    assert writer.split_by_hour([late, early]) == [[early], [late]]


@pytest.mark.parametrize("failing", range(1, 9))
def test_whichever_disk_operation_fails_there_is_no_manifest_without_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Makes the n-th sync or rename fail: the call raises, and what is there is whole or has no manifest."""
    calls = 0
    fsync, replace = os.fsync, Path.replace

    def failing_fsync(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError("the disk is gone")
        fsync(descriptor)

    def failing_replace(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise OSError("the disk is gone")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", failing_fsync)
    monkeypatch.setattr(Path, "replace", failing_replace)
    with pytest.raises(OSError, match="the disk is gone"):
        writer.write([record()], tmp_path)
    monkeypatch.undo()
    assert not list(tmp_path.rglob("*.tmp"))
    for manifest in tmp_path.rglob("*.json"):
        assert read(manifest.with_suffix(".parquet"))
    writer.remove_leftovers(tmp_path, "broker/1")
    assert {p.stem for p in tmp_path.rglob("*.parquet")} == {p.stem for p in tmp_path.rglob("*.json")}


def test_leftovers_of_a_crash_go_and_those_of_others_stay(tmp_path: Path) -> None:
    whole = writer.write([record()], tmp_path)
    half = whole.with_name(whole.name.replace("7-", "8-", 1))
    half.write_bytes(b"PAR1")
    foreign = whole.with_name("broker-2-ffffffff-1-1-1.parquet")
    foreign.write_bytes(b"PAR1")
    temporary = half.with_suffix(".tmp")
    temporary.write_bytes(b"")
    assert writer.remove_leftovers(tmp_path, "broker/1") == 2
    assert whole.exists() and foreign.exists() and not half.exists() and not temporary.exists()


class Broker:
    """A broker's topics and clock, moved by hand."""

    def __init__(self, raw: Path) -> None:
        self.now_ms = NOON_MS - 30_000
        self.topics: dict[str, TopicTotals] = {}
        self.raw = raw
        recorder = UsageRecorder("broker-1", 7, self.now_ms)
        self.collector = UsageCollector(recorder, raw, lambda: self.topics.values(), lambda: self.now_ms)

    def carry(self, topic: str, messages: int) -> None:
        before = self.topics.get(topic, TopicTotals("acme", "acme/orders", topic, 0, 0, 0, 0, 0, 0))
        self.topics[topic] = before._replace(messages_in=before.messages_in + messages)

    def unload(self, topic: str) -> None:
        self.collector.retire(self.topics.pop(topic))

    def on_disk(self) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for path in self.raw.rglob("*.parquet"):
            for row in read(path):
                found[str(row[6])] += int(str(row[8]))
        return dict(found)


def test_the_collector_writes_all_that_topics_carried(tmp_path: Path) -> None:
    async def run() -> None:
        broker = Broker(tmp_path)
        assert broker.collector.wait_ms(broker.now_ms) == 30_000
        broker.carry("a", 4)
        broker.carry("b", 1)
        broker.now_ms += 40_000
        flushed = await broker.collector.collect()
        assert {path.split("/")[1] for path in flushed.files} == {"hour=11", "hour=12"}
        broker.carry("a", 2)
        broker.unload("a")
        broker.carry("a", 8)
        broker.now_ms += HOUR_MS
        assert broker.collector.wait_ms(broker.now_ms) == 0
        await asyncio.gather(broker.collector.collect(), broker.collector.collect())
        assert broker.on_disk() == {"a": 14, "b": 1}
        assert (await broker.collector.collect()).rows == 0

    asyncio.run(run())


def test_what_a_full_disk_refused_goes_with_the_next_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        broker = Broker(tmp_path)
        broker.carry("a", 4)
        broker.now_ms += 1000
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(OSError, match="No space left"):
                await broker.collector.collect()
        broker.carry("a", 1)
        broker.now_ms += 1000
        await broker.collector.collect()
        assert broker.on_disk() == {"a": 5}

    asyncio.run(run())
