"""Running scenarios side by side: they mostly wait, and each has clients and topics of its own."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from tests.compat.scenarios.values import PATIENCE
from tests.compat.scenarios.world import Outcome, Platform, Scenario, World

AT_ONCE = 12


def run(scenario: Scenario, platform: Platform, name: str, patience: int = 1) -> Outcome:
    """The outcome; what a scenario did not expect is an outcome too, under the name "failed"."""
    PATIENCE.set(patience)
    world = World(platform, name)
    try:
        outcome = scenario(world)
    except Exception as error:  # reported with the others, whatever it is
        outcome = {"failed": world.plain(f"{type(error).__name__}: {error}")[:500]}
    finally:
        world.close()
    return json.loads(json.dumps(outcome))


def run_all(chosen: dict[str, Scenario], platform: Platform, at_once: int = AT_ONCE, patience: int = 1) -> dict[str, Outcome]:
    with ThreadPoolExecutor(at_once, thread_name_prefix="scenario") as pool:
        futures = {
            name: pool.submit(run, scenario, platform, name.replace(".", "-"), patience) for name, scenario in chosen.items()
        }
        return {name: future.result() for name, future in futures.items()}


def run_and_compare(chosen: dict[str, Scenario], platform: Platform, wanted: dict[str, Outcome]) -> dict[str, Outcome]:
    """`run_all`; those with another outcome than the wanted one run once more with more patience, as the machine may be busy."""
    outcomes = run_all(chosen, platform)
    again = {name: scenario for name, scenario in chosen.items() if name in wanted and outcomes[name] != wanted[name]}
    return outcomes | run_all(again, platform, 4, 8)
