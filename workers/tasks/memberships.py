"""Removes what was given for a time that is over: memberships, grants, the administration of the platform. They give nothing since
that moment; this is for lists, teams and the audit log, whose record tells live pages to look at their reader's rights again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenants.access import platform_actor
from tenants.actions.grants import end_grants
from tenants.actions.members import end_memberships as end
from tenants.actions.people import end_administrators
from workers.environment import Environment

AT_ONCE = 100


def end_memberships(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    kinds = {"ended": end, "grants_ended": end_grants, "administrators_ended": end_administrators}
    ended = dict.fromkeys(kinds, 0)
    for kind, remove in kinds.items():
        count = AT_ONCE
        while count == AT_ONCE:
            renew()
            count = remove(platform_actor("service:worker"), environment.now(), AT_ONCE)
            ended[kind] += count
    return ended
