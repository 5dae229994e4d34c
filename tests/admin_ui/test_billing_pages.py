"""Price plans, who sends invoices, and how a tenant pays: forms of the console, what they refuse, and who may."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from tenants.models import AuditRecord, Tenant
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import Browse, text
from tests.support.billing.billing_rows import APRIL, GIB, MARCH, PLAN, use, with_plan
from workers.billing.actions import publish_plan
from workers.billing.drafts import refresh
from workers.billing.headers import account_of, issuer
from workers.billing.models import Credit, PlanAssignment, PricePlanVersion
from workers.models import TaskRun
from workers.rating.plan import plan_from

NOW = APRIL + timedelta(days=9)
FORM = {
    "plan": "team",
    "title": "Team",
    "currency": "EUR",
    "in_force_from": "2026-05-01 00:00",
    "base_fee": "10.00",
    "minimum": "100.00",
    "model-bytes_in": "graduated",
    "unit-bytes_in": "GiB",
    "included-bytes_in": "1",
    "tiers-bytes_in": "10 0.50\n\n above 0.30 1.00 ",
    "model-messages_in": "package",
    "unit-messages_in": "million messages",
    "package-messages_in": "5",
    "price-messages_in": "0.40",
    "model-bytes_out": "per_unit",
    "unit-bytes_out": "GiB",
    "price-bytes_out": "0.09",
}


@pytest.fixture
def acme(world: ConsoleBroker) -> Any:
    """12 GiB in March, by the standard plan."""
    tenant = Tenant.unscoped.get(name="acme")
    with_plan(tenant)
    use(tenant, MARCH, bytes_in=12 * GIB, messages_in=6_000_000)
    refresh(tenant, MARCH, APRIL)
    with time_machine.travel(NOW, tick=False):
        yield tenant


def test_a_plan_is_previewed_and_published(acme: Tenant, browse: Browse) -> None:
    admin = browse("superuser")
    page = admin.post("/new-price-plan", {**FORM, "what": "preview", "tenant": "acme"}).content.decode()
    # The fee; two packages; of 11 GiB beyond the included one 10 at 0.50, 1 at 0.30 and 1.00; and up to 100.00.
    assert "March 2026 of acme would have cost 100.00 EUR" in page and "its invoice says 36.60 EUR" in page
    assert re.findall(r'data-figure="price_plan.lines.amount">([0-9.]+) EUR', page) == ["10.00", "0.80", "6.30", "82.90"]
    assert not PricePlanVersion.objects.filter(plan="team").exists()
    assert not AuditRecord.unscoped.filter(action="price_plan.publish", role="user:superuser").exists()
    assert admin.post("/new-price-plan", {**FORM, "what": "publish"})["Location"] == "/price-plans"
    row = PricePlanVersion.objects.get(plan="team")
    version = plan_from(row.document)
    assert [(one.meter, one.model) for one in version.prices] == [
        ("messages_in", "package"), ("bytes_in", "graduated"), ("bytes_out", "per_unit"),
    ]  # fmt: skip
    assert (row.created_by, AuditRecord.unscoped.get(action="price_plan.publish", role="user:superuser").after) == (
        "user:superuser", row.document,
    )  # fmt: skip
    page = text(admin, "/price-plans")
    assert "To come" in page and "In force" in page


def test_a_new_version_begins_as_the_last_one(acme: Tenant, browse: Browse) -> None:
    admin = browse("superuser")
    admin.post("/new-price-plan", {**FORM, "what": "publish"})
    page = admin.get("/new-price-plan", {"plan": "team"})
    form = page.context["form"]
    assert "Version 2 of team" in page.content.decode()
    same = {name: form[name].value() or "" for name in form.fields}
    assert admin.post("/new-price-plan", {**same, "what": "publish", "in_force_from": "2026-06-01 00:00"}).status_code == 302
    first, second = PricePlanVersion.objects.filter(plan="team").order_by("version")
    assert second.document == {**first.document, "version": 2, "in_force_from": "2026-06-01T00:00Z"}
    backwards = admin.post("/new-price-plan", {**same, "what": "publish", "in_force_from": "2026-05-02 00:00"})
    assert "prices do not change backwards" in backwards.content.decode()


@pytest.mark.parametrize(
    ("wrong", "field", "said"),
    [
        ({"plan": "Team!"}, "plan", "is not a name of a plan"),
        ({"in_force_from": "2026-05-01 00:30"}, "in_force_from", "is not the start of an hour"),
        ({"base_fee": "ten"}, "base_fee", "is not a number"),
        ({"minimum": "-1"}, "minimum", "is not a number of 0 or more"),
        ({"price-bytes_out": ""}, "price-bytes_out", "Bytes delivered.price"),
        ({"package-messages_in": "0"}, "package-messages_in", "a package holds something"),
        ({"included-bytes_in": "0.0000000001"}, "included-bytes_in", "not a whole number of base units"),
        ({"tiers-bytes_in": "10 0.50"}, "tiers-bytes_in", "the last has none"),
        ({"tiers-bytes_in": "10 0.50 1 2\nabove 1"}, "tiers-bytes_in", "is not a number"),
        ({"tiers-bytes_in": "above"}, "tiers-bytes_in", "is not a number"),
        ({"unit-bytes_in": "message"}, "unit-bytes_in", "not one of the available choices"),
        ({"plan": "standard"}, "__all__", "must be in force from a later time"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said_at_its_field(
    acme: Tenant, browse: Browse, wrong: dict[str, str], field: str, said: str
) -> None:
    if wrong.get("plan") == "standard":
        wrong = {**wrong, "in_force_from": "2026-01-01 00:00"}
    page = browse("superuser").post("/new-price-plan", {**FORM, "what": "publish", **wrong})
    assert page.status_code == 200 and said in " ".join(page.context["form"].errors[field])
    assert "Nothing was published" in page.content.decode()
    assert PricePlanVersion.objects.count() == 1


def test_who_sends_invoices_is_changed(acme: Tenant, browse: Browse) -> None:
    admin = browse("superuser")
    given = {
        "name": "Magnetar Ltd",
        "address": "1 Street\nTown",
        "email": "pay@magnetar.example",
        "bank": "IBAN 1",
        "forgiven_minor": "50",
    }
    assert admin.post("/issuer", {**given, "forgiven_minor": "1000001"}).status_code == 200
    assert admin.post("/issuer", given).status_code == 302
    assert (issuer().details["bank"], issuer().forgiven_minor) == ("IBAN 1", 50)
    assert "Magnetar Ltd" in text(admin, "/issuer")
    assert (AuditRecord.unscoped.get(action="billing.issuer").after or {})["forgiven_minor"] == 50


def test_how_a_tenant_pays_is_seen_by_its_owner_and_changed_by_administrators(acme: Tenant, browse: Browse) -> None:
    admin, owner, where = browse("superuser"), browse("owner"), "/tenants/acme/billing"
    publish_plan_from("team", "2026-05-01T00:00Z", "EUR")
    assert admin.post(where, {"what": "plan", "plan-plan": "team", "plan-starts_at": "2026-05-01 00:00"}).status_code == 302
    account = {"name": "Acme GmbH", "address": "A\nB", "tax_label": "VAT", "tax_rate": "19", "payment_days": "14"}
    assert admin.post(where, {"what": "account", **{f"account-{name}": one for name, one in account.items()}}).status_code == 302
    credit = {"title": "Welcome", "amount": "5.00", "currency": "EUR", "expires": "2026-12-31"}
    assert admin.post(where, {"what": "credit", **{f"credit-{name}": one for name, one in credit.items()}}).status_code == 302
    assert set(PlanAssignment.unscoped.values_list("plan", flat=True)) == {"standard", "team"}
    held = account_of(acme.uid, "acme")
    assert (held.details["name"], held.payment_days, held.tax_rate) == ("Acme GmbH", 14, "19")
    assert Credit.unscoped.get().amount_minor == 500
    page = text(owner, where)
    for said in ("Acme GmbH", "VAT 19 %", "Welcome", "5.00 EUR", "2026-12-31", "2026-05-01 00:00"):
        assert said in page
    assert "Assign plan" not in page and "Assign plan" in text(admin, where)
    assert owner.post(where, {"what": "credit"}).status_code == 403 and browse("teammate").get(where).status_code == 403
    actions = set(AuditRecord.unscoped.filter(role="user:superuser", tenant="acme").values_list("action", flat=True))
    assert actions >= {"price_plan.assign", "billing.account", "billing.credit"} and "billing" not in actions


def test_a_plan_starts_this_hour_this_month_or_the_next(acme: Tenant, browse: Browse) -> None:
    admin, where = browse("superuser"), "/tenants/acme/billing"
    publish_plan_from("team", f"{NOW:%Y-%m}-01T00:00Z", "EUR")
    with time_machine.travel(NOW, tick=False):
        offered = dict(re.findall(r'<option value="(2026-[^"]+)"[^>]*>([^:]+): ', text(admin, where)))
        assert list(offered.values()) == ["the next month", "the start of this month", "this hour"]
        assert f'value="{next(iter(offered))}" selected' in text(admin, where), "what was offered before"
        for start in offered:
            assert admin.post(where, {"what": "plan", "plan-plan": "team", "plan-starts": start}).status_code == 302
    starts = {f"{at:%Y-%m-%d %H:%M}" for at in PlanAssignment.unscoped.filter(plan="team").values_list("starts_at", flat=True)}
    assert starts == {*offered}
    nothing = admin.post(where, {"what": "plan", "plan-plan": "team"}).content.decode()
    assert "Choose a time, or type another one." in nothing


def test_drafts_are_computed_now_and_the_page_says_how_far_they_are(acme: Tenant, browse: Browse) -> None:
    owner, where = browse("owner"), "/tenants/acme/invoices"
    assert "Compute drafts now" in text(owner, where) and "No drafts were computed yet." in text(owner, where)
    assert owner.post(f"{where}/compute")["Location"] == where
    page = text(owner, where)
    assert "Drafts are being computed." in page and 'hx-trigger="every 3s"' in page and "disabled" in page
    TaskRun.objects.update(outcome="succeeded", finished_at=datetime.now(UTC))
    assert "Drafts were computed" in text(owner, where)
    owner.post(f"{where}/compute")
    assert "ask again in" in text(owner, where).lower() and TaskRun.objects.count() == 1
    assert browse("teammate").post(f"{where}/compute").status_code == 403
    assert browse("stranger").post(f"{where}/compute").status_code == 404


def publish_plan_from(plan: str, at: str, currency: str) -> None:
    from tenants.access import platform_actor

    publish_plan(platform_actor(), {**PLAN, "plan": plan, "in_force_from": at, "currency": currency}, NOW)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"what": "plan", "plan-plan": "none", "plan-starts_at": "2026-05-01 00:00"}, "not one of the available choices"),
        ({"what": "plan", "plan-plan": "standard", "plan-starts_at": "2026-05-01 00:30"}, "not the start of an hour"),
        ({"what": "plan", "plan-plan": "abroad", "plan-starts_at": "2026-04-15 00:00"}, "the currencies EUR and USD"),
        ({"what": "account", "account-tax_rate": "101", "account-payment_days": "30"}, "above 100 per cent"),
        ({"what": "account", "account-tax_rate": "1", "account-payment_days": "366"}, "less than or equal to 365"),
        ({"what": "account", "account-email": "x", "account-tax_rate": "1", "account-payment_days": "3"}, "valid email"),
        ({"what": "credit", "credit-title": "t", "credit-amount": "0", "credit-currency": "EUR"}, "is not above 0"),
        ({"what": "credit", "credit-title": "t", "credit-amount": "0.001", "credit-currency": "EUR"}, "more than 2 digits"),
    ],
)
def test_what_is_wrong_with_an_account_changes_nothing(acme: Tenant, browse: Browse, given: dict[str, str], said: str) -> None:
    publish_plan_from("abroad", "2026-04-10T00:00Z", "USD")
    count = AuditRecord.unscoped.count()
    page = browse("superuser").post("/tenants/acme/billing", given)
    assert page.status_code == 200 and said in page.content.decode()
    assert (PlanAssignment.unscoped.count(), Credit.unscoped.count(), AuditRecord.unscoped.count()) == (1, 0, count)


def test_where_there_is_no_plan_one_is_made_first(world: ConsoleBroker, browse: Browse) -> None:
    """The form had a list with nothing in it."""
    page = browse("superuser").get("/tenants/acme/billing").content.decode()
    assert "No price plans yet" in page and 'href="/new-price-plan"' in page and 'value="plan"' not in page
