"""Corrections, credit notes and credits together: over all documents nothing is charged or given back twice."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from messaging.errors import PreconditionFailed
from tenants.access import platform_actor
from tenants.models import Tenant
from tests.support.billing.billing_rows import APRIL, GIB, HOUR, MARCH, MAY, PLAN, tenant_of, use, with_plan
from workers.billing import actions, drafts
from workers.billing.models import Charge, Credit, Invoice, MonthCharge
from workers.rating.money import minor_of
from workers.rating.verify import verify
from workers.tasks.billing import close_month

pytestmark = pytest.mark.django_db
CLOSE = APRIL + timedelta(hours=72)
LINE = "bytes_in@2026-03-01T00"


@pytest.fixture
def acme(db: None) -> Tenant:
    """6 GiB in March, which cost 3.00 above the 29.00 that each month costs."""
    tenant = tenant_of()
    with_plan(tenant)
    use(tenant, MARCH, bytes_in=6 * GIB)
    return tenant


def close(tenant: Tenant, start: Any, now: Any) -> Invoice:
    drafts.refresh(tenant, start, now)
    [number] = close_month(tenant, start, now, lambda: None)
    return Invoice.unscoped.get(number=number)


def take_back(invoice: Invoice, amounts: Mapping[str, str] | None = None) -> dict[str, Any]:
    return actions.take_back(platform_actor(), "acme", invoice.pk, amounts, "it was wrong", CLOSE).document


def corrections(tenant: Tenant, start: Any = APRIL) -> list[str]:
    draft = drafts.refresh(tenant, start, MAY + 40 * 24 * HOUR)
    assert draft is not None
    return [line["amount"] for line in draft.document["lines"] if line["kind"] == "adjustment"]


def test_late_usage_does_not_give_back_an_amount_that_a_note_took_back(acme: Tenant) -> None:
    take_back(close(acme, MARCH, CLOSE))
    use(acme, MARCH, "run-late", bytes_in=2 * GIB)
    assert corrections(acme) == []
    use(acme, MARCH, "run-later", bytes_in=8 * GIB)  # 4.00: what is more than what was taken back is charged
    actions.set_issuer(platform_actor(), {}, 0)
    use(acme, APRIL)
    assert corrections(acme) == ["1.00"]


def test_a_part_that_was_taken_back_counts_towards_what_less_usage_gives_back(acme: Tenant) -> None:
    take_back(close(acme, MARCH, CLOSE), {LINE: "1.00"})
    use(acme, MARCH, "run-late", bytes_in=5 * GIB)  # 2.50 is more than the 2.00 that are charged
    assert corrections(acme) == []
    use(acme, MARCH, "run-later", bytes_in=3 * GIB)
    assert corrections(acme) == ["-0.50"]


def test_a_note_does_not_take_back_an_amount_that_late_usage_gave_back(acme: Tenant) -> None:
    march = close(acme, MARCH, CLOSE)
    use(acme, MARCH, "run-late", bytes_in=2 * GIB)
    april = close(acme, APRIL, MAY)
    assert april.document["subtotal"] == "27.00"
    with pytest.raises(PreconditionFailed, match=r"1\.00 EUR are left"):
        take_back(march, {LINE: "1.01"})
    assert take_back(march)["total"] == "-30.00"  # 32.00 less the 2.00 on the next invoice
    assert corrections(acme, MAY) == []


def test_a_correction_whose_invoice_is_taken_back_is_due_again(acme: Tenant) -> None:
    close(acme, MARCH, CLOSE)
    use(acme, MARCH, "run-late", bytes_in=2 * GIB)
    april = close(acme, APRIL, MAY)
    assert take_back(april)["total"] == "-27.00"
    assert corrections(acme, MAY) == ["-2.00"]


def test_notes_in_parts_give_back_credit_as_credit_and_no_more_tax_than_was_charged(acme: Tenant) -> None:
    """Each part was money, and its tax was rounded for itself."""
    actor = platform_actor()
    actions.set_account(actor, "acme", {"tax_label": "VAT", "tax_rate": "7.7"})
    actions.grant_credit(actor, "acme", "Welcome", "EUR", "30.00", None)
    march = close(acme, MARCH, CLOSE)
    assert (march.document["subtotal"], march.document["tax"]["amount"], march.document["total"]) == ("32.00", "0.15", "2.15")
    notes = [take_back(march, {LINE: "0.25"}) for _ in range(12)]
    notes.append(take_back(march, {"base_fee@2026-03-01T00": "29.00"}))
    assert notes[0]["credits"][0]["amount"] == "-0.23" and notes[0]["total"] == "-0.02"

    def summed(amounts: list[str]) -> int:
        return sum(minor_of(amount, "EUR", "amount") for amount in amounts)

    assert summed([note["total"] for note in notes]) == -215
    assert summed([note["tax"]["amount"] for note in notes]) == -15
    assert summed([credit["amount"] for note in notes for credit in note["credits"]]) == -3000


def test_no_more_is_taken_back_than_the_whole_invoice_with_its_corrections(acme: Tenant) -> None:
    close(acme, MARCH, CLOSE)
    use(acme, MARCH, "run-late")
    april = close(acme, APRIL, MAY)
    assert april.document["subtotal"] == "26.00"
    with pytest.raises(PreconditionFailed, match=r"26\.00 EUR are left to take back of the whole"):
        take_back(april, {"base_fee@2026-04-01T00": "29.00"})


def test_an_invoice_below_zero_is_not_taken_back(acme: Tenant) -> None:
    use(acme, MARCH + HOUR, "run-1", bytes_in=200 * GIB)
    close(acme, MARCH, CLOSE)
    use(acme, MARCH + HOUR, "run-late")
    april = close(acme, APRIL, MAY)
    assert april.document["total"] == "0.00" and Credit.unscoped.get().amount_minor == -minor_of(
        april.document["subtotal"], "EUR", ""
    )
    with pytest.raises(PreconditionFailed):
        take_back(april)


def test_a_correction_keeps_the_currency_of_its_invoice(acme: Tenant) -> None:
    """9.00 EUR became 900 JPY."""
    yen = {**PLAN, "plan": "yen", "currency": "JPY", "base_fee": "3000", "prices": []}
    with_plan(acme, yen, APRIL)
    use(acme, MARCH, "run-1", bytes_in=30 * GIB)  # 5.00 and 20 at 0.30
    march = close(acme, MARCH, CLOSE)
    use(acme, MARCH, "run-late", bytes_in=4 * GIB)
    drafts.refresh(acme, APRIL, MAY)
    assert len(close_month(acme, APRIL, MAY, lambda: None)) == 2
    april, correction = (Invoice.unscoped.get(start=APRIL, currency=code) for code in ("JPY", "EUR"))
    assert (april.document["total"], [line["kind"] for line in april.document["lines"]]) == ("3000", ["base_fee"])
    assert (correction.document["total"], correction.document["credits"]) == ("-9.00", [])  # paid: no later invoice is in EUR
    assert [line["of_invoice"] for line in correction.document["lines"]] == [march.number]
    assert verify(correction.document, []).agrees
    for table in (Charge, MonthCharge):
        assert sorted(table.unscoped.filter(day=APRIL.date()).values_list("currency", "nano")) == [
            ("EUR", -9 * 10**9),
            ("JPY", 3000 * 10**9),
        ]
    drafts.refresh(acme, MAY, MAY + HOUR)
    assert not Invoice.unscoped.filter(start=MAY, currency="EUR").exists()


def test_a_correction_that_is_no_more_leaves_no_draft_in_its_currency(acme: Tenant) -> None:
    with_plan(acme, {**PLAN, "plan": "yen", "currency": "JPY"}, APRIL)
    close(acme, MARCH, CLOSE)
    use(acme, MARCH, "run-late")
    drafts.refresh(acme, APRIL, MAY)
    assert Invoice.unscoped.filter(start=APRIL).count() == 2
    use(acme, MARCH, "run-later", bytes_in=6 * GIB)
    drafts.refresh(acme, APRIL, MAY)
    assert Invoice.unscoped.filter(start=APRIL).count() == 1
    assert not Charge.unscoped.filter(day=APRIL.date(), currency="EUR").exists()
