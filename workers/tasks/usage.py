"""Asks the broker to write out its usage records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from messaging.adminrpc.schema import UsageFlush
from messaging.errors import NotReady
from workers.environment import Environment
from workers.requests import take_up_usage_run


def collect_usage(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Has the broker close its running interval and write it. Twice is harmless: the second time there is little to write."""
    try:
        take_up_usage_run(environment.now())
    except NotReady:
        pass  # the next call of this task tries again
    flushed = environment.rpc.call("usage.flush", UsageFlush(task_id=task_id))
    return {"files": len(flushed.files), "rows": flushed.rows}
