"""Moves, creates or deletes subscriptions and records the old and new positions in the audit log."""

from __future__ import annotations

from typing import TypeVar

from django.http import HttpRequest

from messaging.adminrpc.base import Method
from messaging.adminrpc.subscriptions import (
    MOVED_SHOWN,
    SubscriptionCreate,
    SubscriptionDelete,
    SubscriptionExpire,
    SubscriptionMoved,
    SubscriptionReset,
    SubscriptionSkip,
)
from tenants import broker
from tenants.http.views import actor

M = TypeVar("M", SubscriptionCreate, SubscriptionDelete, SubscriptionExpire, SubscriptionReset, SubscriptionSkip)


def move(request: HttpRequest, method: Method[M, SubscriptionMoved], asked: M, *, of_many: bool = False) -> None:
    """Calls an RPC method that returns `SubscriptionMoved` and records the first `MOVED_SHOWN` positions of one request. `of_many`:
    the same request also moves other subscriptions of these topics."""
    moved = broker.rpc().call(method, asked).moved
    trail = actor(request).trail
    for topic, (before, after) in moved.items():
        if len(trail.before or trail.after or ()) >= MOVED_SHOWN:
            return
        name = f"{topic}/{asked.subscription}" if of_many else topic
        if before:
            trail.before = {**(trail.before or {}), name: before}
        if after:
            trail.after = {**(trail.after or {}), name: after}
