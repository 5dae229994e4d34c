"""Apache's client and ours observe the same, over every transport, and the same as on a real Pulsar, where both were recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.compat.both_clients.run import CLIENTS, recorded, run_all
from tests.compat.both_clients.scenarios import SCENARIOS
from tests.compat.scenarios import Platform
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]


@pytest.fixture(scope="module", params=list(CLIENTS))
def outcomes(request: pytest.FixtureRequest, standalone: Standalone, client_log: Path) -> dict[str, Any]:
    """All side by side when the first is asked for. One that differs runs once more alone: the machine may be busy."""
    platform, make, wanted = Platform.of(standalone, client_log), CLIENTS[request.param], recorded()
    first = run_all(make, platform)
    again = [name for name in SCENARIOS if first[name] != wanted.get(name)]
    return first | run_all(make, platform, again, at_once=1)


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_clients_observe_what_they_observe_of_pulsar(outcomes: dict[str, Any], name: str) -> None:
    assert outcomes[name] == recorded()[name]


def test_every_scenario_was_recorded() -> None:
    assert list(recorded()) == list(SCENARIOS), "python -m tests.compat.both_clients --record"
