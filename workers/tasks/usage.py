"""Asks the broker to write out its usage records, and finds the times of which a crash may have lost some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from messaging.adminrpc.methods import USAGE_FLUSH
from messaging.adminrpc.usage import UsageFlush
from workers.environment import Environment
from workers.findings.outages import outages_below
from workers.usage_files import take_usage_files
from workers.usage_home import home, is_home

HOLES_SHOWN = 20
RECENT_DAYS = 1  # older files are taken by the hourly job


def collect_usage(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Has the broker close its running interval and write it. Twice is harmless: the second time there is little to write."""
    flushed = environment.rpc.call(USAGE_FLUSH, UsageFlush(task_id=task_id))
    if not is_home(environment.settings, environment.now()):
        return {"files": len(flushed.files), "rows": flushed.rows, "computed": f"in {home()}"}
    taken = take_usage_files(environment, RECENT_DAYS, renew)
    about_taken = {"taken": taken} if taken else {}
    holes = outages_below(environment.settings.data_path / "usage" / "raw")
    about_holes = {"holes": len(holes), "last_holes": [hole._asdict() for hole in holes[-HOLES_SHOWN:]]} if holes else {}
    return {"files": len(flushed.files), "rows": flushed.rows, **about_taken, **about_holes}
