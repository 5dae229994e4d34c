"""A crash of a broker shows as a hole with its bounds; a stop does not."""

from __future__ import annotations

from pathlib import Path

from messaging.broker.usage.collector import UsageCollector
from messaging.broker.usage.recorder import UsageRecorder
from workers.findings.outages import Outage, outages_below

START_MS = 1_800_000_000_000


async def boot(folder: Path, epoch: int, started_ms: int, *collected_ms: int, ended: bool) -> None:
    now_ms = started_ms
    collector = UsageCollector(UsageRecorder("broker-1", epoch, started_ms), folder, lambda: (), lambda: now_ms)
    for at_ms in collected_ms:
        now_ms = at_ms
        await collector.collect(ended=ended and at_ms == collected_ms[-1])


async def test_a_hole_reaches_from_the_last_records_before_a_crash_to_the_next_start(tmp_path: Path) -> None:
    await boot(tmp_path, 1, START_MS, START_MS + 60_000, START_MS + 90_000, ended=True)
    await boot(tmp_path, 2, START_MS + 200_000, START_MS + 260_000, ended=False)  # killed at some time after
    await boot(tmp_path, 3, START_MS + 300_000, START_MS + 360_000, ended=False)  # runs
    (tmp_path / "boots" / "torn.json").write_text("{")
    assert outages_below(tmp_path) == [Outage("broker-1", 2, START_MS + 260_000, START_MS + 300_000)]
    assert outages_below(tmp_path / "nowhere") == []
