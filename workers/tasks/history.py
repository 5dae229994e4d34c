"""Stores the points of history that brokers took; makes hours of minutes; and forgets, by age and by room."""

from __future__ import annotations

from typing import Any

from messaging.adminrpc.history import HistoryTake
from messaging.adminrpc.methods import HISTORY_TAKE
from tenants.history import writing
from tenants.scoping import platform_scope
from workers.each_broker import at_each_broker
from workers.environment import Environment
from workers.runs import Renew


def collect_history(environment: Environment, task_id: str, renew: Renew) -> dict[str, Any]:
    """Raises `MagnetarError` when a broker is away, after the others were asked; it keeps its points until the next run, as far as
    it has room."""
    counts = {"points": 0, "hours": 0, "forgotten": 0}

    def collect(broker_id: str) -> None:
        taken = environment.rpc.call(HISTORY_TAKE, HistoryTake(broker_id=broker_id))
        left = len(taken.points) + taken.waiting
        while taken.points or taken.spans:
            renew()
            with platform_scope():
                if writing.store(taken):
                    counts["points"] += len(taken.points)
            left -= len(taken.points)
            taken = environment.rpc.call(HISTORY_TAKE, HistoryTake(broker_id=broker_id, acknowledged_batch=taken.batch))
            if left < 0:  # what comes meanwhile waits for the next run
                break

    try:
        at_each_broker(environment, collect)
    finally:
        now_ms = int(environment.now().timestamp() * 1000)
        with platform_scope():
            counts["hours"] = writing.make_hours(now_ms, renew)
            counts["forgotten"] = writing.forget(now_ms, environment.settings.history_series_max, renew)
    return counts
