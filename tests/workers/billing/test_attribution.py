"""Charges by subscription and key: parts that sum to what was charged, and API calls down to the verifier."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.db.models import Sum
from hypothesis import given
from hypothesis import strategies as st

from tests.support.billing.billing_rows import APRIL, GIB, HOUR, MARCH, PLAN, tenant_of, use, use_part, with_plan
from workers.billing import attribution, costs, drafts, usage
from workers.billing.attribution import NOBODY, handed_out
from workers.billing.models import NANO, Charge
from workers.billing.usage import UsedPart
from workers.rating.verify import verify

LATER = APRIL + timedelta(hours=80)
names = st.tuples(st.sampled_from(["", "s", "t"]), st.sampled_from(["", "k", "l"]))


@given(st.integers(0, 10**12), st.integers(-(10**15), 10**15), st.dictionaries(names, st.integers(0, 10**12)))
def test_parts_sum_to_the_charge(quantity: int, nano: int, weights: dict[tuple[str, str], int]) -> None:
    parts = handed_out((quantity, nano), weights)
    assert sum(part[0] for part in parts.values()) == quantity and sum(part[1] for part in parts.values()) == nano
    if sum(weights.values()) <= quantity:
        assert all(parts[part][0] == weight for part, weight in weights.items() if weight and part != NOBODY)


def test_only_the_largest_parts_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "PARTS_OF_TOPIC_MAX", 3)
    monkeypatch.setattr(attribution, "PARTS_OF_TENANT_MAX", 4)
    parts = [UsedPart("n", topic, "", f"k{number}", {"messages_in": number}) for topic in ("a", "b") for number in range(5)]
    assert attribution.largest(parts) == {("n", "a", "", "k4"), ("n", "b", "", "k4"), ("n", "a", "", "k3"), ("n", "b", "", "k3")}


@pytest.mark.django_db
def test_costs_by_subscription_and_key_and_api_calls_on_the_bill() -> None:
    acme = tenant_of()
    prices = [
        *PLAN["prices"],
        {"meter": "bytes_out", "unit": "GiB", "price": "0.10"},
        {"meter": "stored_byte_seconds", "unit": "GiB-hour", "price": "0.01"},
        {"meter": "api_calls", "unit": "thousand calls", "price": "0.05", "included": "1"},
        {"meter": "connection_seconds", "unit": "connection-hour", "price": "0.01"},
    ]
    with_plan(acme, {**PLAN, "prices": prices})
    use(acme, MARCH, bytes_in=6 * GIB, bytes_out=9 * GIB, stored_byte_seconds=100 * GIB * 3600, api_calls=1_500)
    use_part(acme, MARCH, "", "writer", bytes_in=4 * GIB)  # 2 GiB were nobody's in particular
    use_part(acme, MARCH, "billing", "reader", bytes_out=6 * GIB)
    use_part(acme, MARCH, "audit", "reader", bytes_out=3 * GIB, api_calls=1_500)
    use(acme, MARCH + 30 * HOUR, topic="", api_calls=2_500, connection_seconds=7_200 * 5)
    use_part(acme, MARCH + 30 * HOUR, "", "robot", topic="", api_calls=2_500)
    invoice = drafts.refresh(acme, MARCH, LATER)
    assert invoice is not None
    lines = {line.get("meter", line["kind"]): line for line in invoice.document["lines"]}
    assert (lines["api_calls"]["quantity"], lines["api_calls"]["amount"]) == (4_000, "0.15")
    assert (lines["connection_seconds"]["quantity"], lines["connection_seconds"]["amount"]) == (36_000, "0.10")
    assert {share["namespace"]: share["amount"] for share in lines["api_calls"]["namespaces"]} == {
        "": "0.09",
        "acme/orders": "0.06",
    }
    assert verify(invoice.document, usage.rows_between(acme.uid, MARCH, APRIL)).agrees
    for line in invoice.document["lines"]:
        charged = Charge.unscoped.filter(meter=line.get("meter", line["kind"])).aggregate(Sum("nano"), Sum("quantity"))
        assert charged["nano__sum"] == int(line["amount"].replace(".", "")) * NANO // 100
        assert charged["quantity__sum"] == line.get("quantity", 0)

    def by(level: str, **filters: str) -> dict[str, dict[str, int]]:
        for step in (costs.DAY, costs.MONTH):
            question = costs.Question([acme.uid], date(2026, 3, 1), date(2026, 3, 31), level, step, "EUR", **filters)
            answer = costs.ask(question)
            assert sum(answer.cells.values()) == answer.total
        return {name: dict(answer.quantities[name]) for name in answer.names}

    assert by("subscription", meter="bytes_out") == {"billing": {"bytes_out": 6 * GIB}, "audit": {"bytes_out": 3 * GIB}}
    assert by("key", topic="persistent://acme/orders/new") == {
        "writer": {"bytes_in": 4 * GIB},
        costs.NOBODY: {"bytes_in": 2 * GIB, "stored_byte_seconds": 100 * GIB * 3600},
        "reader": {"bytes_out": 9 * GIB, "api_calls": 1_500},
    }
    assert by("key", meter="api_calls") == {"robot": {"api_calls": 2_500}, "reader": {"api_calls": 1_500}}
    assert by("topic", key="reader") == {"persistent://acme/orders/new": {"bytes_out": 9 * GIB, "api_calls": 1_500}}
    again = costs.Question([acme.uid], date(2026, 3, 1), date(2026, 3, 31), "key", currency="EUR")
    assert sum(cell[3] for cell in costs.cells_of(again)) * 100 == invoice.total_minor * NANO
