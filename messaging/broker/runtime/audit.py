"""Audit events of the broker's clients. The broker has no database: a task takes the events every minute and writes them
(`workers/tasks/audit.py`). What was not taken when the broker stops waits in a file for its next start (`waiting_audit`); after a
kill it is lost, and the audit log records the restart.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import msgspec

from messaging.adminrpc.audit import AuditEvent, AuditTake, AuditTaken
from messaging.broker.core.clients.audit_events import AuditEvents, Entry, Event
from messaging.broker.core.control.view import ControlView
from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import AuthenticationFailed, NotReady
from messaging.permissions.audited import (
    BROKER_DENIED,
    BROKER_SIGN_IN_FAILED,
    SUBSCRIPTION_CREATE,
    SUBSCRIPTION_DELETE,
    SUBSCRIPTION_SEEK,
)
from messaging.permissions.model import Action, Principal, Resource
from messaging.storage.ledger_store import Position


class WaitingAudit(msgspec.Struct, kw_only=True):
    """`sequence`: the last number that was given; events that have none yet have 0."""

    boot_id: str
    sequence: int
    events: list[AuditEvent]


class BrokerAudit:
    def __init__(self, broker_id: str, view: ControlView, now_ms: Callable[[], int], records: MemoryAccount) -> None:
        self.events = AuditEvents(records)
        self._broker_id = broker_id
        self._boot_id = uuid.uuid4().hex
        self._closed = False
        self._view = view
        self._now_ms = now_ms

    def sign_in_failed(self, error: AuthenticationFailed, address: str) -> None:
        """If the token was issued by us but is no longer valid, its owner is known, and the event goes to the tenant's log."""
        key = self._view.keys.get(error.key_id, {}) if error.key_id else {}
        uid = str(key.get("tenant_uid", ""))
        tenant = str(key.get("tenant", "")) if uid else ""
        event = Event(BROKER_SIGN_IN_FAILED, error.role, error.key_id, address, tenant, uid, tenant or "platform", error.message)
        self.events.record(event, self._now_ms())

    def denied(self, principal: Principal, action: Action, resource: Resource) -> None:
        name = resource.topic or resource.namespace or resource.tenant
        if resource.subscription:
            name += f"/{resource.subscription}"
        self._record(BROKER_DENIED, principal, resource.tenant, name, f"lacks {action.value}")

    def created(self, principal: Principal, topic: Topic, subscription: Subscription) -> None:
        self._changed(SUBSCRIPTION_CREATE, principal, topic, subscription.name, "", _text(subscription.cursor.mark_delete))

    def deleted(self, principal: Principal, topic: Topic, name: str, mark_delete: Position) -> None:
        self._changed(SUBSCRIPTION_DELETE, principal, topic, name, _text(mark_delete), "")

    def sought(self, principal: Principal, topic: Topic, subscription: Subscription, before: Position) -> None:
        after = _text(subscription.cursor.mark_delete)
        self._changed(SUBSCRIPTION_SEEK, principal, topic, subscription.name, _text(before), after)

    def take(self, request: AuditTake) -> AuditTaken:
        if self._closed:
            raise NotReady("the broker is stopping: its next run has the events")
        acknowledged = request.acknowledged_sequence if request.boot_id == self._boot_id else 0
        taken = [_audit_event(entry) for entry in self.events.take(acknowledged)]
        return AuditTaken(broker_id=self._broker_id, boot_id=self._boot_id, events=taken, waiting=self.events.waiting)

    def close(self) -> WaitingAudit:
        """What was not acknowledged. Nothing is handed out any more: it would get numbers that the next run gives to others."""
        self._closed = True
        held = [_audit_event(entry) for entry in self.events.held()]
        return WaitingAudit(boot_id=self._boot_id, sequence=self.events.sequence, events=held)

    def take_up(self, waiting: WaitingAudit) -> None:
        """Goes on with the run that left this. Before anything is recorded."""
        self._boot_id = waiting.boot_id
        self.events.take_up(map(_entry, waiting.events), waiting.sequence)

    def _changed(self, action: str, principal: Principal, topic: Topic, name: str, before: str, after: str) -> None:
        self._record(action, principal, topic.name.tenant, f"{topic.text}/{name}", "", before, after)

    def _record(
        self, action: str, principal: Principal, tenant: str, resource: str, reason: str, before: str = "", after: str = ""
    ) -> None:
        """For a tenant that does not exist, only the name of the resource is recorded."""
        uid = self._view.tenant_uid(tenant)
        known = tenant if uid else ""
        event = Event(action, principal.role, principal.key_id, principal.address, known, uid, resource, reason)
        self.events.record(event, self._now_ms(), before, after)


def _text(position: Position) -> str:
    return f"{position.ledger_id}:{position.entry_id}"


def _entry(event: AuditEvent) -> Entry:
    of_event = Event(**{name: getattr(event, name) for name in Event._fields})
    entry = Entry(of_event, event.first_ms, event.before)
    entry.sequence, entry.count, entry.last_ms, entry.after = event.sequence, event.count, event.last_ms, event.after
    return entry


def _audit_event(entry: Entry) -> AuditEvent:
    return AuditEvent(
        **entry.event._asdict(),
        sequence=entry.sequence,
        count=entry.count,
        first_ms=entry.first_ms,
        last_ms=entry.last_ms,
        before=entry.before,
        after=entry.after,
    )
