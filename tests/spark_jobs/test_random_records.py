"""The job agrees with a reference in plain Python on records of any order, in any files."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from messaging.broker.usage.record import UsageRecord
from messaging.broker.usage.writer import split_by_hour, write
from messaging.usage_schema import COUNTERS, GAUGES
from tests.spark_jobs.job import Job
from tests.spark_jobs.usage_files import HOUR_MS, MINUTE_MS, NOON_MS, record, reference

OTHER = "non-persistent://globex/sensors/heat"


def _random_records(chance: random.Random) -> list[UsageRecord]:
    """What one to three broker boots might report over two hours, with silences, copies and altered copies."""
    records = []
    for source, boot in chance.sample([("b1", 1), ("b1", 2), ("b2", 1)], chance.randint(1, 3)):
        for topic in [f"persistent://acme/orders/{index}" for index in range(8)] + [OTHER]:  # each a small case of its own
            for meter in chance.sample([*COUNTERS, *GAUGES], 3):
                at, seq = NOON_MS - chance.randint(1, 20) * 37_000, 0
                while at < NOON_MS + 10 * MINUTE_MS:
                    width = min(chance.choice([1000, 30_000, 60_000]), HOUR_MS - at % HOUR_MS)
                    if chance.random() < 0.6:
                        records.append(
                            record(
                                meter,
                                chance.randint(0, 5000),
                                at,
                                seq=seq,
                                topic=topic,
                                width_ms=width,
                                source=source,
                                boot_epoch=boot,
                            )
                        )
                        seq += 1
                    at += width + (chance.choice([299_000, 300_000, 300_001, 420_000]) if chance.random() < 0.1 else 0)
    copies = chance.sample(records, len(records) // 5)
    altered = [record._replace(value=record.value + 1) for record in chance.sample(records, len(records) // 10)]
    return records + copies + altered


def _scattered(records: Sequence[UsageRecord], raw: Path, chance: random.Random) -> None:
    """The same records in any order, in any number of files."""
    records = list(records)
    chance.shuffle(records)
    while records:
        some = [records.pop() for _ in range(min(len(records), chance.randint(1, 40)))]
        groups: dict[tuple[str, int], list[UsageRecord]] = {}
        for usage in some:
            groups.setdefault((usage.source, usage.boot_epoch), []).append(usage)
        for group in groups.values():
            for hour in split_by_hour(group):
                write(hour, raw)


@pytest.mark.parametrize("seed", range(4))
def test_it_agrees_with_the_reference_in_whatever_order_and_files_records_come(new_job: Callable[[str], Job], seed: int) -> None:
    """At once from scattered files, and bit by bit with a run in between: the same hours."""
    chance = random.Random(seed)
    records = _random_records(chance)
    at_once, in_parts = new_job("at once"), new_job("in parts")
    _scattered(records, at_once.raw, chance)
    at_once.run()
    assert at_once.hours() == reference(records)
    half = chance.randint(0, len(records))
    _scattered(records[half:], in_parts.raw, chance)
    in_parts.run()
    _scattered(records[:half], in_parts.raw, chance)
    in_parts.run()
    assert in_parts.checksums() == at_once.checksums()
