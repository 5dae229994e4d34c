"""Appends records to the audit log. The only way in which one is written."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from tenants.audit.links import NOTHING_BEFORE, as_stored, hash_of
from tenants.models import AuditChain, AuditRecord


def append(records: Sequence[AuditRecord]) -> None:
    """Gives the records their place, time and hashes and saves them, in the caller's transaction or one of its own.

    Writers go one after the other: each holds the lock of the chain's end until its transaction ends. So a transaction appends
    when it has taken its other locks, and soon ends. Blocks. Raises `DatabaseError`."""
    if not records:
        return
    with transaction.atomic(savepoint=False):
        end, _ = AuditChain.objects.select_for_update().get_or_create(id=1)
        now = timezone.now()
        last_of_tenant: dict[str, str] = {}
        for record in records:
            before = last_of_tenant.get(record.tenant_uid)
            end.sequence += 1
            end.at = max(now, end.at or now)
            record.id, record.at = end.sequence, end.at
            record.before, record.after = as_stored(record.before), as_stored(record.after)
            record.previous_hash = end.hash
            record.tenant_previous_hash = _last_hash(record.tenant_uid) if before is None else before
            end.hash = last_of_tenant[record.tenant_uid] = record.hash = hash_of(record)
        AuditRecord.unscoped.bulk_create(records)
        end.save()


def _last_hash(tenant_uid: str) -> str:
    """Of the tenant's newest record. Nothing, too, where all of them have been pruned."""
    newest = AuditRecord.unscoped.filter(tenant_uid=tenant_uid).order_by("-id")
    return newest.values_list("hash", flat=True).first() or NOTHING_BEFORE
