"""Writes the broker's audit events to the audit log, each event once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from messaging.adminrpc.audit import AuditEvent, AuditTake, AuditTaken
from messaging.adminrpc.methods import AUDIT_TAKE
from messaging.permissions.audited import BROKER_RESTART, MORE
from tenants.audit.chain import append
from tenants.models import AuditRecord
from workers.each_broker import at_each_broker
from workers.environment import Environment
from workers.models import AuditCursor

UNKNOWN = "unknown"


def collect_audit(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """Takes what there was when it began: what comes meanwhile waits for the next run, so that a flood fills no log faster.

    Raises `MagnetarError` when the broker is away; it keeps the events until the next run."""
    counts = {"records": 0, "events": 0}

    def collect(broker_id: str) -> None:
        cursor = AuditCursor.objects.filter(broker_id=broker_id).first()
        ask = AuditTake(broker_id=broker_id)
        if cursor is not None:
            ask = AuditTake(broker_id=broker_id, boot_id=cursor.boot_id, acknowledged_sequence=cursor.sequence)
        taken = environment.rpc.call(AUDIT_TAKE, ask)
        left = len(taken.events) + taken.waiting
        while taken.events and left > 0:
            renew()
            written = write_records(taken)
            counts["records"] += len(written)
            counts["events"] += sum(event.count for event in written)
            left -= len(taken.events)
            ask = AuditTake(broker_id=broker_id, boot_id=taken.boot_id, acknowledged_sequence=taken.events[-1].sequence)
            taken = environment.rpc.call(AUDIT_TAKE, ask)

    at_each_broker(environment, collect)
    return counts


def write_records(taken: AuditTaken) -> list[AuditEvent]:
    """The events that were not in the log yet, and now are."""
    with transaction.atomic():
        cursor, _ = AuditCursor.objects.select_for_update().get_or_create(
            broker_id=taken.broker_id, defaults={"boot_id": taken.boot_id, "sequence": 0}
        )
        if cursor.boot_id != taken.boot_id:
            restart = AuditRecord(
                role=f"service:{taken.broker_id}"[:600],
                action=BROKER_RESTART,
                resource="platform",
                after={"lost": "what was refused, and done to subscriptions, after the last records and before the restart"},
            )
            append([restart])
            cursor.boot_id, cursor.sequence = taken.boot_id, 0
        new = [event for event in taken.events if event.sequence > cursor.sequence]
        append([_record(event, taken.boot_id) for event in new])
        if new:
            cursor.sequence = new[-1].sequence
        cursor.save()
    return new


def _record(event: AuditEvent, boot_id: str) -> AuditRecord:
    after: dict[str, Any] = {"count": event.count, "first": _time(event.first_ms), "last": _time(event.last_ms)}
    if event.reason:
        after["why"] = _plain(event.reason)
    if event.after:
        after["position"] = event.after
    return AuditRecord(
        role=_plain(event.role) or UNKNOWN,
        address=_plain(event.address),
        key_id=_plain(event.key_id),
        action=event.action + MORE if event.further else event.action,
        tenant=event.tenant,
        tenant_uid=event.tenant_uid,
        resource=_plain(event.resource) or event.tenant or "platform",
        before={"position": event.before} if event.before else None,
        after=after,
        request_id=f"{boot_id[:32]}-{event.sequence}",
    )


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _plain(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
