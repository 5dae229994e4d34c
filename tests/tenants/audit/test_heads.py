"""Signed heads: what somebody kept elsewhere shows that the log was rewritten, however carefully."""

from __future__ import annotations

import base64
import json

import pytest
from django.conf import settings as django_settings
from django.db import connection

from messaging.errors import AuthenticationFailed
from messaging.identity import TokenVerifier, audit_statements
from messaging.settings import Settings
from tenants.audit import triggers
from tenants.audit.chain import append
from tenants.audit.heads import sign_head
from tenants.audit.log_reading import verify_signed
from tenants.models import AuditChain, AuditHead, AuditRecord

pytestmark = pytest.mark.django_db


@pytest.fixture
def settings_in_force() -> Settings:
    settings: Settings = django_settings.MAGNETAR
    return settings


def fill(count: int = 5, role: str = "user:olga") -> None:
    append([AuditRecord(role=role, action="key.create", resource=f"k{number}") for number in range(count)])


def rewrite() -> None:
    """By somebody who owns the database, and knows how hashes are made."""
    with connection.cursor() as cursor:
        for statement in triggers.removing(connection.vendor):
            cursor.execute(statement)
    AuditRecord.unscoped.all().delete()
    AuditChain.objects.all().delete()
    fill(role="user:mallory")
    triggers.install(connection)


def test_a_head_is_signed_once_for_each_end(settings_in_force: Settings) -> None:
    assert sign_head(settings_in_force) is None
    fill()
    first = sign_head(settings_in_force)
    assert first is not None and sign_head(settings_in_force) == first and AuditHead.objects.count() == 1
    statement = audit_statements.verify(audit_statements.verify_path(settings_in_force), first.statement)
    assert (statement.kind, statement.sequence, statement.hash) == ("head", 5, AuditRecord.unscoped.get(id=5).hash)
    fill(1)
    assert sign_head(settings_in_force) != first
    assert verify_signed(settings_in_force, [first.statement]).intact


def test_a_rewritten_log_is_found_by_a_head_that_was_kept_elsewhere(settings_in_force: Settings) -> None:
    fill()
    kept = sign_head(settings_in_force)
    assert kept is not None
    rewrite()
    with connection.cursor() as cursor:
        for statement in triggers.removing(connection.vendor):
            cursor.execute(statement)
        cursor.execute("DELETE FROM tenants_audithead")
    triggers.install(connection)
    assert verify_signed(settings_in_force).intact
    report = verify_signed(settings_in_force, [kept.statement])
    assert report.problems == ["record 5 is not the one that a signed head speaks of: the log was rewritten"]


def test_a_log_that_was_put_back_is_found(settings_in_force: Settings) -> None:
    fill()
    kept = sign_head(settings_in_force)
    assert kept is not None
    with connection.cursor() as cursor:
        for statement in triggers.removing(connection.vendor):
            cursor.execute(statement)
    AuditRecord.unscoped.filter(id__gt=3).delete()
    AuditChain.objects.update(sequence=3, hash=AuditRecord.unscoped.get(id=3).hash)
    triggers.install(connection)
    assert verify_signed(settings_in_force).problems == [
        "a signed head speaks of record 5, which does not exist: the log was cut off or put back"
    ]


def test_a_forged_head_is_a_problem(settings_in_force: Settings) -> None:
    fill()
    head = sign_head(settings_in_force)
    assert head is not None
    begin, claims, signature = head.statement.split(".")
    said = json.loads(base64.urlsafe_b64decode(claims + "=="))
    forged = base64.urlsafe_b64encode(json.dumps({**said, "hash": "f" * 64}).encode()).decode().rstrip("=")
    report = verify_signed(settings_in_force, [f"{begin}.{forged}.{signature}"])
    assert len(report.problems) == 1 and report.problems[0].startswith("a head that was kept elsewhere is not valid")


def test_a_missing_trigger_is_a_problem(settings_in_force: Settings) -> None:
    fill()
    with connection.cursor() as cursor:
        cursor.execute(triggers.removing(connection.vendor)[0])
    assert verify_signed(settings_in_force).problems == [
        "the database lacks the trigger audit_record_update: it accepts changes of the log"
    ]


def test_a_head_is_no_token(settings_in_force: Settings) -> None:
    fill()
    head = sign_head(settings_in_force)
    assert head is not None
    with pytest.raises(AuthenticationFailed):
        TokenVerifier(settings_in_force).verify(head.statement, 0)
