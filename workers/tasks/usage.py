"""Asks the broker to write out its usage records, and finds the times of which a crash may have lost some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from messaging.adminrpc.methods import USAGE_FLUSH
from messaging.adminrpc.usage import UsageFlush
from workers.environment import Environment
from workers.findings.outages import outages_below

HOLES_SHOWN = 20


def collect_usage(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Has the broker close its running interval and write it. Twice is harmless: the second time there is little to write."""
    flushed = environment.rpc.call(USAGE_FLUSH, UsageFlush(task_id=task_id))
    holes = outages_below(environment.settings.data_path / "usage" / "raw")
    about_holes = {"holes": len(holes), "last_holes": [hole._asdict() for hole in holes[-HOLES_SHOWN:]]} if holes else {}
    return {"files": len(flushed.files), "rows": flushed.rows, **about_holes}
