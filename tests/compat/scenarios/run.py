"""Running scenarios side by side: they mostly wait, and each has clients and topics of its own."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from tests.compat.scenarios.world import Outcome, Platform, Scenario, World

AT_ONCE = 12


def run(scenario: Scenario, platform: Platform, name: str) -> Outcome:
    """The outcome; what a scenario did not expect is an outcome too, under the name "failed"."""
    world = World(platform, name)
    try:
        outcome = scenario(world)
    except Exception as error:  # reported with the others, whatever it is
        outcome = {"failed": world.plain(f"{type(error).__name__}: {error}")[:500]}
    finally:
        world.close()
    return json.loads(json.dumps(outcome))


def run_all(chosen: dict[str, Scenario], platform: Platform, at_once: int = AT_ONCE) -> dict[str, Outcome]:
    with ThreadPoolExecutor(at_once, thread_name_prefix="scenario") as pool:
        futures = {name: pool.submit(run, scenario, platform, name.replace(".", "-")) for name, scenario in chosen.items()}
        return {name: future.result() for name, future in futures.items()}
