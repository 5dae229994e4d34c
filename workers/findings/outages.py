"""Times of which a broker that crashed may not have written its usage, by the files of boots (`messaging.usage_schema`)."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple


class Outage(NamedTuple):
    """A boot of a broker that did not end: what was carried in between may be missing."""

    source: str
    boot_epoch: int
    from_ms: int
    until_ms: int


def outages_below(raw_directory: Path) -> list[Outage]:
    """Oldest first. A file that cannot be read says nothing."""
    boots: dict[str, list[dict[str, Any]]] = {}
    for path in raw_directory.glob("boots/*.json"):
        try:
            boot = json.loads(path.read_bytes())
            boots.setdefault(str(boot["source"]), []).append(boot)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    outages = []
    for source, of_source in boots.items():
        of_source.sort(key=lambda boot: int(boot["boot_epoch"]))
        for boot, following in pairwise(of_source):
            if not boot["ended"] and boot["covered_until_ms"] < following["started_ms"]:
                outages.append(Outage(source, boot["boot_epoch"], boot["covered_until_ms"], following["started_ms"]))
    return sorted(outages, key=lambda outage: outage.from_ms)
