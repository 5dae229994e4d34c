"""Budgets, reports, estimates and savings over our API, as each person has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings as django_settings

from messaging.adminrpc.methods import POLICIES_PREVIEW, TOPICS_FIGURES
from messaging.adminrpc.policies import PolicyEffectFound, PolicyPreview, PolicyPreviewAnswer
from messaging.adminrpc.topics import Stats
from tenants.access import platform_actor
from tenants.models import AuditRecord, Tenant
from tests.support.billing.billing_rows import GIB, HOUR, MARCH, PLAN, run_of, use, with_plan
from tests.tenants.world import World
from workers.billing.actions import publish_plan
from workers.billing.budget_models import Budget, Report, ReportSchedule
from workers.billing.budgets import check
from workers.billing.drafts import refresh
from workers.billing.reports import make_due

A = "/api/v1/tenants/acme"
OTHER = "/api/v1/tenants/other"
TENTH = MARCH + timedelta(days=10)
UNREAD = "persistent://acme/orders/new"
BUDGET = {"name": "All", "amount": "50.00", "currency": "EUR", "emails": ["boss@acme.example"]}
SCHEDULE = {"name": "Daily", "every": "day", "by": "topic"}


@pytest.fixture
def acme(world: World) -> Any:
    """Ten days of 10 GiB in a topic whose subscription takes nothing: 61.00 with the fees."""
    tenant = Tenant.unscoped.get(name="acme")
    with_plan(tenant)
    for day in range(10):
        use(tenant, MARCH + day * 24 * HOUR, bytes_in=10 * GIB, messages_in=1, backlog_entry_seconds=1)
    refresh(tenant, MARCH, TENTH)
    with time_machine.travel(TENTH + HOUR, tick=False):
        yield tenant


def test_a_budget_is_made_changed_told_and_deleted(acme: Tenant, caller: Any) -> None:
    owner = caller("olga")
    made = owner("POST", f"{A}/budgets", BUDGET)
    assert made.status_code == 201, made.content
    at = f"{A}/budgets/{made.json()['id']}"
    assert made.json() == owner("GET", at).json() == owner("GET", f"{A}/budgets").json()["items"][0]
    assert (made.json()["amount"], made.json()["thresholds"]) == ("50.00", [50, 80, 100])
    check(Budget.unscoped.get(), datetime.now(UTC))
    told = owner("GET", f"{at}/alerts").json()["items"]
    assert {(one["month"], one["threshold"], one["likely"], one["amount"]) for one in told if not one["likely"]} == {
        ("2026-03-01", threshold, False, "61.00") for threshold in (50, 80, 100)
    }
    changed = owner("PATCH", at, {"amount": "60.00", "thresholds": [100]})
    assert changed.status_code == 200 and (changed.json()["amount"], changed.json()["emails"]) == ("60.00", ["boss@acme.example"])
    assert owner("GET", f"{at}/alerts").json()["items"] == []
    assert len(check(Budget.unscoped.get(), datetime.now(UTC))) == 2  # of the new amount, each once
    assert check(Budget.unscoped.get(), datetime.now(UTC)) == []
    owner("PATCH", at, {"name": "Everything"})
    assert check(Budget.unscoped.get(), datetime.now(UTC)) == []  # it is the same amount
    assert owner("DELETE", at).status_code == 204 and owner("GET", at).status_code == 404
    found = {one.action: one for one in AuditRecord.unscoped.filter(action__startswith="budget.").order_by("-id")}
    assert (found["budget.create"].after or {})["amount"] == "50.00"
    update = found["budget.update"]
    assert update.before is not None and update.after is not None
    assert (update.before["amount"], update.after["amount"]) == ("50.00", "60.00")
    assert (found["budget.delete"].before or {})["name"] == "Everything"


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount": "0"}, {"currency": "XXX"}, {"amount": "1.001"}, {"namespace": "other/things"}, {"thresholds": [0]},
        {"thresholds": []}, {"emails": ["nobody"]}, {"colour": "red"},
    ],
)  # fmt: skip
def test_a_budget_that_is_wrong_is_neither_made_nor_changed(acme: Tenant, caller: Any, wrong: dict[str, Any]) -> None:
    owner = caller("olga")
    made = owner("POST", f"{A}/budgets", BUDGET).json()
    assert owner("POST", f"{A}/budgets", {**BUDGET, **wrong}).status_code == 400
    assert owner("PATCH", f"{A}/budgets/{made['id']}", wrong).status_code == 400
    assert owner("GET", f"{A}/budgets").json()["items"] == [made]


def test_a_report_is_scheduled_made_and_downloaded(acme: Tenant, caller: Any) -> None:
    owner = caller("olga")
    made = owner("POST", f"{A}/report-schedules", SCHEDULE)
    assert made.status_code == 201, made.content
    at = f"{A}/report-schedules/{made.json()['id']}"
    assert owner("PATCH", at, {"by": "meter", "emails": ["boss@acme.example"]}).json()["by"] == "meter"
    assert owner("PATCH", at, {"by": "colour"}).status_code == 400
    run_of("run-after", TENTH)
    [report] = make_due(django_settings.MAGNETAR, ReportSchedule.unscoped.get(), TENTH + HOUR, TENTH.date())
    [listed] = owner("GET", f"{A}/reports").json()["items"]
    assert listed == owner("GET", f"{A}/reports/{report.pk}").json()
    assert (listed["first"], listed["schedule"], listed["runs"]) == ("2026-03-10", made.json()["id"], ["run-1"])
    kinds = {}
    for file in listed["files"]:
        answer = owner("GET", f"{A}/reports/{report.pk}/files/{file['name']}")
        assert len(b"".join(answer.streaming_content)) == file["bytes"]
        assert answer["Content-Disposition"] == f'attachment; filename="2026-03-10-{file["name"]}"'
        kinds[file["name"]] = answer["Content-Type"]
    assert kinds == {
        "report.csv": "text/csv",
        "report.json": "application/json",
        "report.parquet": "application/vnd.apache.parquet",
        "report.html": "text/html",
    }
    for name in ("passwd", "..", "%2e%2e%2fx"):
        assert owner("GET", f"{A}/reports/{report.pk}/files/{name}").status_code == 404
    assert owner("DELETE", at).status_code == 204
    assert owner("GET", f"{A}/reports/{report.pk}").json()["schedule"] is None


def test_what_is_of_one_tenant_is_of_no_other(acme: Tenant, caller: Any) -> None:
    """By ids that were found out, in the stranger's own tenant."""
    owner, stranger = caller("olga"), caller("sam")
    budget = owner("POST", f"{A}/budgets", BUDGET).json()["id"]
    schedule = owner("POST", f"{A}/report-schedules", SCHEDULE).json()["id"]
    run_of("run-after", TENTH)
    [report] = make_due(django_settings.MAGNETAR, ReportSchedule.unscoped.get(), TENTH + HOUR, TENTH.date())
    budgets, schedules, reports = f"budgets/{budget}", f"report-schedules/{schedule}", f"reports/{report.pk}"
    reading = [("GET", one) for one in (budgets, f"{budgets}/alerts", schedules, reports, f"{reports}/files/report.csv")]
    changing = [(method, one) for method in ("PATCH", "DELETE") for one in (budgets, schedules)]
    for method, path in (*reading, *changing):
        assert stranger(method, f"{OTHER}/{path}", {} if method == "PATCH" else None).status_code == 404, (method, path)
        assert stranger(method, f"{A}/{path}", {} if method == "PATCH" else None).status_code == 404, (method, path)
    for path in ("budgets", "report-schedules", "reports"):
        assert stranger("GET", f"{OTHER}/{path}").json()["items"] == []
        assert caller("tom")("GET", f"{A}/{path}").status_code == 403
    assert Budget.unscoped.count() == ReportSchedule.unscoped.count() == Report.unscoped.count() == 1


def test_the_running_month_another_retention_and_savings(acme: Tenant, world: World, caller: Any) -> None:
    teammate = caller("tom")
    estimate = teammate("GET", f"{A}/estimate").json()
    assert estimate == {
        "currency": "EUR", "so_far": "61.00", "likely": "128.20", "low": "128.20", "high": "128.20", "days": 10,
        "computed_until": "2026-03-10T01:00:00Z",
    }  # fmt: skip
    assert teammate("GET", f"{A}/estimate?namespace=acme/none").json()["likely"] == "0.00"
    what_if = teammate("GET", f"{A}/what-if?retention_days=7&namespace=acme/orders").json()
    assert (what_if["now"], what_if["then"], what_if["stored_byte_seconds_then"]) == ("61.00", "61.00", 700 * GIB * 86_400)
    for wrong in ("", "retention_days=-1", "retention_days=3651", "retention_days=x", "retention_days=1&namespace=%00"):
        assert teammate("GET", f"{A}/what-if?{wrong}").status_code == 400
    assert caller("sam")("GET", f"{OTHER}/what-if?retention_days=1").status_code == 412  # no price plan
    expected = {"topic": UNREAD, "kind": "waiting", "cost": "32.00", "currency": "EUR", "messages_out": 0}

    def savings() -> list[dict[str, Any]]:
        items = teammate("GET", f"{A}/savings").json()["items"]
        return [{name: item[name] for name in (*expected, "subscriptions")} for item in items]

    assert savings() == [{**expected, "subscriptions": []}]  # the topic is gone
    world.broker.add(UNREAD, "idle", "done")
    world.broker.publish(UNREAD, b"waits")
    world.broker.run(world.broker.service.topics.loaded[UNREAD].subscriptions.delete("done"))
    assert savings() == [{**expected, "subscriptions": ["idle"]}]
    world.line.cut()
    assert savings() == [{**expected, "subscriptions": []}]


def test_what_retention_keeps_beyond_what_anybody_reads_is_told_with_its_part_of_the_storage(
    acme: Tenant, world: World, caller: Any
) -> None:
    topic = "persistent://acme/orders/kept"
    prices = [*PLAN["prices"], {"meter": "stored_byte_seconds", "unit": "GiB-month", "price": "1.00"}]
    document = {**PLAN, "version": 2, "prices": prices, "in_force_from": "2026-03-10T06:00:00Z"}
    publish_plan(platform_actor(), document, TENTH - 20 * HOUR)
    stored = 10 * GIB * 730 * 3600
    use(acme, TENTH - HOUR, "run-9", topic="orders/kept", messages_out=1, stored_byte_seconds=stored)
    refresh(acme, MARCH, TENTH)
    world.broker.add(topic, "s")
    asked = []

    def previewed(request: PolicyPreview) -> PolicyPreviewAnswer:
        asked.append(request)
        effect = PolicyEffectFound(policy="retention_time_min", topic=topic, affected=3 * GIB, sentence="")
        return PolicyPreviewAnswer(effects=[effect], effects_count=1, topics_looked_at=1, topics_left_out=0)

    world.line.divert(POLICIES_PREVIEW, previewed)
    world.line.divert(TOPICS_FIGURES, lambda request: Stats(stats={"storageSize": 4 * GIB, "subscriptions": {}}))
    (found,) = [each for each in caller("tom")("GET", f"{A}/savings").json()["items"] if each["kind"] == "retention"]
    assert (found["topic"], found["kept_bytes"], found["stored_bytes"], found["cost"]) == (topic, 3 * GIB, 4 * GIB, "7.50")
    assert asked[0].policies == {"retention_time_min": 0, "retention_size_mb": 0}
