"""Budgets are told once, to whom their tenant says, within the mails of a day; what is old is forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest
from django.core import mail

from messaging.settings import Settings
from tenants.access import platform_actor
from tenants.models import Tenant
from tests.support.billing.billing_rows import GIB, HOUR, MARCH, run_of, tenant_of, use, with_plan
from tests.support.brokers.worker_broker import WorkerBroker
from workers.alerts import webhooks
from workers.alerts.models import MailUsage, Notice, NotificationTarget
from workers.billing import budget_actions, reports
from workers.billing.budget_models import Report, ReportSchedule, SpendAlert
from workers.billing.closing import finalize
from workers.billing.drafts import refresh
from workers.billing.models import Invoice
from workers.environment import Environment
from workers.models import UsageRun
from workers.tasks.forgetting import forget_old

pytestmark = pytest.mark.django_db
Work = Callable[..., dict[str, Any]]
TENTH = MARCH + timedelta(days=10)


def test_a_budget_is_told_of_once_a_threshold(acme: Tenant, work: Work) -> None:
    actor = platform_actor()
    budget_actions.create_budget(actor, "acme", "All", "100.00", "EUR", emails=["boss@acme.example"])
    budget_actions.create_budget(actor, "acme", "Orders", "1000.00", "EUR", namespace="acme/orders")
    assert work(TENTH)["alerts"] == 4
    alerts = {(alert.threshold, alert.likely, delivered(alert)) for alert in SpendAlert.objects.all()}
    assert alerts == {(50, False, "mailed to 1"), (50, True, "mailed to 1"), (80, True, "mailed to 1"), (100, True, "mailed to 1")}
    assert [message.to for message in mail.outbox] == [["boss@acme.example"]] * 4
    assert sum("March 2026 has cost 61.00 EUR" in str(message.body) for message in mail.outbox) == 1
    assert work(TENTH)["alerts"] == 0
    for day in range(10, 20):
        use(acme, MARCH + day * 24 * HOUR, bytes_in=10 * GIB)
    refresh(acme, MARCH, TENTH + 10 * 24 * HOUR)
    assert work(TENTH + 10 * 24 * HOUR)["alerts"] == 1  # 80 % by what was spent


def test_a_budget_is_not_told_of_what_is_likely_before_there_is_a_whole_day(db: None, work: Work) -> None:
    tenant = tenant_of()
    with_plan(tenant)
    use(tenant, MARCH, bytes_in=100 * GIB)
    now = MARCH + 2 * HOUR
    refresh(tenant, MARCH, now)
    budget = budget_actions.create_budget(platform_actor(), "acme", "All", "100.00", "EUR", thresholds=[50, 100])
    assert work(now)["alerts"] == 1  # it was spent
    assert [(alert.threshold, alert.likely) for alert in budget.alerts.all()] == [(50, False)]


def test_without_a_mail_server_an_alert_says_so(acme: Tenant, work: Work) -> None:
    budget_actions.create_budget(platform_actor(), "acme", "All", "50.00", "EUR", thresholds=[100], emails=["boss@acme.example"])
    work(TENTH, smtp_url="")
    assert {delivered(alert) for alert in SpendAlert.objects.all()} == {"no mail was sent: smtp_url is not set"}
    assert mail.outbox == [] and not MailUsage.unscoped.exists()


def test_a_budget_is_told_to_the_webhook_and_to_all_addresses_once(
    acme: Tenant, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted: list[dict[str, Any]] = []

    def post(url: str, secret: str, notice_id: str, body: bytes, *_: object) -> int:
        posted.append({"url": url, "secret": secret, **json.loads(body)})
        return 204

    monkeypatch.setattr(webhooks, "post", post)
    target = {"webhook_url": "https://hook.example/in", "secret": "s3cret", "mail_to": ["ops@acme.example", "boss@acme.example"]}
    NotificationTarget.unscoped.create(tenant="acme", tenant_uid=acme.uid, **target)
    budget = budget_actions.create_budget(
        platform_actor(), "acme", "All", "50.00", "EUR", thresholds=[100], emails=["boss@acme.example"]
    )
    work(TENTH)
    work(TENTH + HOUR)
    assert [(post["url"], post["secret"], post["kind"], post["tenant"]) for post in posted] == [
        ("https://hook.example/in", "s3cret", "budget", "acme")
    ] * 2
    assert sorted(post["title"] for post in posted) == ["Budget 'All': 100 %", "Budget 'All': 100 % likely"]
    assert [message.to for message in mail.outbox] == [["boss@acme.example", "ops@acme.example"]] * 2
    assert {notice.kind for notice in Notice.unscoped.all()} == {"budget"}
    assert delivered(budget.alerts.get(likely=False), "webhook") == "answered 204"


def test_mails_of_a_day_are_limited_and_the_next_day_they_are_sent_again(acme: Tenant, work: Work) -> None:
    for name in ("a", "b"):
        budget_actions.create_budget(
            platform_actor(), "acme", name, "50.00", "EUR", thresholds=[90, 100], emails=["boss@acme.example", "ops@acme.example"]
        )
    work(TENTH, tenant_mails_per_day_max=5)  # 8 notices to 2 people each
    assert len(mail.outbox) == 2
    row = MailUsage.unscoped.get()
    assert (row.sent, row.refused) == (4, 12)
    said = [notice.text for notice in Notice.unscoped.filter(kind="mail_limit")]
    assert len(said) == 1 and "its limit of 5 mails" in said[0]
    assert [delivered(alert) for alert in SpendAlert.objects.all()].count(
        "no mail was sent: the limit of 5 mails a day is reached"
    ) == 6
    budget_actions.create_schedule(platform_actor(), "acme", "Daily", "day", "topic", ["boss@acme.example"], date(2026, 3, 10))
    run_of("run-after", TENTH)
    work(TENTH, tenant_mails_per_day_max=4)
    assert Report.unscoped.get().delivered == "no mail was sent: the limit of 4 mails a day is reached"
    run_of("run-later", TENTH + 24 * HOUR)
    work(TENTH + 24 * HOUR, tenant_mails_per_day_max=4)
    assert {report.first.day: report.delivered for report in Report.unscoped.all()}[10] == "mailed to 1"


def test_old_reports_and_notices_are_forgotten_and_invoices_are_not(
    acme: Tenant, work: Work, settings_of: Callable[..., Settings], broker: WorkerBroker
) -> None:
    budget_actions.create_budget(platform_actor(), "acme", "All", "50.00", "EUR", thresholds=[100])
    budget_actions.create_schedule(platform_actor(), "acme", "Daily", "day", "topic", [], date(2026, 3, 9))
    run_of("run-after", TENTH)
    work(TENTH)
    run_of("run-later", TENTH + 48 * HOUR)
    work(TENTH + 48 * HOUR)
    first, *others = Report.unscoped.order_by("first")
    Report.unscoped.filter(id=first.id).update(made_at=TENTH - timedelta(days=401))
    Notice.unscoped.update(at=TENTH - timedelta(days=91))
    finalize(Invoice.unscoped.get().pk, TENTH)
    settings = settings_of()
    done = forget_old(Environment(settings, broker, now=lambda: TENTH), "task-2", lambda: None)
    assert (done["reports"], done["notices"]) == (1, 2)
    assert not reports.folder_of(settings, first.pk).exists()
    assert all((reports.folder_of(settings, report.pk) / "report.csv").exists() for report in others)
    assert {report.pk for report in Report.unscoped.all()} == {report.pk for report in others}
    assert SpendAlert.objects.count() == 2 and Invoice.unscoped.get().number and ReportSchedule.unscoped.get().reports.count() == 3
    assert work(TENTH + 48 * HOUR) == {"budgets": 1, "alerts": 0, "reports": 0}  # what was told or made is neither again


def test_runs_that_a_final_invoice_names_are_kept(acme: Tenant, settings_of: Callable[..., Settings], broker: WorkerBroker) -> None:
    """Only those of corrections were; those of its hours went as soon as newer ones had replaced them."""
    finalize(Invoice.unscoped.get().pk, TENTH)
    run_of("run-unused", MARCH)
    for day in range(10):
        use(acme, MARCH + day * 24 * HOUR, "run-newer")
    later = TENTH + timedelta(days=500)
    done = forget_old(Environment(settings_of(), broker, now=lambda: later), "task-1", lambda: None)
    assert done["usage_runs"] == 1
    assert set(UsageRun.objects.values_list("run_id", flat=True)) == {"run-1", "run-newer"}


def delivered(alert: SpendAlert, channel: str = "mail") -> str:
    assert alert.notice is not None
    return str(alert.notice.delivered.get(channel, ""))
