"""Scenarios: what a stock client observes, as JSON values, recorded once from a real Pulsar and compared with ours.

A scenario is a public function of one of the modules below that takes a `World`. Its outcome on Pulsar 4.0 lies in `recorded/`,
made by `make oracle`. What we do not do yet is listed in `not_yet.toml`, what we do otherwise on purpose in `ours.json`.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.compat.scenarios.binary import (
    answers_about_topics,
    answers_to_consumers,
    answers_to_producers,
)
from tests.compat.scenarios.consumers import (
    acknowledgements,
    dead_letters,
    failover,
    key_shared,
    many_topics,
    readers,
    redelivery,
    seeks,
    shared,
    subscriptions,
    table_views,
)
from tests.compat.scenarios.publishing import (
    access_modes,
    batches,
    chunks,
    deduplication,
    delays,
    delays_and_cursors,
    encryption,
    identifiers,
    producers,
)
from tests.compat.scenarios.run import run_all, run_and_compare
from tests.compat.scenarios.topics import (
    administration,
    compaction,
    creation,
    limits,
    listings,
    non_persistent,
    non_persistent_topics,
    rates,
    statistics,
)
from tests.compat.scenarios.websocket import (
    frames_of_consumers,
    frames_of_partitions,
    frames_of_producers,
    frames_of_readers,
    frames_of_topics,
)
from tests.compat.scenarios.world import Outcome, Platform, Scenario, World, topic_path

__all__ = [
    "MODULES",
    "NOT_YET",
    "OURS",
    "RECORDED",
    "Outcome",
    "Platform",
    "Scenario",
    "load_recorded",
    "recorded_files",
    "run_all",
    "run_and_compare",
    "save_recorded",
    "scenarios",
    "World",
    "topic_path",
]

MODULES: tuple[ModuleType, ...] = (
    access_modes,
    acknowledgements,
    administration,
    answers_about_topics,
    answers_to_consumers,
    answers_to_producers,
    batches,
    chunks,
    compaction,
    creation,
    dead_letters,
    deduplication,
    delays,
    delays_and_cursors,
    encryption,
    failover,
    frames_of_consumers,
    frames_of_partitions,
    frames_of_producers,
    frames_of_readers,
    frames_of_topics,
    identifiers,
    key_shared,
    limits,
    listings,
    many_topics,
    non_persistent,
    non_persistent_topics,
    producers,
    rates,
    readers,
    redelivery,
    seeks,
    shared,
    statistics,
    subscriptions,
    table_views,
)
_HERE = Path(__file__).parent
RECORDED = _HERE / "recorded"
NOT_YET: dict[str, str] = tomllib.loads((_HERE / "not_yet.toml").read_text())
"""Scenarios that we do not pass yet, and why. One that passes must leave the list."""
OURS: dict[str, dict[str, Any]] = json.loads((_HERE / "ours.json").read_text())
"""Scenarios with another outcome on purpose: `why` (which docs/compatibility.md says too) and our `outcome`."""


def scenarios() -> dict[str, Scenario]:
    """Every scenario by `module.function`."""
    by_name = {}
    for module in MODULES:
        area = module.__name__.rpartition(".")[2]
        for name, value in vars(module).items():
            if not name.startswith("_") and callable(value) and getattr(value, "__module__", "") == module.__name__:
                by_name[f"{area}.{name}"] = value
    return by_name


def load_recorded() -> dict[str, Outcome]:
    """What a real Pulsar answered, by scenario."""
    recorded: dict[str, Outcome] = {}
    for path in sorted(RECORDED.glob("*.json")):
        recorded |= {f"{path.stem}.{name}": outcome for name, outcome in json.loads(path.read_text()).items()}
    return recorded


def recorded_files(outcomes: dict[str, Outcome]) -> dict[Path, str]:
    """The files that hold `outcomes`, one for each module, and their text: scenarios are in the order in which modules have them,
    however they ran. Of one that is gone nothing is kept."""
    areas: dict[str, list[str]] = {}
    for full_name in scenarios():
        if full_name in outcomes:
            area, _, name = full_name.partition(".")
            line = f"  {json.dumps(name)}: {json.dumps(outcomes[full_name], ensure_ascii=False)}"
            areas.setdefault(area, []).append(line)
    return {RECORDED / f"{area}.json": "{\n" + ",\n".join(lines) + "\n}\n" for area, lines in areas.items()}


def save_recorded(outcomes: dict[str, Outcome]) -> None:
    for path, text in recorded_files(outcomes).items():
        path.write_text(text)
