"""Removes members of tenants whose time is over. They may do nothing since that moment; this is for lists, teams and the audit log,
whose record tells live pages to look at their reader's rights again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenants.access import platform_actor
from tenants.actions.members import end_memberships as end
from workers.environment import Environment

AT_ONCE = 100


def end_memberships(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    ended = 0
    while True:
        renew()
        count = end(platform_actor("service:worker"), environment.now(), AT_ONCE)
        ended += count
        if count < AT_ONCE:
            return {"ended": ended}
