"""A few seeded rounds of the fleet campaign (`make fleet` runs it whole)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.fleet import network
from tests.compat.fleet.campaign import Campaign
from tests.compat.fleet.faults import Fault, cut_from_metadata, half_cut_from_metadata, kill, kill_the_first, stop
from tests.compat.fleet.machines import Machines
from tests.compat.fleet.platforms import OneMachine
from tests.support import postgresql_server

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


@pytest.mark.thorough  # test_partitions cuts brokers from their database in every run, without machines of their own
@pytest.mark.slow
@pytest.mark.skipif(not postgresql_server.installed(), reason=f"no PostgreSQL: {postgresql_server.NEEDED}")
async def test_brokers_that_are_cut_from_their_database_keep_their_word(tmp_path: Path) -> None:
    if refused := network.refused_by():
        pytest.skip(f"no network can be made to be cut, which takes root, iproute2 and iptables: {refused}")
    faults: dict[Fault, int] = {cut_from_metadata: 1, half_cut_from_metadata: 1, kill: 1}
    campaign = Campaign(Machines(tmp_path / "data", 2), tmp_path, 3, stop_s=3, faults=faults, lasts_s=(3.0,))
    await campaign.run(3)
    _worked(campaign, {"cut from metadata": 1, "half cut from metadata": 1, "kill": 1})
