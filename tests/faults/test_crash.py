"""A few seeded kills of the crash campaign (`make crash` runs it whole)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.crash import campaign

pytestmark = [pytest.mark.crash, pytest.mark.xdist_group("standalone")]


async def test_a_broker_killed_at_work_keeps_its_word(tmp_path: Path) -> None:
    told = await campaign(tmp_path, kills=4, seed=20)
    # It did work between the kills, or the campaign proves nothing.
    assert sum(len(one.receipts) for one in told.values()) > 1_000
    assert sum(len(one.acknowledged) for one in told.values()) > 300
