"""A bill computed by hand from what can be downloaded, for each kind of price and for currencies of 2, 0 and 3 digits."""

from __future__ import annotations

import csv
from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from math import ceil
from typing import Any

import pytest

from admin_ui import cost_files
from tests.support.billing.billing_rows import APRIL, GIB, HOUR, MARCH, tenant_of, use, with_plan
from workers.billing.costs import Question
from workers.billing.drafts import refresh
from workers.billing.present import present
from workers.billing.usage_lines import usage_lines

pytestmark = pytest.mark.django_db
DIGITS = {"EUR": 2, "JPY": 0, "KWD": 3}
FEE = 29
TIERS = [{"up_to": "10", "price": "5"}, {"price": "3", "flat": "2"}]
PRICES: list[dict[str, Any]] = [
    {"meter": "messages_in", "unit": "million messages", "price": "7", "included": "1"},
    {"meter": "bytes_in", "unit": "GiB", "model": "graduated", "tiers": TIERS},
    {"meter": "bytes_out", "unit": "GiB", "model": "volume", "tiers": TIERS},
    {"meter": "messages_out", "unit": "million messages", "model": "package", "package": "5", "price": "11"},
]


def due(used: dict[str, int]) -> dict[str, Fraction]:
    """As the plan says it in words."""
    gib_in, gib_out = (Fraction(used[meter], GIB) for meter in ("bytes_in", "bytes_out"))
    return {
        "messages_in": max(Fraction(0), Fraction(used["messages_in"], 10**6) - 1) * 7,
        "bytes_in": gib_in * 5 if gib_in <= 10 else 10 * 5 + 2 + (gib_in - 10) * 3,
        "bytes_out": gib_out * 5 if gib_out <= 10 else 2 + gib_out * 3,
        "messages_out": Fraction(ceil(Fraction(used["messages_out"], 5 * 10**6)) * 11),
    }


def rounded(amount: Fraction, currency: str) -> Decimal:
    exact = Decimal(amount.numerator) / Decimal(amount.denominator)
    return exact.quantize(Decimal(1).scaleb(-DIGITS[currency]), ROUND_HALF_UP)


@pytest.mark.parametrize("currency", DIGITS)
@pytest.mark.parametrize("scale", [1, 9])
def test_usage_as_csv_makes_the_bill_and_costs_as_csv_sum_to_it(currency: str, scale: int) -> None:
    acme = tenant_of()
    with_plan(acme, {"plan": "all-kinds", "version": 1, "currency": currency, "in_force_from": "2026-01-01T00:00:00Z",
                     "base_fee": str(FEE), "prices": PRICES})  # fmt: skip
    for day in range(3):
        for topic in ("orders/=new", "orders/b", "sensors/heat"):
            use(acme, MARCH + day * 24 * HOUR, topic=topic, messages_in=123_457 * scale, bytes_in=GIB * scale // 7,
                messages_out=654_321 * scale, bytes_out=GIB * scale // 3)  # fmt: skip
    invoice = refresh(acme, MARCH, APRIL + timedelta(hours=80))
    assert invoice is not None
    first, last = MARCH.date(), (APRIL - HOUR).date()
    lines = list(csv.DictReader("".join(usage_lines({"acme": acme.uid}, first, last, "topic", "csv")).splitlines()))
    assert len(lines) == 9 and {line["hours_computed"] for line in lines} == {"1"}
    used = {price["meter"]: sum(int(line[price["meter"]]) for line in lines) for price in PRICES}
    expected = {meter: rounded(amount, currency) for meter, amount in due(used).items()}
    billed = {line["meter"]: Decimal(line["amount"]) for line in invoice.document["lines"] if line.get("meter")}
    assert billed == expected
    assert present(invoice.document).total[1] == f"{sum(expected.values()) + FEE:,} {currency}"
    for by in ("topic", "meter", "namespace"):
        costs = csv.DictReader(cost_files.written(Question([acme.uid], first, last, by, currency=currency), "csv").splitlines())
        assert sum(Decimal(row["cost"]) for row in costs) == sum(expected.values()) + FEE, by
