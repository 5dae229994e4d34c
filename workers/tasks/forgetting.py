"""Deletes what is too old: runs of tasks, versions of usage hours that a newer one replaced, reports, and notices.

Invoices, credit notes and their charges are never deleted here, nor what they were made of."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import ProtectedError

from spark_jobs.config import inputs_path, quarantine_directory, run_directory
from tenants import idempotency
from tenants.models import HistorySeries, Recycled, Tenant
from tenants.scoping import platform_scope
from workers.alerts.models import AlertRule, MailUsage, Notice, NotificationTarget
from workers.billing.budget_models import Report
from workers.billing.models import Invoice
from workers.billing.reports import folder_of, forget_unnamed
from workers.detail_models import UsageDetail
from workers.environment import Environment
from workers.models import TaskRun, UsageRun
from workers.redrive.models import RedriveJob

A_DELETE = 1_000
DOCUMENTS_A_READ = 50
DETAILS_DAYS_MIN = 70  # a month, and the days in which it is closed
UNNAMED_FOR = timedelta(days=1)  # longer than a report takes
Outcome = TaskRun.Outcome


def forget_old(environment: Environment, task_id: str, renew: Callable[[], None]) -> dict[str, Any]:
    """What waits for an administrator stays. Safe to run twice, and to kill: the row goes when its files are gone."""
    return {
        "task_runs": _task_runs(environment, renew),
        "usage_details": _usage_details(environment, renew),
        "usage_runs": _usage_runs(environment, renew),
        "reports": _reports(environment, renew),
        "notices": _notices(environment, renew),
        "redrives": _redrives(environment, renew),
        "idempotency_keys": _idempotency_keys(environment, renew),
        "of_former_tenants": _of_former_tenants(renew),
    }


def _usage_details(environment: Environment, renew: Callable[[], None]) -> int:
    """The parts of hours by subscription and key: costs by them are in the charges of their month, and the files of runs have
    them."""
    oldest = environment.now() - timedelta(days=max(DETAILS_DAYS_MIN, environment.settings.usage_versions_kept_days))
    forgotten = 0
    with platform_scope():
        while ids := list(UsageDetail.versions.filter(hour__lt=oldest).values_list("pk", flat=True)[:A_DELETE]):
            renew()
            forgotten += UsageDetail.versions.filter(pk__in=ids).delete()[0]
    return forgotten


def _task_runs(environment: Environment, renew: Callable[[], None]) -> int:
    oldest = environment.now() - timedelta(days=environment.settings.task_history_days)
    waiting = (Outcome.QUARANTINED, Outcome.QUEUED, Outcome.RETRYING, Outcome.RUNNING)
    old = TaskRun.objects.filter(started_at__lt=oldest).exclude(outcome__in=waiting)
    forgotten = 0
    while ids := list(old.values_list("task_id", flat=True)[:A_DELETE]):
        renew()
        forgotten += TaskRun.objects.filter(task_id__in=ids).delete()[0]
    return forgotten


def _usage_runs(environment: Environment, renew: Callable[[], None]) -> int:
    """Runs of which no hour is in force."""
    oldest = environment.now() - timedelta(days=environment.settings.usage_versions_kept_days)
    old = UsageRun.objects.filter(requested_at__lt=oldest, partitions=None, usage=None)
    kept = _invoiced_runs(set(old.values_list("run_id", flat=True)))
    folder = environment.settings.data_path.absolute() / "usage" / "hours"
    forgotten = 0
    for run_id in old.values_list("run_id", flat=True):
        renew()
        if run_id in kept:
            continue
        with suppress(ProtectedError), transaction.atomic():  # or something names it
            forgotten += UsageRun.objects.filter(run_id=run_id).delete()[1].get("workers.UsageRun", 0)
            for directory in (run_directory(folder, run_id), quarantine_directory(folder, run_id)):
                shutil.rmtree(directory, ignore_errors=True)
            inputs_path(folder, run_id).unlink(missing_ok=True)
    return forgotten


def _reports(environment: Environment, renew: Callable[[], None]) -> int:
    """With their files, which go first. A schedule does not make one again: it knows up to which day it has made them."""
    oldest = environment.now() - timedelta(days=environment.settings.reports_kept_days)
    with platform_scope():
        old = list(Report.objects.filter(made_at__lt=oldest).order_by("made_at").values_list("id", flat=True))
    for report_id in old:
        renew()
        shutil.rmtree(folder_of(environment.settings, report_id), ignore_errors=True)
        with platform_scope():
            Report.objects.filter(id=report_id).delete()
    forget_unnamed(environment.settings, environment.now() - UNNAMED_FOR)
    return len(old)


def _notices(environment: Environment, renew: Callable[[], None]) -> int:
    """And the counts of mails of those days."""
    oldest = environment.now() - timedelta(days=environment.settings.notices_kept_days)
    forgotten = 0
    with platform_scope():
        while ids := list(Notice.objects.filter(at__lt=oldest).values_list("id", flat=True)[:A_DELETE]):
            renew()
            forgotten += Notice.objects.filter(id__in=ids).delete()[1].get("workers.Notice", 0)
        MailUsage.objects.filter(day__lt=oldest.date()).delete()
    return forgotten


def _redrives(environment: Environment, renew: Callable[[], None]) -> int:
    """With their outcomes."""
    oldest = environment.now() - timedelta(days=environment.settings.task_history_days)
    with platform_scope():
        old = RedriveJob.objects.exclude(state__in=(RedriveJob.State.RUNNING, RedriveJob.State.PAUSED)).filter(
            created_at__lt=oldest
        )
        return _deleted(old, RedriveJob, renew)


def _idempotency_keys(environment: Environment, renew: Callable[[], None]) -> int:
    """Those that nobody uses any more: whoever does forgets old ones in passing."""
    forgotten = 0
    while deleted := idempotency.forget(environment.now(), A_DELETE):
        renew()
        forgotten += deleted
    return forgotten


def _of_former_tenants(renew: Callable[[], None]) -> int:
    """What nobody can see any more. Invoices stay, and what they were made of."""
    with platform_scope():
        known = ["", *Tenant.objects.values_list("uid", flat=True), *Recycled.objects.values_list("tenant_uid", flat=True)]
        models = (RedriveJob, AlertRule, Notice, NotificationTarget, MailUsage, HistorySeries)
        return sum(_deleted(model.objects.exclude(tenant_uid__in=known), model, renew) for model in models)


def _deleted(rows: Any, model: Any, renew: Callable[[], None]) -> int:
    """How many there were. A job takes its outcomes with it, so they go one after the other."""
    ids = list(rows.values_list("pk", flat=True))
    for row_id in ids:
        renew()
        model.objects.filter(pk=row_id).delete()
    return len(ids)


def _invoiced_runs(old: set[str]) -> set[str]:
    """Those of them that final invoices were made of, hours and corrections: whoever doubts one may ask for its files."""
    kept: set[str] = set()
    with platform_scope():
        documents = Invoice.objects.filter(state=Invoice.State.FINAL).values_list("document", flat=True)
        for document in documents.iterator(DOCUMENTS_A_READ) if old else ():
            kept |= old.intersection(hour["run"] for hour in document.get("hours", ()))
            kept |= old.intersection(run for line in document.get("lines", ()) for run in line.get("runs", ()))
    return kept
