"""Budgets, the month ahead, reports and usage runs in the console."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.conf import settings as django_settings

from tenants.models import Tenant
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import Browse, text
from tests.support.billing.billing_rows import GIB, HOUR, MARCH, run_of, use, with_plan
from workers.billing.budget_models import Budget, Report, ReportSchedule
from workers.billing.drafts import refresh
from workers.billing.reports import make_due
from workers.findings.models import UsageFinding
from workers.models import UsageRun
from workers.spend_caps.models import SpendCap

MINUTE = timedelta(minutes=1)
WHAT_IF = re.compile(r"a difference of [^.]*[.]\d+")
TENTH = MARCH + timedelta(days=10)
BUDGET = {"name": "All", "amount": "100.00", "currency": "EUR", "thresholds": "50, 80", "emails": "boss@acme.example"}


@pytest.fixture
def acme(world: ConsoleBroker) -> Tenant:
    """Ten days of 10 GiB in a topic that nobody reads: 61.00 with the fees."""
    tenant = Tenant.unscoped.get(name="acme")
    with_plan(tenant)
    for day in range(10):
        use(tenant, MARCH + day * 24 * HOUR, bytes_in=10 * GIB, messages_in=1)
    refresh(tenant, MARCH, TENTH)
    return tenant


@pytest.fixture(autouse=True)
def on_the_tenth(world: ConsoleBroker) -> object:
    with time_machine.travel(TENTH + HOUR, tick=False):
        yield


def test_a_budget_is_made_shown_and_deleted(acme: Tenant, browse: Browse) -> None:
    owner = browse("owner")
    assert owner.post("/tenants/acme/budgets", BUDGET)["Location"] == "/tenants/acme/budgets"
    shown = text(owner, "/tenants/acme/budgets")
    assert "61.00 (61 %)" in shown and "128.20 (128 %)" in shown and "boss@acme.example" in shown
    budget = Budget.unscoped.get()
    assert browse("stranger").post(f"/tenants/globex/budgets/{budget.pk}/delete").status_code == 404
    assert owner.post(f"/tenants/acme/budgets/{budget.pk}/delete").status_code == 302
    assert "No budgets yet" in text(owner, "/tenants/acme/budgets")


@pytest.mark.parametrize("wrong", [{"amount": "x"}, {"thresholds": "a"}, {"emails": "nobody"}, {"namespace": "globex/edge"}])
def test_a_budget_that_is_wrong_is_not_made(acme: Tenant, browse: Browse, wrong: dict[str, str]) -> None:
    assert browse("owner").post("/tenants/acme/budgets", {**BUDGET, **wrong}).status_code == 200
    assert not Budget.unscoped.exists()


CAP = {"set_by": "tenant", "amount": "50.00", "currency": "EUR", "action": "stop"}


def test_a_spend_cap_is_set_shown_and_removed(acme: Tenant, browse: Browse) -> None:
    owner, admin, page = browse("owner"), browse("superuser"), "/tenants/acme/spend-caps"
    assert "No spend cap" in text(owner, page) and "61.00 EUR, with usage up to" in text(owner, page)
    assert owner.post(page, CAP)["Location"] == page
    assert "Producers are refused: tenant acme has reached its spend cap of 50.00 EUR" in text(owner, page)
    assert "A spend cap is reached: producers are refused." in text(owner, "/tenants/acme/ceilings")
    throttle = {**CAP, "set_by": "platform", "action": "throttle", "tenant_publish_rate_messages": "5"}
    assert owner.post(page, throttle).status_code == 200 and not SpendCap.unscoped.filter(set_by="platform").exists()
    assert admin.post(page, throttle).status_code == 302
    assert "throttled to tenant_publish_rate_messages = 5 a second" in text(owner, page)
    assert "magnetar spend-caps set 9.00 EUR --action stop --tenant acme" in text(
        owner, page, calls="yes", **{**CAP, "amount": "9.00"}
    )
    assert owner.post(page, {"remove": "platform"}).status_code == 302 and SpendCap.unscoped.count() == 2
    assert owner.post(page, {"remove": "tenant"}).status_code == 302 and SpendCap.unscoped.count() == 1
    assert browse("teammate").get(page).status_code == 403 and browse("stranger").get(page).status_code == 404
    assert owner.post(page, {**CAP, "amount": "x"}).status_code == 200


def test_the_month_ahead_and_what_could_be_saved(acme: Tenant, browse: Browse) -> None:
    page = text(browse("teammate"), "/tenants/acme/month")
    assert "61.00 EUR" in page and "128.20 EUR" in page and "Messages come in that nobody reads." in page
    assert "stored on average." in page and "/tenants/acme/namespaces/orders/topics/new" in page, (
        "what it rests on, and where it is fixed"
    )
    page = text(browse("owner"), "/tenants/acme/month", days="7", namespace="acme/orders")
    assert "61.00 EUR" in page and "a difference of 0.00 EUR" in page
    short = text(browse("owner"), "/tenants/acme/month", days="7", namespace="orders")  # as the page lists it
    assert WHAT_IF.findall(short) == WHAT_IF.findall(page) and "policies?policy=retention" in short
    assert "There is no namespace acme/absent" in text(browse("owner"), "/tenants/acme/month", days="7", namespace="absent")
    assert "Days are a number" in text(browse("owner"), "/tenants/acme/month", days="x")
    assert "No price plan is in force" in text(browse("stranger"), "/tenants/globex/month", days="7")


def test_on_the_first_day_there_is_no_forecast(world: ConsoleBroker, browse: Browse) -> None:
    tenant = Tenant.unscoped.get(name="acme")
    with_plan(tenant)
    use(tenant, MARCH, bytes_in=10 * GIB)
    with time_machine.travel(MARCH + 2 * HOUR, tick=False):
        refresh(tenant, MARCH, MARCH + 2 * HOUR)
        budget = {**BUDGET, "amount": "1.00"}
        assert browse("owner").post("/tenants/acme/budgets", budget).status_code == 302
        for path in ("month", "budgets"):
            page = text(browse("owner"), f"/tenants/acme/{path}")
            assert "no whole day yet" in page and " and 34.00" not in page and " to 34.00" not in page
        answer = browse("owner").get("/api/v1/tenants/acme/estimate").json()
    assert answer | {"computed_until": ""} == {
        "currency": "EUR", "so_far": "34.00", "likely": None, "low": None, "high": None, "days": 0, "computed_until": "",
    }  # fmt: skip


def test_another_retention_is_rated_with_the_plan_in_force_now(world: ConsoleBroker, browse: Browse) -> None:
    """A plan that a tenant got today was not found: none was in force at midnight."""
    tenant = Tenant.unscoped.get(name="acme")
    with_plan(tenant, starts_at=TENTH + HOUR)
    with time_machine.travel(TENTH + 90 * MINUTE, tick=False):
        assert "a difference of" in text(browse("owner"), "/tenants/acme/month", days="7")


def test_a_report_is_put_on_schedule_and_downloaded(acme: Tenant, browse: Browse) -> None:
    owner = browse("owner")
    given = {"name": "Daily", "every": "day", "by": "topic", "emails": ""}
    assert owner.post("/tenants/acme/reports", given)["Location"] == "/tenants/acme/reports"
    assert owner.post("/tenants/acme/reports", {**given, "by": "colour"}).status_code == 200
    schedule = ReportSchedule.unscoped.get()
    [report] = make_due(django_settings.MAGNETAR, schedule, TENTH + HOUR, TENTH.date())
    page = text(owner, "/tenants/acme/reports")
    assert "2026-03-10 to 2026-03-10" in page and "report.parquet" in page
    where = f"/tenants/acme/reports/{report.pk}"
    csv = owner.get(f"{where}/report.csv").content
    assert b"2026-03-10,persistent://acme/orders/new,bytes_in," in csv
    assert owner.get(f"{where}/passwd").status_code == 404
    assert browse("stranger").get(f"/tenants/globex/reports/{report.pk}/report.csv").status_code == 404
    assert browse("stranger").post(f"/tenants/globex/reports/{schedule.pk}/delete").status_code == 404
    assert owner.post(f"/tenants/acme/reports/{schedule.pk}/delete").status_code == 302
    assert Report.unscoped.get().schedule is None  # what was made stays


def test_runs_with_their_inputs_and_what_they_left_out(acme: Tenant, browse: Browse) -> None:
    run = run_of("run-1", MARCH)
    run.detail = {"files_read": 7, "rows_read": 70, "rejected_files": {"a.parquet": "cut"}}
    of_run = {
        "run": run,
        "hour": MARCH,
        "source": "broker-1",
        "boot_epoch": 1,
        "meter": "bytes_in",
        "topic": "persistent://acme/orders/t",
    }
    UsageFinding.unscoped.create(**of_run, kind="quarantined", reason="conflict", file="b.parquet", row=2, record={"value": 1})
    UsageFinding.unscoped.create(**of_run, kind="hole", first_missing=3, last_missing=5, until_at=MARCH)
    run.holes, run.message = 1, "look here"
    run.save()
    admin = browse("superuser")
    assert "run-1" in text(admin, "/usage/runs")
    page = text(admin, "/usage/runs/run-1")
    for said in (
        "files read by this run",
        "conflict",
        "b.parquet",
        "a.parquet",
        "bytes_in",
        "3 to 5",
        "unknown",
        "look here",
        "2026-03-01 00:00",
    ):
        assert said in page
    assert admin.get("/usage/runs/none").status_code == 404
    assert UsageRun.objects.count() == 1 and browse("owner").get("/usage/runs").status_code == 403
    assert datetime.now(UTC) > TENTH
