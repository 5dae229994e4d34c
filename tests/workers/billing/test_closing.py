"""The close of a month: final once, numbered without gaps, corrected by the next invoice or a credit note and never changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from messaging.errors import Conflict, InvalidValue, NotFound, PreconditionFailed
from messaging.settings import Settings
from tenants.access import platform_actor
from tenants.models import Tenant
from tests.support.billing.billing_rows import APRIL, GIB, HOUR, MARCH, MAY, PLAN, run_of, tenant_of, use, with_plan
from tests.support.brokers.worker_broker import WorkerBroker
from workers.billing import actions, closing, drafts
from workers.billing.models import Charge, Immutable, Invoice, Issuer, PlanAssignment
from workers.environment import Environment
from workers.tasks.billing import close_month, make_invoices

pytestmark = pytest.mark.django_db
CLOSE = APRIL + timedelta(hours=72)


def final_of_march(tenant: Tenant) -> Invoice:
    invoice = drafts.refresh(tenant, MARCH, CLOSE)
    assert invoice is not None
    return closing.finalize(invoice.pk, CLOSE)


@pytest.fixture
def acme(db: None) -> Tenant:
    tenant = tenant_of()
    with_plan(tenant)
    use(tenant, MARCH, bytes_in=2 * GIB)
    use(tenant, MARCH + HOUR, topic="sensors/heat", bytes_in=4 * GIB)
    return tenant


@pytest.fixture
def bill(settings_of: Callable[..., Settings], broker: WorkerBroker) -> Callable[..., dict[str, Any]]:
    def at(now: Any) -> dict[str, Any]:
        return make_invoices(Environment(settings_of(), broker, now=lambda: now), "task-1", lambda **progress: None)

    return at


def test_a_month_is_closed_when_late_usage_had_its_time_and_was_computed(acme: Tenant, bill: Callable[..., Any]) -> None:
    assert bill(CLOSE - HOUR)["closed"] == []
    assert bill(CLOSE)["closed"] == []  # no run began after the month's end
    run_of("run-after", APRIL + HOUR)
    assert bill(CLOSE)["closed"] == ["2026-000001"]
    assert bill(CLOSE)["closed"] == []
    march = Invoice.unscoped.get(number="2026-000001")
    assert march.state == "final" and march.document["state"] == "final" and march.document["due"] == "2026-05-04"
    assert Invoice.unscoped.filter(start=APRIL, state="draft").count() == 1


def test_a_tenant_whose_plan_cannot_be_used_does_not_hold_up_others(acme: Tenant, bill: Callable[..., Any]) -> None:
    broken = tenant_of("broken")
    with_plan(broken, {**PLAN, "plan": "dollars", "currency": "USD"}, APRIL + HOUR)
    PlanAssignment.unscoped.create(tenant="broken", tenant_uid=broken.uid, plan="standard", starts_at=APRIL)
    run_of("run-after", APRIL + HOUR)
    done = bill(CLOSE)
    assert done["closed"] == ["2026-000001"] and "EUR and USD" in done["failed"]["broken"]


def test_a_final_invoice_cannot_be_changed(acme: Tenant) -> None:
    invoice = final_of_march(acme)
    before = invoice.document
    invoice.document = {**before, "total": "0.00"}
    with pytest.raises(Immutable):
        invoice.save()
    with pytest.raises(Immutable):
        invoice.delete()
    use(acme, MARCH, "run-late", bytes_in=9 * GIB)
    assert drafts.refresh(acme, MARCH, MAY) == invoice
    assert Invoice.unscoped.get(pk=invoice.pk).document == before


def test_late_usage_stands_on_the_next_invoice_once(acme: Tenant) -> None:
    march = final_of_march(acme)
    use(acme, MARCH, "run-late", bytes_in=8 * GIB)
    april = drafts.refresh(acme, APRIL, MAY)
    assert april is not None
    [line] = [line for line in april.document["lines"] if line["kind"] == "adjustment"]
    # 12 GiB instead of 6: 10 at 0.50 and 2 at 0.30, less the 3.00 that were billed
    assert (line["amount"], line["of_invoice"], line["runs"]) == ("2.60", march.number, ["run-late"])
    assert line["start"] == "2026-03-01T00:00:00Z"
    assert Charge.unscoped.get(meter="adjustment").nano == 2_600_000_000
    closing.finalize(april.pk, MAY)
    may = drafts.refresh(acme, MAY, MAY + HOUR)
    assert may is not None and not [line for line in may.document["lines"] if line["kind"] == "adjustment"]
    use(acme, MARCH, "run-later", bytes_in=2 * GIB)
    may = drafts.refresh(acme, MAY, MAY + HOUR)
    assert may is not None and [line["amount"] for line in may.document["lines"] if line["kind"] == "adjustment"] == ["-2.60"]


def test_a_little_late_usage_is_forgiven(acme: Tenant) -> None:
    Issuer.objects.create(pk=1, forgiven_minor=50)
    final_of_march(acme)
    use(acme, MARCH, "run-late", bytes_in=3 * GIB)  # 0.50 more
    april = drafts.refresh(acme, APRIL, MAY)
    assert april is not None and [line["kind"] for line in april.document["lines"]] == ["base_fee"]
    use(acme, MARCH, "run-later", bytes_in=GIB)  # 0.50 less: that is the customer's
    april = drafts.refresh(acme, APRIL, MAY)
    assert april is not None and [line["amount"] for line in april.document["lines"]] == ["29.00", "-0.50"]


def test_a_credit_note_takes_back_a_whole_invoice_and_gives_back_its_credit(acme: Tenant) -> None:
    actor = platform_actor()
    actions.set_account(actor, "acme", {"tax_label": "VAT", "tax_rate": "19"})
    actions.grant_credit(actor, "acme", "Welcome", "EUR", "10.00", None)
    march = final_of_march(acme)
    assert (march.document["subtotal"], march.document["total"]) == ("32.00", "26.18")
    note = actions.take_back(actor, "acme", march.pk, None, "Sent to the wrong company", CLOSE)
    assert (note.number, note.document["of_invoice"], note.document["total"]) == ("2026-000002", march.number, "-26.18")
    april = drafts.refresh(acme, APRIL, MAY)
    assert april is not None and april.document["credits"][0]["amount"] == "10.00"
    with pytest.raises(PreconditionFailed, match="taken back before"):
        actions.take_back(actor, "acme", march.pk, None, "again", CLOSE)
    with pytest.raises(PreconditionFailed):
        actions.take_back(actor, "acme", note.pk, None, "a note of a note", CLOSE)


def test_a_credit_note_takes_back_no_more_than_there_is(acme: Tenant) -> None:
    actor, march = platform_actor(), final_of_march(acme)
    line = "bytes_in@2026-03-01T00"
    part = actions.take_back(actor, "acme", march.pk, {line: "2.50"}, "An outage", CLOSE)
    assert part.document["total"] == "-2.50" and [line["id"] for line in part.document["lines"]] == [line]
    with pytest.raises(PreconditionFailed, match=r"0\.50 EUR are left"):
        actions.take_back(actor, "acme", march.pk, {line: "0.51"}, "more", CLOSE)
    with pytest.raises(NotFound):
        actions.take_back(actor, "acme", march.pk, {"support@2026-03-01T00": "1.00"}, "more", CLOSE)
    with pytest.raises(InvalidValue):
        actions.take_back(actor, "acme", march.pk, {line: "0.001"}, "more", CLOSE)
    assert Issuer.objects.get().numbered == 2  # what was refused has no number
    draft = drafts.refresh(acme, APRIL, MAY)
    assert draft is not None
    with pytest.raises(PreconditionFailed):
        actions.take_back(actor, "acme", draft.pk, None, "a draft", CLOSE)


def test_a_credit_pays_for_the_month_on_whose_last_day_it_expires(acme: Tenant) -> None:
    """It never did: it was looked at on the first of the next month."""
    last_day = (APRIL - HOUR).date()
    actions.grant_credit(platform_actor(), "acme", "Welcome", "EUR", "10.00", last_day)
    actions.grant_credit(platform_actor(), "acme", "Earlier", "EUR", "10.00", last_day - timedelta(days=1))
    assert [(credit["title"], credit["amount"]) for credit in final_of_march(acme).document["credits"]] == [("Welcome", "10.00")]


def test_credits_are_used_up_over_months_and_expire(acme: Tenant) -> None:
    actions.grant_credit(platform_actor(), "acme", "Welcome", "EUR", "40.00", None)
    assert final_of_march(acme).document["credits"][0]["amount"] == "32.00"
    april = drafts.refresh(acme, APRIL, MAY)
    assert april is not None and (april.document["credits"][0]["amount"], april.document["total"]) == ("8.00", "21.00")


def test_prices_do_not_change_backwards(acme: Tenant) -> None:
    actor = platform_actor()
    second = {**PLAN, "version": 2, "in_force_from": "2026-04-01T00:00:00Z"}
    with pytest.raises(Conflict, match="the next version"):
        actions.publish_plan(actor, {**second, "version": 3}, MARCH)
    with pytest.raises(Conflict, match="backwards"):
        actions.publish_plan(actor, second, APRIL + HOUR)
    with pytest.raises(Conflict, match="in EUR"):
        actions.publish_plan(actor, {**second, "currency": "USD"}, MARCH)
    with pytest.raises(InvalidValue, match="prices"):
        actions.publish_plan(actor, {**second, "prices": 1}, MARCH)
    actions.publish_plan(actor, second, MARCH)
    final_of_march(acme)
    with pytest.raises(Conflict, match="final invoice"):
        actions.assign_plan(actor, "acme", "standard", MARCH + HOUR)
    with pytest.raises(NotFound):
        actions.assign_plan(actor, "acme", "none", MAY)


def test_a_credit_is_not_used_twice_by_two_months_that_close_together(acme: Tenant, bill: Callable[..., Any]) -> None:
    actions.grant_credit(platform_actor(), "acme", "Welcome", "EUR", "40.00", None)
    use(acme, APRIL, "run-april")
    assert bill(APRIL + HOUR)["drafts"] == 2
    run_of("run-after", MAY + HOUR)
    assert bill(MAY + timedelta(hours=72))["closed"] == ["2026-000001", "2026-000002"]
    used = [invoice.document["credits"][0]["amount"] for invoice in Invoice.unscoped.filter(state="final").order_by("start")]
    assert used == ["32.00", "8.00"]


def test_an_amount_below_zero_is_a_credit_for_the_next_invoice(acme: Tenant) -> None:
    use(acme, MARCH + 2 * HOUR, "run-1", bytes_in=200 * GIB)
    final_of_march(acme)
    use(acme, MARCH + 2 * HOUR, "run-late", bytes_in=0)
    april = drafts.refresh(acme, APRIL, MAY)
    assert april is not None and (april.document["subtotal"], april.document["total"]) == ("-31.80", "0.00")  # 29.00 less 60.80
    assert [(credit["id"], credit["amount"]) for credit in april.document["credits"]] == [("carried_over", "-31.80")]
    closing.finalize(april.pk, MAY)
    may = drafts.refresh(acme, MAY, MAY + HOUR)
    assert may is not None and (may.document["credits"][0]["amount"], may.document["total"]) == ("29.00", "0.00")


def test_the_last_invoice_of_a_deleted_tenant_pays_out_what_is_below_zero(acme: Tenant) -> None:
    """No later invoice would use a credit."""
    use(acme, APRIL)
    final_of_march(acme)
    use(acme, MARCH + HOUR, "run-late", topic="sensors/heat")
    use(acme, MARCH, "run-late")
    PlanAssignment.unscoped.filter(starts_at=MARCH).update(plan="free")
    free = {**PLAN, "plan": "free", "base_fee": "0"}
    actions.publish_plan(platform_actor(), free, now=MARCH)
    former = Tenant(name=acme.name, uid=acme.uid)
    acme.delete()
    april = drafts.refresh(former, APRIL, MAY)
    assert april is not None and (april.document["total"], april.document["credits"]) == ("-3.00", [])


def test_months_without_usage_are_closed(db: None, bill: Callable[..., Any]) -> None:
    """They stayed drafts for good, and held up every later correction."""
    acme = tenant_of()
    with_plan(acme)
    bill(MARCH + HOUR)
    run_of("run-after", MAY + HOUR)
    assert bill(MAY + timedelta(hours=72))["closed"] == ["2026-000001", "2026-000002"]
    assert [invoice.document["total"] for invoice in Invoice.unscoped.filter(state="final").order_by("start")] == ["29.00", "29.00"]


def test_a_month_without_usage_before_the_first_usage_does_not_hold_up_corrections(bill: Callable[..., Any], db: None) -> None:
    acme = tenant_of()
    with_plan(acme)
    bill(MARCH + HOUR)
    use(acme, APRIL, bytes_in=2 * GIB)
    run_of("run-after", MAY + HOUR)
    assert bill(MAY + timedelta(hours=72))["closed"] == ["2026-000001", "2026-000002"]
    use(acme, APRIL, "run-late", bytes_in=12 * GIB)
    bill(MAY + timedelta(hours=73))
    may = Invoice.unscoped.get(state="draft")
    assert [line["amount"] for line in may.document["lines"] if line["kind"] == "adjustment"] == ["4.60"]


def test_a_draft_of_a_tenant_that_was_deleted_is_closed(db: None, bill: Callable[..., Any]) -> None:
    acme = tenant_of()
    with_plan(acme)
    bill(MARCH + HOUR)
    acme.delete()
    run_of("run-after", APRIL + HOUR)
    assert bill(CLOSE)["closed"] == ["2026-000001"]
    assert bill(MAY)["drafts"] == 0  # nothing is begun after it left


def test_a_price_that_makes_more_than_can_be_booked_stops_one_tenant_alone(acme: Tenant, bill: Callable[..., Any]) -> None:
    """A price per byte that was meant per GiB: the database refused the number, and the task ended."""
    dear = tenant_of("a-dear-one")
    prices = [{"meter": "bytes_in", "unit": "byte", "price": "12.50"}]
    with_plan(dear, {**PLAN, "plan": "per-byte", "prices": prices}, MARCH)
    use(dear, MARCH, bytes_in=GIB)
    run_of("run-after", APRIL + HOUR)
    done = bill(CLOSE)
    assert done["closed"] == ["2026-000001"] and done["failures"] == 1
    assert "bytes_in of persistent://a-dear-one/orders/new in 2026-03 would cost 13,421,772,800 EUR" in done["failed"]["a-dear-one"]
    assert not Invoice.unscoped.filter(tenant="a-dear-one").exists()


def test_an_error_in_the_bill_of_a_tenant_holds_up_no_other(
    acme: Tenant, bill: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tenant_of("broken")
    with_plan(broken, {**PLAN, "plan": "other"})
    real = drafts.rate_month

    def rate_month(tenant_uid: str, *others: Any) -> Any:
        if tenant_uid == broken.uid:
            raise ZeroDivisionError("a bug")
        return real(tenant_uid, *others)

    monkeypatch.setattr(drafts, "rate_month", rate_month)
    run_of("run-after", APRIL + HOUR)
    done = bill(CLOSE)
    assert done["closed"] == ["2026-000001"] and done["failed"] == {"broken": "ZeroDivisionError: a bug"}


def test_a_final_invoice_says_how_many_hours_were_missing_when_it_was_closed(db: None, bill: Callable[..., Any]) -> None:
    """The draft was made in the month's first minute, and nothing of it changed after that."""
    acme = tenant_of()
    with_plan(acme)
    bill(MARCH)
    run_of("run-after", APRIL + HOUR)
    bill(CLOSE)
    assert len(Invoice.unscoped.get(number="2026-000001").document["hours_missing"]) == 31 * 24


def test_a_credit_note_made_while_a_month_is_closed_counts(acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft was computed before the note, and became final as it was."""
    march = final_of_march(acme)
    use(acme, MARCH, "run-late")
    use(acme, MARCH + HOUR, "run-late", topic="sensors/heat")
    draft = drafts.refresh(acme, APRIL, MAY)
    assert draft is not None and draft.document["total"] == "26.00"
    actions.take_back(platform_actor(), "acme", march.pk, None, "all wrong", MAY)
    [number] = close_month(acme, APRIL, MAY, lambda: None)
    assert Invoice.unscoped.get(number=number).document["total"] == "29.00"


def test_the_last_month_of_a_deleted_tenant_is_billed(acme: Tenant, bill: Callable[..., Any]) -> None:
    acme.delete()
    run_of("run-after", MAY + HOUR)
    assert bill(MAY + timedelta(hours=72))["closed"] == ["2026-000001"]
    assert Invoice.unscoped.get().document["customer"]["tenant"] == "acme"
    tenant_of("acme")  # another one of that name
    assert bill(MAY + timedelta(hours=73))["closed"] == []


@pytest.mark.parametrize(
    "given", [{"payment_days": 366}, {"payment_days": -1}, {"tax_label": "x" * 41}, {"details": {"name": "x" * 1001}}]
)
def test_terms_of_payment_have_bounds_for_every_caller(acme: Tenant, given: dict[str, Any]) -> None:
    """They were held by the API alone."""
    with pytest.raises(InvalidValue, match=next(iter(given))):
        actions.set_account(platform_actor(), "acme", given)


def test_forgiven_amounts_and_credits_have_bounds_for_every_caller(acme: Tenant) -> None:
    actor = platform_actor()
    for wrong in (1_000_001, -1):
        with pytest.raises(InvalidValue, match="forgiven_minor"):
            actions.set_issuer(actor, {}, wrong)
    with pytest.raises(InvalidValue, match="too large"):
        actions.grant_credit(actor, "acme", "Welcome", "EUR", "9" * 18, None)
    assert not Issuer.objects.exists()
