"""A part of the crash campaign on a broker that keeps its messages on real bookies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.crash import Campaign
from tests.support.bookkeeper import install
from tests.support.bookkeeper.cluster import running_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("bookkeeper"),
    pytest.mark.skipif(not install.ready(), reason=f"no bookies: {install.NEEDED}"),
]


async def test_what_was_answered_stands(tmp_path: Path) -> None:
    """Receipts, acknowledgements and changes of partitioned topics: at work, while it starts, and while topics are loaded."""
    folder = tmp_path / "broker"
    folder.mkdir()
    with running_cluster(tmp_path / "bookkeeper") as cluster:
        campaign = Campaign(folder, 11, ledger_url=f"bookkeeper://{cluster.hosts}/ledgers", message_bytes_max=1 << 20)
        await campaign.run(9)
    assert campaign.receipts > 100 and campaign.acknowledged > 10
