"""Signed heads: the end of the chain at some moment, in a form that can be kept elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from messaging.identity import audit_statements
from messaging.identity.audit_statements import Statement
from messaging.settings import Settings
from tenants.audit.links import moment
from tenants.audit.verification import Report
from tenants.models import AuditChain, AuditCheckpoint, AuditHead


def sign_head(settings: Settings) -> AuditHead | None:
    """The end of the chain, signed, and kept in the database. The newest one where nothing was written since; None for an empty
    log. Raises `ConfigError` on a machine without the key."""
    end = AuditChain.objects.filter(id=1).first()
    if end is None or end.at is None:
        return None
    head = AuditHead.objects.filter(sequence=end.sequence).first()
    if head is not None:
        return head
    said = Statement("head", end.sequence, end.hash, moment(end.at), int(time.time()))
    text = audit_statements.sign(settings, said)
    head, _ = AuditHead.objects.get_or_create(sequence=end.sequence, defaults={"hash": end.hash, "at": end.at, "statement": text})
    return head


def known_hashes(key_path: Path, elsewhere: Iterable[str], report: Report) -> dict[int, str]:
    """What signed heads and checkpoints say, those of the database and those kept `elsewhere`: id -> hash. A statement that the key
    did not sign is a problem, and so are two that contradict each other. Raises `ConfigError` for the file of the key."""
    known: dict[int, str] = {}
    for text in elsewhere:
        _learn(known, key_path, text, "a head that was kept elsewhere", report)
    for kind, rows in (
        ("head", AuditHead.objects.order_by("sequence")),
        ("checkpoint", AuditCheckpoint.objects.order_by("sequence")),
    ):
        for sequence, hash, text in rows.values_list("sequence", "hash", "statement").iterator(chunk_size=1_000):
            statement = _learn(known, key_path, text, f"the {kind} of record {sequence}", report)
            if statement is not None and (statement.kind, statement.sequence, statement.hash) != (kind, sequence, hash):
                report.problem(f"the {kind} of record {sequence} says something else than its statement")
    return known


def _learn(known: dict[int, str], key_path: Path, text: str, what: str, report: Report) -> Statement | None:
    try:
        statement = audit_statements.verify(key_path, text.strip())
    except ValueError as error:
        report.problem(f"{what} is not valid: {error}")
        return None
    if known.setdefault(statement.sequence, statement.hash) != statement.hash:
        report.problem(f"{what} contradicts another signed statement about record {statement.sequence}: the log was rewritten")
    return statement
