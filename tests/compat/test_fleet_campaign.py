"""Two seeded rounds of the fleet campaign (`make fleet` runs it whole)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.fleet_campaign import Campaign

pytestmark = [pytest.mark.crash, pytest.mark.xdist_group("platforms")]


async def test_brokers_that_are_killed_and_stopped_keep_their_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.compat.fleet_campaign.ROUNDS", {"kill the first": 1, "stop": 1})
    campaign = Campaign(tmp_path / "data", 2, 7)
    await campaign.run(2, stop_s=3)
    # It did work, or the campaign proves nothing.
    assert all(publisher.receipts for publisher in campaign.publishers)
    assert all(consumer.acknowledged for consumer in campaign.consumers)
    assert campaign.rounds == {"kill the first": 1, "stop": 1}
