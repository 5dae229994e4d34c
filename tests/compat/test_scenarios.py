"""Every scenario has the outcome that a real Pulsar gave, or the one that is ours on purpose.

All run side by side when the first of them is asked for; each test then looks at one. `make oracle` records the outcomes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.scenarios import NOT_YET, OURS, Outcome, Platform, load_recorded, recorded_files, run_and_compare, scenarios
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

SCENARIOS = scenarios()
WANTED = load_recorded() | {name: difference["outcome"] for name, difference in OURS.items()}


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, standalone: Standalone, client_log: Path) -> dict[str, Outcome]:
    """Outcomes of those scenarios that this run is about."""
    asked = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    chosen = {name: scenario for name, scenario in SCENARIOS.items() if name in asked}
    platform = Platform.of(standalone, client_log)
    return run_and_compare(chosen, platform, {name: outcome for name, outcome in WANTED.items() if name not in NOT_YET})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xfail(reason=NOT_YET[name])) if name in NOT_YET else name for name in SCENARIOS]
)
def test_clients_observe_what_they_observe_of_pulsar(outcomes: dict[str, Outcome], name: str) -> None:
    assert outcomes[name] == WANTED[name]


def test_every_scenario_was_recorded() -> None:
    assert len(SCENARIOS) >= 150
    assert sorted(load_recorded()) == sorted(SCENARIOS), "make oracle ARGS=--record"


def test_recording_again_changes_nothing_but_outcomes() -> None:
    """The order of the files is that of the scenarios in their modules."""
    written = recorded_files(load_recorded())
    assert {path.name: path.read_text() for path in written} == {path.name: text for path, text in written.items()}


def test_the_lists_name_scenarios() -> None:
    assert set(NOT_YET) <= set(SCENARIOS) and set(OURS) <= set(SCENARIOS) and not set(NOT_YET) & set(OURS)
