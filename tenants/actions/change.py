"""The common part of all actions: one transaction for the change, its audit record and its feed entry; then the confirmation."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from django.db import transaction

from messaging.errors import NotReady
from messaging.permissions.model import Action
from tenants import feed, maintenance_requests, policy_events
from tenants.access import Actor
from tenants.actions.quotas import TOPIC_STATE_BYTES, check_states
from tenants.actions.rate import rates
from tenants.audit.chain import append
from tenants.models import AuditRecord, FeedHead, Namespace, Tenant, TopicPolicies

VALUE_BYTES_MAX = 4096  # of one value in a record of the audit log, as JSON; what is larger is taken apart by its names
_NAMES_MAX, _NAME_LENGTH_MAX, _LEVELS = 64, 128, 2


class PendingChange:
    """Used by an action within `change()`: `audit` records what happened, `publish_change` informs the brokers."""

    def __init__(self, actor: Actor, head: FeedHead) -> None:
        self._actor = actor
        self._head = head
        self.version = 0
        self.first_event = False  # a worker is to be told that there are events

    def audit(self, action: str, tenant: str, resource: str, before: object = None, after: object = None) -> None:
        record(self._actor, action, tenant, resource, before, after)

    def publish_change(self, kind: str, key: str, state: dict[str, Any] | None) -> None:
        self.version = feed.append(self._head, kind, key, state)

    def publish_all(self, kind: str, states: Mapping[str, dict[str, Any] | None]) -> None:
        """Many at once: what is gone, small, or was told before."""
        if states:
            self.version = feed.append_all(self._head, kind, states)

    def publish_namespace(self, namespace: Namespace) -> None:
        """Raises `PreconditionFailed` if its tenant would have too much of it."""
        state = feed.namespace_state(namespace)
        state_bytes = len(msgspec.json.encode(state))
        check_states(namespace.tenant_id, namespace.state_bytes, state_bytes)
        Namespace.unscoped.filter(name=namespace.name).update(state_bytes=state_bytes)
        self.publish_change("namespace", namespace.name, state)

    def owe_event(self, namespace: str, topic: str, state: dict[str, Any] | None) -> None:
        """What is set on the topic has changed: readers of its namespace's change events are told. Before the change is
        published."""
        self.first_event |= policy_events.owe(self._head, namespace, topic, state)

    def publish_topic(self, row: TopicPolicies, *, changed: bool = True) -> None:
        """Saves the row, or deletes it where nothing is set. Raises `PreconditionFailed` if its tenant would have too much."""
        if changed:
            self.owe_event(row.namespace_id, row.topic, feed.topic_state(row) if row.policies or row.subscriptions else None)
        if not row.policies and not row.subscriptions:
            TopicPolicies.unscoped.filter(topic=row.topic).delete()
            self.publish_change("topic", row.topic, None)
            return
        state = feed.topic_state(row)
        before_bytes, row.state_bytes = row.state_bytes, len(msgspec.json.encode(state)) + TOPIC_STATE_BYTES
        check_states(row.namespace.tenant_id, before_bytes, row.state_bytes)
        row.save()
        self.publish_change("topic", row.topic, state)

    def publish_tenant(self, tenant: Tenant) -> None:
        self.publish_change("tenant", tenant.name, feed.tenant_state(tenant))


@contextmanager
def change(actor: Actor, *, must_confirm: bool = True) -> Iterator[PendingChange]:
    """A transaction that holds the feed's lock, followed by the broker's confirmation. An exception rolls everything back.

    `must_confirm` False: the broker can fetch the change when it needs it, so an unavailable broker is no error.
    Raises `QuotaExceeded` if the actor makes too many changes too fast, and what a condition of the actor raises."""
    limit_rate(actor)
    with transaction.atomic(durable=True):
        running = PendingChange(actor, feed.lock_head())
        actor.check_conditions()
        yield running
    if running.version:
        try:
            feed.confirm(running.version)
        except NotReady:
            if must_confirm:
                raise
        finally:
            if running.first_event:
                maintenance_requests.requested(maintenance_requests.POLICY_EVENTS)


def limit_rate(actor: Actor) -> None:
    """For what leaves a record and does not go through `change`. Raises `QuotaExceeded` where its tenant changes too much."""
    if not actor.may(Action.SUPERUSER):
        rates.take(actor.principal.tenant, time.time_ns() // 1_000_000)


def record(actor: Actor, action: str, tenant: str, resource: str, before: object = None, after: object = None) -> None:
    """`tenant` is the name of an existing tenant, or "" for the platform."""
    uid = Tenant.unscoped.filter(name=tenant).values_list("uid", flat=True).first() if tenant else ""
    row = AuditRecord(
        role=actor.principal.role,
        address=actor.address[:64],
        key_id=actor.principal.key_id,
        action=action,
        tenant=tenant,
        tenant_uid=uid or "",
        resource=resource,
        before=_bounded(before),
        after=_bounded(after),
        request_id=actor.request_id,
    )
    append([row])
    actor.trail.records += 1


def _bounded(value: Any, levels: int = _LEVELS) -> Any:
    """The audit log is never deleted and tenants choose its contents, so a large value is replaced by its size and hash."""
    encoded = msgspec.json.encode(value)
    if len(encoded) <= VALUE_BYTES_MAX:
        return value
    if isinstance(value, dict) and levels and len(value) <= _NAMES_MAX:
        return {str(name)[:_NAME_LENGTH_MAX]: _bounded(one, levels - 1) for name, one in value.items()}
    return f"{len(encoded)} bytes, SHA-256 {hashlib.sha256(encoded).hexdigest()}"
