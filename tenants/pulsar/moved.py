"""What moves, creates or deletes subscriptions, and says from where to where in the audit log."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from messaging.adminrpc.schema import MOVED_SHOWN
from tenants import broker
from tenants.http.views import actor


def move(request: HttpRequest, method: Any, asked: Any, *, of_many: bool = False) -> None:
    """Calls a method of the RPC that answers with `SubscriptionMoved`; the first `MOVED_SHOWN` positions of one request are
    recorded. `of_many`: other subscriptions of the same topics are moved by the same request."""
    moved: dict[str, tuple[str, str]] = broker.rpc().call(method, asked).moved
    trail = actor(request).trail
    for topic, (before, after) in moved.items():
        if len(trail.before or trail.after or ()) >= MOVED_SHOWN:
            return
        name = f"{topic}/{asked.subscription}" if of_many else topic
        if before:
            trail.before = {**(trail.before or {}), name: before}
        if after:
            trail.after = {**(trail.after or {}), name: after}
