"""A few seeded kills of the crash campaign (`make crash` runs it whole), one of each kind of life at least."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.crash import DISK_BYTES, LIVES, Campaign
from tests.support.small_disk import NotPermitted, small_disk

pytestmark = [pytest.mark.crash, pytest.mark.xdist_group("platforms")]


async def test_a_broker_killed_at_work_keeps_its_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk that is filled up now and then, where one can be mounted."""
    monkeypatch.setattr("tests.faults.crash.LIVES", dict.fromkeys(LIVES, 1))
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(small_disk(tmp_path / "disk", DISK_BYTES // 4))
        except NotPermitted:
            disk = None
        campaign = Campaign(tmp_path / "disk", 20, disk)
        await campaign.run(6)
    # It did work between the kills, or the campaign proves nothing.
    assert campaign.receipts > 1_000
    assert campaign.acknowledged > 300
    assert campaign.partitions.answered > 0
    assert set(campaign.lives) == set(LIVES) - ({"full disk"} if disk is None else set())
