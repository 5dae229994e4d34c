"""Has the broker append changes of topic policies to the event topics of their namespaces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from messaging.adminrpc.methods import POLICIES_APPEND_EVENTS
from messaging.adminrpc.policies import ChangeEventsAppend
from tenants import policy_events
from workers.environment import Environment

NAMESPACES_FAILED_MAX = 100  # of a tenant: then its others wait for the next run


def write_policy_events(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Namespace by namespace, the longest waiting first, until nothing waits. A namespace whose topic takes nothing (its disk is
    full, somebody terminated it) does not hold up the others, and is tried again by the next run; nor do all of a tenant's hold up
    other tenants.

    Safe to run twice and to kill at any moment: a change is forgotten when the broker has confirmed it, and the broker knows what
    it has stored. Raises `MagnetarError` when the broker is away."""
    written = 0
    failed: dict[str, str] = {}
    of_tenant: Counter[str] = Counter()
    while True:
        renew()
        skipped = [tenant for tenant, count in of_tenant.items() if count >= NAMESPACES_FAILED_MAX]
        owed = policy_events.next_owed(failed, skipped)
        if owed is None:
            break
        namespace, changes = owed
        answer = environment.rpc.call(POLICIES_APPEND_EVENTS, ChangeEventsAppend(namespace=namespace, changes=changes))
        if answer.refused:
            failed[namespace] = answer.refused
            of_tenant[namespace.partition("/")[0]] += 1
            continue
        policy_events.confirmed(namespace, changes[-1].sequence)
        written += len(changes)
    return {"written": written, "failures": len(failed), "failed": failed}
