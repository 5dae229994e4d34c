"""Moves, creates and deletes subscriptions. The broker does it; the trail of the request gets the positions before and after."""

from __future__ import annotations

from typing import TypeVar

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
from messaging.errors import from_code
from tenants import broker
from tenants.access import Actor
from tenants.actions.recorded_places import recorded_places

M = TypeVar("M", SubscriptionCreate, SubscriptionDelete, SubscriptionExpire, SubscriptionReset, SubscriptionSkip)


def move(actor: Actor, method: Method[M, SubscriptionMoved], asked: M, *, of_many: bool = False) -> SubscriptionMoved:
    """Calls an RPC method that returns `SubscriptionMoved` and records the first `MOVED_SHOWN` positions of one request. `of_many`:
    the same request also moves other subscriptions of these topics. Raises what one of the partitions refused, once what was done
    on the others is recorded. Callers check permissions."""
    answer = broker.rpc().call(method, asked)
    _record(actor, asked, answer, of_many=of_many)
    raise_refused(answer)
    return answer


def raise_refused(answer: SubscriptionMoved) -> None:
    """Raises what was refused on one of the partitions."""
    if answer.refused is not None:
        raise from_code(answer.refused.code, answer.refused.message)


def _record(actor: Actor, asked: M, answer: SubscriptionMoved, *, of_many: bool) -> None:
    trail = actor.trail
    places = recorded_places(answer)
    for topic, (_, after) in answer.moved.items():
        before = places[topic]
        if len(trail.before or trail.after or ()) >= MOVED_SHOWN:
            return
        name = f"{topic}/{asked.subscription}" if of_many else topic
        if before:
            trail.before = {**(trail.before or {}), name: before}
        if after:
            trail.after = {**(trail.after or {}), name: after}
