"""A seeded part of the storage campaign (`make storage-campaign` runs it whole)."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.faults.storage_campaign import CLOCKS_MS, DataDirectory, used_up

CASES = 12


@pytest.mark.parametrize("seed", [10, 12])
async def test_used_up_resources_come_back_and_nothing_confirmed_is_lost(seed: int) -> None:
    assert await used_up(Random(seed), lives=3, steps=120) > 0


async def test_files_that_are_missing_or_older_are_refused_or_not_missed(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    await directory.make()
    cases = list(directory.cases())
    assert len(cases) > 50
    segments = [case for case in cases if "segment-" in case[0]]
    chosen = [*Random(4).sample(segments, 3), *Random(4).sample(cases, CASES - 3)]
    outcomes = {await directory.ends_well(*case) for case in chosen}
    assert outcomes == {"refused", "whole"}
    for ahead_ms in (CLOCKS_MS[0], CLOCKS_MS[-1]):
        await directory.under_another_clock(ahead_ms)
