"""The audit log is a chain: whatever is done to its rows behind the platform's back is found and named."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from tenants.actions.change import record
from tenants.audit import triggers
from tenants.audit.chain import append
from tenants.audit.export_lines import COLUMNS
from tenants.audit.links import NOTHING_BEFORE, hash_of
from tenants.audit.log_reading import verify
from tenants.audit.verification import Report, verify_part
from tenants.models import AuditChain, AuditRecord, Tenant
from tests.tenants.world import World

pytestmark = pytest.mark.django_db
ACME, OTHER = "a" * 32, "b" * 32


def fill(count: int = 9) -> None:
    """Records of two tenants, one after the other."""
    for number in range(count):
        after = {"number": number, "rate": 1e22, "share": 0.1, 5: ("a", None)}
        uid = (ACME, OTHER)[number % 2]
        append([AuditRecord(role="user:olga", action="key.create", resource=f"k{number}", tenant_uid=uid, after=after)])


@pytest.fixture
def tampered() -> Callable[..., Report]:
    """Runs a statement that the triggers would refuse, and verifies the log."""

    def run(*statements: str) -> Report:
        with connection.cursor() as cursor:
            for statement in (*triggers.removing(connection.vendor), *statements):
                cursor.execute(statement)
        return verify()

    return run


def test_a_log_that_nobody_touched_is_intact() -> None:
    fill()
    report = verify()
    assert (report.intact, report.records, report.first, report.last) == (True, 9, 1, 9)
    assert list(AuditRecord.unscoped.order_by("id").values_list("id", flat=True)) == list(range(1, 10))
    assert AuditRecord.unscoped.get(id=1).previous_hash == NOTHING_BEFORE


def test_records_that_are_appended_together_are_linked_to_each_other() -> None:
    fill(2)
    append([AuditRecord(role="r", action="a", resource=f"x{number}", tenant_uid=ACME) for number in range(3)])
    assert verify().intact and AuditChain.objects.get().sequence == 5
    mine = AuditRecord.unscoped.filter(tenant_uid=ACME).order_by("id")
    assert verify_part(mine).intact and mine.count() == 4


def test_every_field_counts() -> None:
    fill(1)
    row = AuditRecord.unscoped.get()
    other: dict[str, Any] = {"id": 2, "at": row.at + timedelta(microseconds=1), "before": {}, "after": {"x": 1}}
    for name in set(COLUMNS) - {"hash"}:
        changed = AuditRecord.unscoped.get()
        setattr(changed, name, other.get(name, "x"))
        assert hash_of(changed) != row.hash, name


def test_a_changed_record_is_named(tampered: Callable[..., Report]) -> None:
    fill()
    report = tampered("UPDATE tenants_auditrecord SET role = 'user:mallory' WHERE id = 4")
    assert report.problems == ["record 4 was changed: its hash does not fit what it says"]


def test_a_record_that_was_changed_with_its_hash_breaks_what_follows(tampered: Callable[..., Report]) -> None:
    fill()
    row = AuditRecord.unscoped.get(id=4)
    row.role = "user:mallory"
    report = tampered(f"UPDATE tenants_auditrecord SET role = 'user:mallory', hash = '{hash_of(row)}' WHERE id = 4")
    assert report.problems == [
        "record 5 does not follow record 4: one of them was inserted or replaced",
        "record 6 does not follow the record before it in the log of its tenant",
    ]


@pytest.mark.parametrize(
    ("where", "named"),
    [("id = 4", "record 4 is missing"), ("id IN (1, 2)", "records 1 to 2 are missing"), ("id > 7", "records 8 to 9 are missing")],
)
def test_removed_records_are_named(tampered: Callable[..., Report], where: str, named: str) -> None:
    fill()
    assert named in tampered(f"DELETE FROM tenants_auditrecord WHERE {where}").problems


def test_a_log_without_any_record_is_not_intact(tampered: Callable[..., Report]) -> None:
    fill()
    assert tampered("DELETE FROM tenants_auditrecord").problems == ["records 1 to 9 are missing"]


def test_records_whose_order_was_changed_are_named(tampered: Callable[..., Report]) -> None:
    fill()
    swap = (
        "UPDATE tenants_auditrecord SET id = 100 WHERE id = 3",
        "UPDATE tenants_auditrecord SET id = 3 WHERE id = 5",
        "UPDATE tenants_auditrecord SET id = 5 WHERE id = 100",
    )
    report = tampered(*swap)
    assert {problem.partition(" was")[0] for problem in report.problems} >= {"record 3", "record 5"}


def test_an_inserted_record_is_named(tampered: Callable[..., Report]) -> None:
    """With a hash that fits what it says, where a record was removed."""
    fill()
    forged = AuditRecord.unscoped.get(id=4)
    forged.role, forged.previous_hash = "user:mallory", AuditRecord.unscoped.get(id=2).hash
    with connection.cursor() as cursor:
        for statement in triggers.removing(connection.vendor):
            cursor.execute(statement)
    AuditRecord.unscoped.filter(id=4).update(role=forged.role, previous_hash=forged.previous_hash, hash=hash_of(forged))
    assert "record 4 is in the wrong place: it was written after record 2" in verify().problems


def test_records_beyond_the_end_are_named(tampered: Callable[..., Report]) -> None:
    fill()
    report = tampered("UPDATE tenants_auditchain SET sequence = 7")
    assert "records 8 to 9 are beyond the end of the chain: they were inserted, or its end was put back" in report.problems


def test_of_many_problems_the_first_are_named_and_all_are_counted(tampered: Callable[..., Report]) -> None:
    append([AuditRecord(role="r", action="a", resource="x") for _ in range(300)])
    report = tampered("UPDATE tenants_auditrecord SET role = 'user:mallory'")
    assert (report.problem_count, len(report.problems)) == (300, 100)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tenants_auditrecord SET role = 'user:mallory' WHERE id = 4",
        "UPDATE tenants_auditrecord SET id = 100 WHERE id = 9",
        "DELETE FROM tenants_auditrecord WHERE id = 9",
        "DELETE FROM tenants_auditrecord",
        "INSERT INTO tenants_auditrecord (id, at, role, address, key_id, action, tenant, tenant_uid, resource, request_id, "
        "previous_hash, tenant_previous_hash, hash) SELECT 0, at, role, address, key_id, action, tenant, tenant_uid, resource, "
        "request_id, previous_hash, tenant_previous_hash, hash FROM tenants_auditrecord WHERE id = 1",
        "UPDATE tenants_auditcheckpoint SET sequence = 9",
        "DELETE FROM tenants_auditcheckpoint",
        "UPDATE tenants_audithead SET sequence = 9",
        "DELETE FROM tenants_audithead",
    ],
)
def test_the_database_refuses(statement: str) -> None:
    fill()
    now = timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO tenants_auditcheckpoint VALUES (0, %s, %s, 0, '')", [NOTHING_BEFORE, now])
        cursor.execute("INSERT INTO tenants_audithead VALUES (0, '', %s, '')", [now])
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            cursor.execute(statement)
    assert verify().intact


def test_all_triggers_are_there_after_all_migrations() -> None:
    assert triggers.missing(connection) == []
    with connection.cursor() as cursor:
        cursor.execute(triggers.removing(connection.vendor)[0])
    assert triggers.missing(connection) == ["audit_record_update"]


def test_time_does_not_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    fill(1)
    first = AuditRecord.unscoped.get()
    monkeypatch.setattr("tenants.audit.chain.timezone.now", lambda: first.at - timedelta(hours=1))
    append([AuditRecord(role="r", action="a", resource="x")])
    assert AuditRecord.unscoped.get(id=2).at == first.at and verify().intact


def test_what_actions_record_is_a_chain_and_a_part_of_it_for_each_tenant(world: World) -> None:
    record(world.admin, "odd", "acme", "acme", {"many": list(range(3_000))}, {"names": {1: "x"}})
    assert verify().intact
    for name in ("acme", "other"):
        uid = Tenant.unscoped.get(name=name).uid
        rows = list(AuditRecord.unscoped.filter(tenant_uid=uid).order_by("id"))
        assert verify_part(rows).intact and len(rows) > 2
        without = [*rows[:1], *rows[2:]]
        assert verify_part(without).problems == [
            f"record {rows[2].id} does not follow record {rows[0].id}: records between them are missing"
        ]


def test_a_change_that_is_rolled_back_leaves_no_hole() -> None:
    fill(2)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        fill(1)
        raise ZeroDivisionError
    fill(1)
    assert (verify().intact, AuditRecord.unscoped.count()) == (True, 3)


def test_the_queries_of_a_record_are_few(world: World, django_assert_num_queries: Any) -> None:
    """The tenant's uid, the chain's end, the tenant's last record, the record, the new end."""
    with transaction.atomic(), django_assert_num_queries(5):
        record(world.admin, "key.create", "acme", "k")
