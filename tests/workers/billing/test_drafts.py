"""Drafts: from usage and plan to an invoice and its charges, again and again, each tenant its own."""

from __future__ import annotations

import io
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from arro3.io import read_parquet
from django.db.models import Sum

from tests.support.billing.billing_rows import APRIL, GIB, HOUR, MARCH, PLAN, tenant_of, use, with_plan
from workers.billing import drafts, drilldown, usage
from workers.billing.attribution import by_part
from workers.billing.budget_models import Report
from workers.billing.budgets import month_ahead
from workers.billing.charge_rows import write_charges
from workers.billing.costs import DAY, MONTH, Question, ask, cells_of, totals_by_currency
from workers.billing.models import NANO, BillingAccount, Charge, HourDigest, Invoice
from workers.billing.reports import contents_of
from workers.environment import Stopping
from workers.rating.verify import verify

pytestmark = pytest.mark.django_db
LATER = APRIL + timedelta(hours=80)


def amounts(invoice: Invoice | None) -> dict[str, str]:
    assert invoice is not None
    return {line["id"]: line["amount"] for line in invoice.document["lines"]}


def test_a_draft_by_hand() -> None:
    acme = tenant_of()
    with_plan(acme)
    use(acme, MARCH, bytes_in=8 * GIB, messages_in=3_000_000)
    use(acme, MARCH + 30 * HOUR, topic="sensors/heat", bytes_in=4 * GIB)
    use(acme, APRIL, bytes_in=100 * GIB)
    invoice = drafts.refresh(acme, MARCH, LATER)
    assert amounts(invoice) == {
        "base_fee@2026-03-01T00": "29.00", "bytes_in@2026-03-01T00": "5.60", "messages_in@2026-03-01T00": "0.80",
    }  # fmt: skip
    assert invoice is not None and invoice.document["total"] == "35.40" and invoice.total_minor == 3540
    line = next(line for line in invoice.document["lines"] if line.get("meter") == "bytes_in")
    assert [(share["namespace"], share["amount"]) for share in line["namespaces"]] == [
        ("acme/orders", "3.73"),
        ("acme/sensors", "1.87"),
    ]
    assert len(invoice.document["hours"]) == 2 and len(invoice.document["hours_missing"]) == 31 * 24 - 2
    assert verify(invoice.document, usage.rows_between(acme.uid, MARCH, APRIL)).agrees


def test_charges_sum_to_the_lines() -> None:
    acme = tenant_of()
    with_plan(acme)
    for day in range(31):
        for name in ("orders/a", "orders/b", "sensors/heat"):
            use(acme, MARCH + day * 24 * HOUR, topic=name, bytes_in=GIB // (day + 3), messages_in=777_777, bytes_out=5)
    invoice = drafts.refresh(acme, MARCH, LATER)
    by_meter: dict[str, int] = defaultdict(int)
    for meter, nano in Charge.unscoped.values_list("meter").annotate(Sum("nano")).order_by():
        by_meter[meter] = nano
    assert invoice is not None
    for line in invoice.document["lines"]:
        minor = int(line["amount"].replace(".", ""))
        assert by_meter[line.get("meter", line["kind"])] == minor * NANO // 100
    assert by_meter["bytes_out"] == 0 and Charge.unscoped.filter(meter="bytes_out").exists()  # without a price, but used


def test_a_draft_follows_usage_and_is_left_alone_otherwise() -> None:
    acme = tenant_of()
    with_plan(acme)
    use(acme, MARCH, bytes_in=GIB)
    first = drafts.refresh(acme, MARCH, LATER)
    again = drafts.refresh(acme, MARCH, LATER + HOUR)
    assert first is not None and again is not None and again.pk == first.pk and again.made_at == first.made_at == LATER
    use(acme, MARCH, "run-2", bytes_in=2 * GIB)
    assert amounts(drafts.refresh(acme, MARCH, LATER + HOUR))["bytes_in@2026-03-01T00"] == "1.00"
    use(acme, MARCH, "run-3", bytes_in=0)
    assert "bytes_in@2026-03-01T00" not in amounts(drafts.refresh(acme, MARCH, LATER + HOUR))
    assert Invoice.unscoped.count() == 1


def test_a_refresh_that_is_stopped_changes_nothing_and_the_next_does_it() -> None:
    acme = tenant_of()
    with_plan(acme)
    use(acme, MARCH, bytes_in=GIB)
    use(acme, MARCH + HOUR, bytes_in=GIB)
    for stop_at in range(1, 4):
        calls = 0

        def renew(stop_at: int = stop_at) -> None:
            nonlocal calls
            calls += 1
            if calls == stop_at:
                raise Stopping("the worker is ending")

        with pytest.raises(Stopping):
            drafts.refresh(acme, MARCH, LATER, renew)
        assert not Invoice.unscoped.exists() and not Charge.unscoped.exists()
    assert amounts(drafts.refresh(acme, MARCH, LATER))["bytes_in@2026-03-01T00"] == "1.00"


def test_a_version_that_comes_into_force_in_the_middle_of_a_month() -> None:
    acme = tenant_of()
    with_plan(acme)
    with_plan(acme, {**PLAN, "version": 2, "in_force_from": "2026-03-16T12:00:00Z", "base_fee": "62.00"}, MARCH)
    use(acme, MARCH + (15 * 24 + 11) * HOUR, bytes_in=GIB)
    use(acme, MARCH + (15 * 24 + 12) * HOUR, bytes_in=3 * GIB)
    charged = amounts(drafts.refresh(acme, MARCH, LATER))
    assert charged["bytes_in@2026-03-01T00"] == "0.50" and charged["bytes_in@2026-03-16T12"] == "1.50"
    assert charged["base_fee@2026-03-01T00"] == "14.50" and charged["base_fee@2026-03-16T12"] == "31.00"


def test_tenants_do_not_mix_and_a_new_tenant_of_an_old_name_owes_nothing() -> None:
    acme, globex = tenant_of("acme"), tenant_of("globex")
    with_plan(acme)
    use(acme, MARCH, bytes_in=GIB)
    use(globex, MARCH, bytes_in=50 * GIB)
    assert amounts(drafts.refresh(acme, MARCH, LATER))["bytes_in@2026-03-01T00"] == "0.50"
    assert drafts.refresh(globex, MARCH, LATER) is None  # no plan; its usage is charged with nothing
    assert Charge.unscoped.filter(series__tenant_uid=globex.uid, nano=0, quantity=50 * GIB).exists()
    former = acme.uid
    acme.delete()
    successor = tenant_of("acme")
    assert successor.uid != former and drafts.refresh(successor, MARCH, LATER) is None
    assert not Invoice.unscoped.filter(tenant_uid=successor.uid).exists()


def test_a_draft_names_who_pays() -> None:
    acme = tenant_of()
    with_plan(acme)
    BillingAccount.unscoped.create(
        tenant="acme",
        tenant_uid=acme.uid,
        details={"name": "Acme GmbH", "address": "Weg 1\nBerlin"},
        tax_label="VAT",
        tax_rate="19",
    )
    invoice = drafts.refresh(acme, MARCH, LATER)
    assert invoice is not None and invoice.document["customer"]["name"] == "Acme GmbH"
    assert invoice.document["tax"] == {"label": "VAT", "rate": "19", "amount": "5.51"} and invoice.document["total"] == "34.51"


def test_only_charges_that_changed_are_written() -> None:
    """Each run wrote all charges of the month anew."""
    acme = tenant_of()
    with_plan(acme)
    for index in range(3):
        use(acme, MARCH + index * 24 * HOUR, topic=f"orders/t{index}", bytes_in=GIB, bytes_out=5)
    drafts.refresh(acme, MARCH, LATER)
    segments = drafts.segments_between(acme.uid, MARCH, APRIL)

    def charges() -> dict[Any, Any]:
        return by_part(acme.uid, drafts.charges_of(drafts.rate_month(acme.uid, MARCH, APRIL, segments), []))

    def rows() -> dict[tuple[str, Any, str], list[int]]:
        charges = Charge.unscoped.values_list("series__topic", "day", "meter", "pk", "quantity", "nano")
        return {(topic, day, meter): values for topic, day, meter, *values in charges}

    before = rows()
    assert write_charges(acme, MARCH, {"EUR": charges()}) == 0 and rows() == before
    use(acme, MARCH, "run-2", topic="orders/t0", bytes_in=GIB, bytes_out=7)
    use(acme, MARCH + 24 * HOUR, "run-2", topic="orders/t1", bytes_in=GIB)
    use(acme, MARCH + 24 * HOUR, "run-2", topic="orders/new", bytes_out=1)
    # t0 and t1 for the day and the month, the new topic for both
    assert write_charges(acme, MARCH, {"EUR": charges()}) == 6
    after = rows()
    changed = {key for key in before | after if before.get(key) != after.get(key)}
    assert changed == {
        (f"persistent://acme/orders/{name}", (MARCH + day * 24 * HOUR).date(), "bytes_out")
        for name, day in (("t0", 0), ("t1", 1), ("new", 1))
    }
    assert drafts.refresh(acme, MARCH, LATER) is not None and rows() == after
    assert write_charges(acme, MARCH, {"USD": charges()}) == len(after) * 4  # of one month each, deleted and written


def test_a_line_is_taken_apart_without_reading_its_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a price changes in the middle of a day; what was billed is told, whatever was computed since."""
    acme = tenant_of()
    with_plan(acme)
    with_plan(acme, {**PLAN, "version": 2, "in_force_from": "2026-03-02T12:00:00Z"}, MARCH)
    for hour in (0, 24, 35, 36, 48):
        for index in range(3):
            use(acme, MARCH + hour * HOUR, topic=f"orders/t{index}", bytes_in=(index + 1) * GIB)
    invoice = drafts.refresh(acme, MARCH, LATER)
    assert invoice is not None
    first, second = "bytes_in@2026-03-01T00", "bytes_in@2026-03-02T12"
    expected = {line: drilldown.usage_of_line(invoice, line) for line in (first, second)}
    assert [hour["hour"][8:13] for hour in expected[first]["hours"]] == ["01T00", "02T00", "02T11"]
    assert [hour["hour"][8:13] for hour in expected[second]["hours"]] == ["02T12", "03T00"]
    for line, times in ((first, 3), (second, 2)):
        quantities = {topic["topic"][-2:]: topic["quantity"] for topic in expected[line]["topics"]}
        assert quantities == {"t0": times * GIB, "t1": 2 * times * GIB, "t2": 3 * times * GIB}
        billed = next(billed_line for billed_line in invoice.document["lines"] if billed_line["id"] == line)
        assert sum(Decimal(topic["amount"]) for topic in expected[line]["topics"]) == Decimal(billed["amount"])
        assert sum(hour["quantity"] for hour in expected[line]["hours"]) == billed["quantity"]
    HourDigest.unscoped.filter(hour=MARCH).update(quantities=None)  # of an earlier release
    assert drilldown.usage_of_line(invoice, first) == expected[first]
    monkeypatch.setattr(usage, "rows_between", None)
    monkeypatch.setattr(usage, "totals_of_hours", None)
    assert drilldown.usage_of_line(invoice, second) == expected[second]


def test_costs_of_all_tenants_may_have_more_than_64_bits() -> None:
    """One tenant's charges, each of which can be booked, made the sum of all tenants fail."""
    tenants = [tenant_of("acme"), tenant_of("globex")]
    fee = {**PLAN, "base_fee": "9000000000", "prices": []}
    for tenant in tenants:
        with_plan(tenant, {**fee, "plan": tenant.name})
        drafts.refresh(tenant, MARCH, LATER)
    question = Question([tenant.uid for tenant in tenants], MARCH.date(), APRIL.date() - timedelta(days=1), "tenant", MONTH, "EUR")
    assert ask(question).total == 18 * 10**18 and totals_by_currency(question) == {"EUR": 18 * 10**18}
    assert sum(nano for _, _, _, nano, _ in cells_of(question)) == 18 * 10**18
    assert month_ahead(tenants[0].uid, "EUR", MARCH).so_far == 9 * 10**18


def test_more_byte_seconds_than_64_bits_hold_are_exact() -> None:
    """A hundred terabytes for a month: one tenant's must not end everybody's billing, and no page may fail to add them up."""
    tenant = tenant_of()
    with_plan(tenant)
    byte_seconds = 2**62 + 1  # of one topic and day; here in one hour of it
    for day in range(3):
        use(tenant, MARCH + 24 * day * HOUR, stored_byte_seconds=byte_seconds)
        use(tenant, MARCH + 24 * day * HOUR, topic="orders/old", stored_byte_seconds=byte_seconds)
    drafts.refresh(tenant, MARCH, MARCH + 80 * HOUR)
    month = Question([tenant.uid], MARCH.date(), APRIL.date() - timedelta(days=1), "namespace", MONTH, "EUR")
    for question in (month, replace(month, step=DAY)):
        assert ask(question).quantities["acme/orders"]["stored_byte_seconds"] == 6 * byte_seconds
        assert sum(quantity for *_, meter, _, quantity in cells_of(question) if meter == "stored_byte_seconds") == 6 * byte_seconds
    report = Report(name="r", tenant=tenant.name, by="namespace", first=month.first, last=month.last, made_at=APRIL, runs=[])
    (batch,) = read_parquet(io.BytesIO(contents_of(report, month)["report.parquet"]))
    assert str(6 * byte_seconds) in batch["quantity"].to_pylist()
