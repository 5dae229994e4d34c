"""Collecting from many topics lets the loop run on, and a topic unloaded meanwhile is counted once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import duckdb

from messaging.broker.usage.collector import SLICE_TOPICS, UsageCollector
from messaging.broker.usage.record import TopicTotals
from messaging.broker.usage.recorder import UsageRecorder

START_MS = 1_800_000_000_000


def totals(number: int, messages: int) -> TopicTotals:
    return TopicTotals("acme", "acme/orders", f"persistent://acme/orders/{number}", messages, 0, 0, 0, 0, 0)


def messages_in(folder: Path) -> dict[str, int]:
    sql = f"select topic, sum(value)::bigint from read_parquet('{folder}/**/*.parquet') where meter = 'messages_in' group by topic"
    found = duckdb.sql(sql)
    assert found is not None
    return dict(found.fetchall())


async def test_others_run_while_many_topics_are_asked_and_a_topic_unloaded_meanwhile_counts_once(tmp_path: Path) -> None:
    count = 3 * SLICE_TOPICS
    closed: set[int] = set()
    turns = 0

    def loaded() -> Iterator[TopicTotals]:
        for number in range(count):
            if number not in closed:
                yield totals(number, 5)

    now_ms = START_MS
    collector = UsageCollector(UsageRecorder("broker-1", 1, START_MS), tmp_path, loaded, lambda: now_ms)

    async def unload_the_first_and_the_last() -> None:
        nonlocal turns
        turns += 1
        for number in (0, count - 1):
            closed.add(number)
            collector.retire(totals(number, 7))

    now_ms += 30_000
    other = asyncio.create_task(unload_the_first_and_the_last())
    await collector.collect()
    assert turns == 1 and other.done()
    now_ms += 30_000
    await collector.collect()
    counted = messages_in(tmp_path)
    assert counted.pop("persistent://acme/orders/0") == 7
    assert counted.pop(f"persistent://acme/orders/{count - 1}") == 7
    assert set(counted.values()) == {5} and len(counted) == count - 2
