"""Signs the end of the audit log, deletes records that are too old, and verifies the whole of it."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from messaging import logs
from tenants.audit.heads import sign_head
from tenants.audit.log_reading import verify_signed
from tenants.audit.retention import prune
from tenants.models import AuditHead
from workers.environment import Environment, Stopping
from workers.runs import Renew

log = logs.get_logger("magnetar.worker")
PROBLEMS_KEPT = 20  # of a verification, in its run


def keep_audit(environment: Environment, task_id: str, renew: Renew) -> dict[str, Any]:
    """Safe to run twice, and to kill: a head that is in the database and not in the file is appended by the next run."""
    settings = environment.settings
    pruned = 0
    if settings.audit_retention_days:
        pruned = prune(settings, environment.now() - timedelta(days=settings.audit_retention_days), renew)
    head = sign_head(settings)
    if head is not None:
        log.info("audit-head", sequence=head.sequence, hash=head.hash)
        if settings.audit_heads_file:
            _append(Path(settings.audit_heads_file), head)
    return {"pruned": pruned, "signed": head.sequence if head is not None else 0}


def verify_audit(environment: Environment, task_id: str, renew: Renew) -> dict[str, Any]:
    """What is wrong is in the run's summary, and in the log of the process. Raises `Stopping`."""

    def progress(record: int) -> None:
        renew(record=record)
        if environment.stopping.is_set():
            raise Stopping

    report = verify_signed(environment.settings, progress=progress)
    if not report.intact:
        log.critical("audit-log-not-intact", problems=report.problem_count, first=report.problems[0])
    return {
        "records": report.records,
        "first": report.first,
        "last": report.last,
        "pruned_up_to": report.pruned,
        "problem_count": report.problem_count,
        "problems": report.problems[:PROBLEMS_KEPT],
    }


def _append(path: Path, head: AuditHead) -> None:
    """Unless the file ends with it. Raises `OSError`."""
    line = f"{head.statement}\n".encode()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(line)))
        if file.read() != line:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
