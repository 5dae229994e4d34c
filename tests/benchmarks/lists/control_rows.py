"""Rows of the control plane in great numbers, written as they lie in the database: a program of the platform calls `fill`."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, NamedTuple

from django.db import models, transaction
from django.utils import timezone

from tenants import models as tables
from tenants.actions.custom_roles import CUSTOM_ROLES_MAX
from tenants.actions.invitations import KEPT_MAX
from tenants.actions.teams import TEAMS_MAX
from tenants.audit.chain import append
from tenants.scoping import platform_scope
from tests.benchmarks.lists import history_rows
from workers import models as of_workers
from workers.alerts.models import AlertRule, Notice
from workers.alerts.rule_actions import RULES_MAX
from workers.billing.budget_actions import BUDGETS_MAX
from workers.billing.budget_models import Budget, Report, SpendAlert
from workers.billing.models import Credit, Invoice, PlanAssignment, PricePlanVersion
from workers.redrive.models import RedriveJob, RedriveOutcome

TENANT, NAMESPACE, TOPIC = "bulk", "bulk/main", "persistent://bulk/main/wide"
ROWS_A_STATEMENT = 1_000
ROWS_MAX = 100_000
CHAINED = 1_000  # audit records
_DAY = datetime.timedelta(days=1)
_MINUTE = datetime.timedelta(minutes=1)
_HOURS = [{"hour": f"2026-01-{n // 24 + 1:02}T{n % 24:02}", "run": "bulk-0", "digest": "0" * 64} for n in range(31 * 24)]
_DOCUMENT = {
    "lines": [],
    "segments": [],
    "hours": _HOURS[:24],
    "hours_missing": [],
    "credits": [],
    "currency": "EUR",
}  # a month has 31 times as many hours


class Filled(NamedTuple):
    """`most`: as many as the platform lets one tenant, person or job have; where it sets no limit, or its forms do, more."""

    model: type[models.Model]
    make: Callable[[int], Any]
    held: models.QuerySet[Any]
    most: int = ROWS_MAX


def fill(count: int) -> dict[str, int]:
    """Brings each table to `count` rows of the tenant `bulk`, or to as many as it may have. May be called again with more. How many
    there are then, by table."""
    with platform_scope():
        tenant, _ = tables.Tenant.unscoped.get_or_create(name=TENANT)
        tables.Namespace.unscoped.get_or_create(name=NAMESPACE, tenant=tenant)
        filled = {}
        for one in _filled(tenant.uid):
            end = min(count, one.most)
            one.held.bulk_create((one.make(number) for number in range(one.held.count(), end)), ROWS_A_STATEMENT)
            filled[one.model.__name__] = end
        _fill_records(tenant.uid, count)
        return filled | {"AuditRecord": count, "HistorySeries": history_rows.fill(tenant.uid, NAMESPACE, count)}


def _filled(uid: str) -> list[Filled]:
    now = timezone.now()
    of = {"tenant": TENANT, "tenant_uid": uid}
    first = datetime.date(2026, 1, 1)
    Run, Job = of_workers.UsageRun, RedriveJob
    Run.objects.get_or_create(run_id="bulk-0", defaults={"outcome": "succeeded", "requested_at": now, "finished_at": now})
    Job.objects.get_or_create(id="bulk-0", defaults=_redrive(of, 0, now))
    Budget.objects.get_or_create(id="bulk-0", defaults=_budget(of, 0, now))

    def ago(number: int) -> datetime.datetime:
        return now - number * _MINUTE

    return [
        Filled(
            tables.User,
            lambda n: tables.User(username=f"person-{n}", email=f"person-{n}@example.test", password="!"),
            tables.User.objects.filter(username__startswith="person-"),
        ),
        Filled(
            tables.Namespace,
            lambda n: tables.Namespace(name=f"{TENANT}/n{n}", tenant_id=TENANT),
            tables.Namespace.unscoped.filter(tenant=TENANT),
            most=10_000,
        ),
        Filled(
            tables.Key,
            lambda n: tables.Key(id=f"bulk-{n}", tenant_id=TENANT, name=f"app-{n}", role=f"app-{n}@{TENANT}"),
            tables.Key.unscoped.filter(tenant=TENANT),
        ),
        Filled(
            tables.Grant,
            lambda n: tables.Grant(namespace_id=NAMESPACE, role=f"app-{n}@{TENANT}", actions=["produce", "consume"]),
            tables.Grant.unscoped.filter(namespace_id=NAMESPACE),
            most=10_000,
        ),
        Filled(
            tables.CustomRole,
            lambda n: tables.CustomRole(tenant_id=TENANT, name=f"role-{n}", actions=["read"]),
            tables.CustomRole.unscoped.filter(tenant=TENANT),
            most=CUSTOM_ROLES_MAX,
        ),
        Filled(
            tables.Team,
            lambda n: tables.Team(tenant_id=TENANT, name=f"team-{n}"),
            tables.Team.unscoped.filter(tenant=TENANT),
            most=TEAMS_MAX,
        ),
        Filled(
            tables.Invitation,
            lambda n: tables.Invitation(
                id=f"bulk-{n}",
                tenant_id=TENANT,
                email=f"guest-{n}@example.test",
                role="metadata",
                secret_hash=f"bulk-{n}",
                created_by="user:admin",
                expires_at=now + _DAY,
            ),
            tables.Invitation.unscoped.filter(tenant=TENANT),
            most=KEPT_MAX,
        ),
        Filled(
            tables.Recycled,
            lambda n: tables.Recycled(
                id=f"bulk-{n:08}",
                kind="namespace",
                name=f"{TENANT}/gone-{n}",
                tenant=TENANT,
                tenant_uid=uid,
                deleted_at=ago(n),
                expires_at=now + _DAY,
                deleted_by="user:admin",
            ),
            tables.Recycled.unscoped.filter(tenant=TENANT),
        ),
        Filled(
            of_workers.TaskRun,
            lambda n: of_workers.TaskRun(
                task_id=f"bulk-{n}",
                name="workers.expire",
                key=f"bulk-{n}",
                started_at=now - n * _MINUTE / 60,
                finished_at=now,
                outcome="succeeded",
            ),
            of_workers.TaskRun.objects.filter(task_id__startswith="bulk-"),
        ),
        Filled(
            Run,
            lambda n: Run(run_id=f"bulk-{n}", outcome="succeeded", requested_at=ago(n), finished_at=now),
            Run.objects.filter(run_id__startswith="bulk-"),
        ),
        Filled(
            AlertRule,
            lambda n: AlertRule(
                **of, id=f"bulk-{n}", name=f"rule-{n}", kind="backlog_entries", topic=TOPIC, created_at=now, threshold=n + 1
            ),
            AlertRule.objects.filter(tenant_uid=uid),
            most=RULES_MAX,
        ),
        Filled(
            Notice,
            lambda n: Notice(
                **of,
                id=f"bulk-{n}",
                subject=f"bulk-{n}",
                kind="alert_fired",
                title=f"rule-{n % 100}: backlog",
                text="A backlog.",
                at=ago(n),
                rule="bulk-0",
                delivered={"webhook": "sent", "mail": "sent"},
            ),
            Notice.objects.filter(tenant_uid=uid),
        ),
        Filled(Job, lambda n: Job(id=f"bulk-{n}", **_redrive(of, n, ago(n))), Job.objects.filter(tenant_uid=uid)),
        Filled(
            RedriveOutcome,
            lambda n: RedriveOutcome(
                job_id="bulk-0", ledger_id=1, entry_id=n, messages=1, key=f"order-{n}", target=TOPIC, step=n // 100
            ),
            RedriveOutcome.objects.filter(job_id="bulk-0"),
        ),
        Filled(
            Invoice,
            lambda n: Invoice(
                **of,
                id=f"bulk-{n}",
                kind="credit_note",
                number=f"B-{n:06}",
                state="final",
                start=ago(n),
                end=now,
                currency="EUR",
                total_minor=n,
                made_at=now,
                issued_at=now,
                document=_DOCUMENT,
            ),
            Invoice.objects.filter(tenant_uid=uid),
        ),
        Filled(
            Credit,
            lambda n: Credit(**of, id=f"bulk-{n}", title=f"credit {n}", currency="EUR", amount_minor=1, created_at=ago(n)),
            Credit.objects.filter(tenant_uid=uid),
        ),
        Filled(
            PlanAssignment,
            lambda n: PlanAssignment(**of, id=f"bulk-{n}", plan="bulk-0", starts_at=ago(n)),
            PlanAssignment.objects.filter(tenant_uid=uid),
        ),
        Filled(
            PricePlanVersion,
            lambda n: PricePlanVersion(
                id=f"bulk-{n}",
                plan=f"bulk-{n}",
                version=1,
                title=f"plan {n}",
                currency="EUR",
                in_force_from=now,
                document={},
                created_at=now,
                created_by="user:admin",
            ),
            PricePlanVersion.objects.filter(id__startswith="bulk-"),
        ),
        Filled(
            Budget, lambda n: Budget(id=f"bulk-{n}", **_budget(of, n, now)), Budget.objects.filter(tenant_uid=uid), most=BUDGETS_MAX
        ),
        Filled(
            SpendAlert,
            lambda n: SpendAlert(
                budget_id="bulk-0", month=first, threshold=n % 30_000, likely=n % 2 == 0, amount_minor=1, at=ago(n)
            ),
            SpendAlert.objects.filter(budget_id="bulk-0"),
            most=30_000,
        ),
        Filled(
            Report,
            lambda n: Report(**of, id=f"bulk-{n}", name=f"report-{n}", by="topic", first=first, last=first, made_at=ago(n)),
            Report.objects.filter(tenant_uid=uid),
        ),
    ]


def _redrive(of: dict[str, str], number: int, at: datetime.datetime) -> dict[str, Any]:
    of_job = {"idempotency_key": f"bulk-{number}", "topic": TOPIC, "subscription": "s", "owner": "user:admin"}
    return {**of, **of_job, "requested_by": "user:admin", "state": "done", "created_at": at, "finished_at": at}


def _budget(of: dict[str, str], number: int, at: datetime.datetime) -> dict[str, Any]:
    return {**of, "name": f"budget-{number}", "currency": "EUR", "amount_minor": 1, "created_at": at, "thresholds": [80]}


def _fill_records(uid: str, count: int) -> None:
    """The first through the chain, as the platform writes them; the others are copies of those: a chain of 100,000 takes a minute,
    and lists do not read its hashes."""
    held = tables.AuditRecord.unscoped.filter(tenant_uid=uid).count()
    if held < min(count, CHAINED):
        append([_record(uid, number) for number in range(held, min(count, CHAINED))])
    with transaction.atomic():
        end = tables.AuditChain.objects.select_for_update().get(id=1)
        held = tables.AuditRecord.unscoped.filter(tenant_uid=uid).count()
        pattern = list(tables.AuditRecord.unscoped.filter(tenant_uid=uid)[:CHAINED].values())
        copies = (
            tables.AuditRecord(
                **{**pattern[number % len(pattern)], "id": end.sequence + 1 + number, "request_id": f"bulk-{number}"}
            )
            for number in range(count - held)
        )
        tables.AuditRecord.unscoped.bulk_create(copies, ROWS_A_STATEMENT)
        end.sequence += max(0, count - held)
        end.save()


def _record(uid: str, number: int) -> tables.AuditRecord:
    return tables.AuditRecord(
        role=f"user:u{number % 97}",
        action=f"topic.a{number % 40}",
        resource=f"bulk/n{number % 50}",
        tenant=TENANT,
        tenant_uid=uid,
        key_id=f"k{number % 30}",
        address="192.0.2.1",
        before={"message_ttl_s": number},
        after={"message_ttl_s": number + 1},
    )
