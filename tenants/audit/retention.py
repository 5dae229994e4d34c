"""Deletes old records, and signs a checkpoint that stands for them: the chain stays verifiable from there on."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from django.db import transaction

from messaging.identity import audit_statements
from messaging.identity.audit_statements import Statement
from messaging.settings import Settings
from tenants.audit.chain import append
from tenants.audit.links import moment
from tenants.models import AuditCheckpoint, AuditRecord

RECORDS_AT_ONCE = 5_000  # of one checkpoint, and one transaction


def prune(settings: Settings, before: datetime, renew: Callable[[], None] = lambda: None) -> int:
    """Deletes the records that were written before that time, and records how many. The newest record of all stays. Each checkpoint
    is one transaction with its deletes, so that a process that dies leaves a chain that fits. Raises `ConfigError`
    without the key."""
    newest = AuditRecord.unscoped.order_by("-id").values_list("id", flat=True).first()
    if newest is None:
        return 0
    kept = AuditRecord.unscoped.filter(at__gte=before).order_by("at", "id").values_list("id", flat=True).first()
    last = min(newest, kept if kept is not None else newest) - 1
    pruned = 0
    while count := _prune_some(settings, last):
        pruned += count
        renew()
    if pruned:
        told = {"records": pruned, "up_to": last, "written_before": moment(before)}
        append([AuditRecord(role="service:worker", action="audit.prune", resource="platform", after=told)])
    return pruned


def _prune_some(settings: Settings, last: int) -> int:
    with transaction.atomic():
        rows = AuditRecord.unscoped.filter(id__lte=last).order_by("id")
        batch = list(rows.values_list("id", "hash", "at")[:RECORDS_AT_ONCE])
        if not batch:
            return 0
        sequence, record_hash, at = batch[-1]
        said = Statement("checkpoint", sequence, record_hash, moment(at), int(time.time()))
        text = audit_statements.sign(settings, said)
        AuditCheckpoint.objects.create(sequence=sequence, hash=record_hash, at=at, records=len(batch), statement=text)
        AuditRecord.unscoped.filter(id__lte=sequence).delete()
    return len(batch)
