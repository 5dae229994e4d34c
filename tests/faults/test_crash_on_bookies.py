"""A part of the crash campaign on a broker that keeps its messages on real bookies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.crash import LIVES, Campaign
from tests.support.bookkeeper import install
from tests.support.bookkeeper.cluster import Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("bookkeeper"),
    pytest.mark.skipif(not install.ready(), reason=f"no bookies: {install.NEEDED}"),
]


async def test_what_was_answered_stands(real_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receipts, acknowledgements and changes of partitioned topics: at work, while it starts, and while topics are loaded."""
    monkeypatch.setattr("tests.faults.crash.LIVES", dict.fromkeys(LIVES, 1))
    folder = tmp_path / "broker"
    folder.mkdir()
    url = f"bookkeeper://{real_cluster.hosts}/ledgers?store=crash"
    campaign = Campaign(folder, 11, ledger_url=url, message_bytes_max=1 << 20)
    await campaign.run(5)
    assert campaign.receipts > 100 and campaign.acknowledged > 10
    assert set(campaign.lives) == set(LIVES) - {"full disk"}
