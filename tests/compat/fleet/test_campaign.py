"""A few seeded rounds of the fleet campaign (`make fleet` runs it whole)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.fleet.campaign import Campaign
from tests.compat.fleet.faults import kill_the_first, stop
from tests.compat.fleet.platforms import OneMachine

pytestmark = [pytest.mark.crash, pytest.mark.xdist_group("platforms")]


def _worked(campaign: Campaign, rounds: dict[str, int]) -> None:
    """Or the campaign proves nothing."""
    assert all(publisher.receipts for publisher in campaign.publishers)
    assert all(subscription.seen for subscription in campaign.subscriptions)
    assert campaign.acknowledged
    assert campaign.rounds == rounds


async def test_brokers_that_are_killed_and_stopped_keep_their_word(tmp_path: Path) -> None:
    campaign = Campaign(OneMachine(tmp_path / "data", 2), tmp_path, 7, stop_s=3, faults={kill_the_first: 1, stop: 1})
    await campaign.run(2)
    _worked(campaign, {"kill the first": 1, "stop": 1})
