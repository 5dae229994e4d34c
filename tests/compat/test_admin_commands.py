"""What `pulsar-admin` asks is answered as by a real Pulsar: its recorded requests, sent by plain HTTP.

All chapters run when the first step is asked for; each test then looks at one. `make oracle ARGS='--admin --record'` records them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.admin import NOT_YET, OURS, TREE, UNTRIED, Found, chapters, keyed, load_recorded, replay
from tests.compat.scenarios import Platform
from tests.support.brokers.standalone import Standalone

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

RECORDED = load_recorded()
STEPS = {key: chapter for chapter, steps in chapters().items() for key in keyed(chapter, steps)}
LISTED = NOT_YET | OURS


@pytest.fixture(scope="module")
def differing(request: pytest.FixtureRequest, standalone: Standalone, client_log: Path) -> Found:
    """Differences of the steps in those chapters that this run is about."""
    asked = {item.callspec.params.get("key") for item in request.session.items if hasattr(item, "callspec")}
    wanted = {STEPS[key] for key in asked if key in STEPS}
    chosen = {name: steps for name, steps in chapters().items() if name in wanted}
    platform = Platform.of(standalone, client_log)
    return replay(chosen, RECORDED, platform, set(LISTED))


@pytest.mark.parametrize("key", RECORDED)
def test_a_command_is_answered_as_by_pulsar(differing: Found, key: str) -> None:
    if key in LISTED:
        assert differing[key], f"this is answered as by Pulsar now: take it out of the list ({LISTED[key]})"
    else:
        assert differing[key] == []


def test_every_command_was_recorded() -> None:
    commands = {key for key in STEPS if not key.partition(": ")[2].startswith("@") or ": @http " in key}
    assert len(commands) >= 1000
    assert commands == set(RECORDED), "make oracle ARGS='--admin --record'"


def test_every_command_of_the_tool_has_a_step() -> None:
    steps = [step for chapter in chapters().values() for step in chapter]
    without = [command for command in TREE if not any(step == command or step.startswith(f"{command} ") for step in steps)]
    assert len(TREE) > 500
    assert without == sorted(UNTRIED)


def test_the_lists_name_commands_and_say_why() -> None:
    assert set(LISTED) <= set(RECORDED) and not set(NOT_YET) & set(OURS)
    assert all(len(why) > 10 for why in LISTED.values())
