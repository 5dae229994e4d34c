"""Asks the broker to write out its usage records, and finds the times of which a crash may have lost some."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from messaging.adminrpc.schema import UsageFlush
from workers.environment import Environment

HOLES_SHOWN = 20


class UsageHole(NamedTuple):
    """A boot of a broker that did not end: what was carried in between may be missing."""

    source: str
    boot_epoch: int
    from_ms: int
    until_ms: int


def collect_usage(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Has the broker close its running interval and write it. Twice is harmless: the second time there is little to write."""
    flushed = environment.rpc.call("usage.flush", UsageFlush(task_id=task_id))
    holes = usage_holes(environment.settings.data_path / "usage" / "raw")
    found = {"holes": len(holes), "last_holes": [hole._asdict() for hole in holes[-HOLES_SHOWN:]]} if holes else {}
    return {"files": len(flushed.files), "rows": flushed.rows, **found}


def usage_holes(raw_directory: Path) -> list[UsageHole]:
    """By the files of boots (`messaging.usage_schema`), oldest first. A file that cannot be read says nothing."""
    boots: dict[str, list[dict[str, Any]]] = {}
    for path in raw_directory.glob("boots/*.json"):
        try:
            boot = json.loads(path.read_bytes())
            boots.setdefault(str(boot["source"]), []).append(boot)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    holes = []
    for source, found in boots.items():
        found.sort(key=lambda boot: int(boot["boot_epoch"]))
        for boot, following in pairwise(found):
            if not boot["ended"] and boot["covered_until_ms"] < following["started_ms"]:
                holes.append(UsageHole(source, boot["boot_epoch"], boot["covered_until_ms"], following["started_ms"]))
    return sorted(holes, key=lambda hole: hole.from_ms)
