"""The audit log is signed, verified and pruned by the worker."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from django.db import connection

from messaging.identity import create_secrets
from tenants.audit import retention, triggers
from tenants.audit.chain import append
from tenants.audit.log_reading import verify_signed
from tenants.models import AuditCheckpoint, AuditHead, AuditRecord
from workers.environment import Environment
from workers.runs import run_recorded
from workers.schedule import KEEP_AUDIT, VERIFY_AUDIT
from workers.tasks.audit_keeping import keep_audit, verify_audit

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def secrets(environment: Environment) -> None:
    create_secrets(environment.settings)


def fill(environment: Environment, monkeypatch: pytest.MonkeyPatch, days_ago: int, count: int) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("tenants.audit.chain.timezone.now", lambda: environment.now() - timedelta(days=days_ago))
        append([AuditRecord(role="r", action="a", resource=f"{days_ago}", tenant_uid=str(number % 2)) for number in range(count)])


def with_settings(environment: Environment, **values: object) -> Environment:
    return replace(environment, settings=msgspec.structs.replace(environment.settings, **values))


def keep(environment: Environment, run: str) -> dict[str, object]:
    return run_recorded(environment, KEEP_AUDIT, run, keep_audit)


def test_old_records_are_pruned_and_the_chain_stays_verifiable(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "RECORDS_AT_ONCE", 4)
    fill(environment, monkeypatch, 40, 10)
    fill(environment, monkeypatch, 5, 3)
    kept = AuditRecord.unscoped.get(id=10).hash
    keeping = with_settings(environment, audit_retention_days=30)
    assert keep(keeping, "run-1")["pruned"] == 10
    assert list(AuditRecord.unscoped.order_by("id").values_list("id", flat=True)) == [11, 12, 13, 14]
    assert AuditRecord.unscoped.get(id=14).action == "audit.prune"
    checkpoint = AuditCheckpoint.objects.first()
    assert checkpoint is not None and (checkpoint.sequence, checkpoint.hash) == (10, kept)
    assert AuditCheckpoint.objects.count() == 3
    report = verify_signed(environment.settings)
    assert (report.problems, report.pruned, report.records) == ([], 10, 4)
    assert keep(keeping, "run-2")["pruned"] == 0


def test_the_newest_record_stays(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(environment, monkeypatch, 40, 3)
    assert keep(with_settings(environment, audit_retention_days=30), "run-1")["pruned"] == 2
    assert verify_signed(environment.settings).intact


def test_without_a_retention_nothing_is_pruned(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(environment, monkeypatch, 4_000, 3)
    assert keep(environment, "run-1") == {"outcome": "succeeded", "pruned": 0, "signed": 3}


def test_a_death_in_the_middle_leaves_a_chain_that_fits(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "RECORDS_AT_ONCE", 4)
    fill(environment, monkeypatch, 40, 10)
    pieces = 0

    def die() -> None:
        nonlocal pieces
        pieces += 1
        if pieces == 2:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        retention.prune(environment.settings, environment.now(), die)
    assert AuditRecord.unscoped.count() == 2 and verify_signed(environment.settings).intact
    assert retention.prune(environment.settings, environment.now()) == 1
    assert verify_signed(environment.settings).intact


def test_a_forged_checkpoint_is_named(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what somebody would write who wants the triggers to let a delete pass."""
    fill(environment, monkeypatch, 1, 5)
    row = AuditRecord.unscoped.get(id=3)
    AuditCheckpoint.objects.create(sequence=3, hash=row.hash, at=row.at, records=3, statement="x.y.z")
    AuditRecord.unscoped.filter(id__lte=3).delete()
    report = verify_signed(environment.settings)
    assert [problem.partition(":")[0] for problem in report.problems] == ["the checkpoint of record 3 is not valid"]


def test_heads_are_appended_to_a_file_once(environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "heads"
    keeping = with_settings(environment, audit_heads_file=str(path))
    fill(environment, monkeypatch, 1, 2)
    keep(keeping, "run-1")
    keep(keeping, "run-2")
    fill(environment, monkeypatch, 0, 1)
    keep(keeping, "run-3")
    heads = path.read_text().split()
    assert len(heads) == 2 == AuditHead.objects.count()
    assert verify_signed(environment.settings, heads).intact


def test_a_verification_says_what_is_wrong(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(environment, monkeypatch, 1, 5)
    assert run_recorded(environment, VERIFY_AUDIT, "run-1", verify_audit)["problem_count"] == 0
    with connection.cursor() as cursor:
        for statement in triggers.removing(connection.vendor):
            cursor.execute(statement)
        cursor.execute("DELETE FROM tenants_auditrecord WHERE id = 3")
    triggers.install(connection)
    summary = run_recorded(environment, VERIFY_AUDIT, "run-2", verify_audit)
    assert summary["problems"] == ["record 3 is missing", "record 5 does not follow the record before it in the log of its tenant"]
