"""Changes of topic policies that are still to be appended to the event topic of their namespace: an outbox.

A change is added in the transaction that makes it, a worker has the broker append it, and it is deleted when the broker has
confirmed that. What waits for a broker or a disk is bounded: of a topic that changes again the older change is dropped first.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

import msgspec

from messaging import logs
from messaging.adminrpc.feed import TopicState
from messaging.adminrpc.policies import PolicyChange
from messaging.json_types import converted
from tenants.models import FeedHead, PolicyEvent

OWED_MAX = 1_000  # of a namespace: from then on a newer change of a topic takes the place of its older ones
OWED_TOPICS_MAX = 10_000  # of a namespace, each of another topic: from then on the oldest is lost
CHANGES_AT_ONCE = 100
BYTES_AT_ONCE = 1 << 20

log = logs.get_logger("magnetar.web")


def owe(head: FeedHead, namespace: str, topic: str, state: dict[str, Any] | None) -> bool:
    """Within the transaction of the change, which holds the lock of `head`. `state` None: nothing is set on the topic any more.
    Returns whether a worker is to be told: where something waited already, one is or the schedule sees to it.

    Sequences rise with time, so that they do also after the database was restored from a backup."""
    head.event_sequence = max(head.event_sequence + 1, time.time_ns() // 1_000)
    head.save()
    first = not PolicyEvent.unscoped.exists()
    owed = PolicyEvent.unscoped.filter(namespace_id=namespace)
    waiting = owed.count()
    if waiting >= OWED_MAX:
        owed.filter(topic=topic).delete()
    if waiting >= OWED_TOPICS_MAX:
        oldest = list(owed.order_by("sequence").values_list("sequence", flat=True)[: waiting - OWED_TOPICS_MAX + 1])
        owed.filter(sequence__in=oldest).delete()
        log.error("policy-events-dropped", namespace=namespace, changes=len(oldest))
    PolicyEvent.unscoped.create(sequence=head.event_sequence, namespace_id=namespace, topic=topic, state=state)
    return first


def next_owed(except_of: Collection[str], except_tenants: Collection[str] = ()) -> tuple[str, list[PolicyChange]] | None:
    """The oldest changes of the namespace that waits longest, of those not in `except_of` nor of `except_tenants`."""
    events = PolicyEvent.unscoped.order_by("sequence")
    others = events.exclude(namespace_id__in=list(except_of)).exclude(namespace__tenant_id__in=list(except_tenants))
    namespace = others.values_list("namespace_id", flat=True).first()
    if namespace is None:
        return None
    changes: list[PolicyChange] = []
    size = 0
    for row in events.filter(namespace_id=namespace)[:CHANGES_AT_ONCE].iterator():
        size += len(msgspec.json.encode(row.state))
        if changes and size > BYTES_AT_ONCE:
            break
        state = None if row.state is None else converted(row.state, TopicState)
        changes.append(PolicyChange(sequence=row.sequence, topic=row.topic, state=state))
    return namespace, changes


def confirmed(namespace: str, sequence: int) -> None:
    """The topic of the namespace holds the changes up to this one."""
    PolicyEvent.unscoped.filter(namespace_id=namespace, sequence__lte=sequence).delete()
