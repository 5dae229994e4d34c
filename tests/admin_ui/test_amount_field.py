"""Amounts are taken as the language of the page writes them."""

from __future__ import annotations

import pytest
from django.utils import translation

from admin_ui.amount_field import AmountField
from admin_ui.billing_forms import BudgetForm
from admin_ui.price_plan_forms import tiers_of

BUDGET = {"name": "All", "currency": "EUR", "thresholds": "50"}


@pytest.mark.parametrize(
    ("typed", "german", "english"),
    [
        ("12,50", "12.50", "12,50"),
        ("1.234,50", "1234.50", "1.234,50"),
        ("1.234.567,5", "1234567.5", "1.234.567,5"),
        ("-0,05", "-0.05", "-0,05"),
        ("12.50", "12.50", "12.50"),
        ("12,5,0", "12,5,0", "12,5,0"),
        ("1.23,5", "1.23,5", "1.23,5"),
        ("x", "x", "x"),
        ("", "", ""),
    ],
)
def test_a_comma_is_a_decimal_sign_where_pages_write_one(typed: str, german: str, english: str) -> None:
    field = AmountField(required=False)
    with translation.override("de"):
        assert field.clean(typed) == german
    with translation.override("en"):
        assert field.clean(typed) == english, "and nothing is guessed elsewhere"


def test_forms_of_budgets_and_plans_take_them() -> None:
    with translation.override("de"):
        form = BudgetForm({**BUDGET, "amount": "1.234,50"})
        assert form.is_valid() and form.cleaned_data["amount"] == "1234.50"
        assert tiers_of("10 0,05 1,5\nabove 0,01") == [{"up_to": "10", "price": "0.05", "flat": "1.5"}, {"price": "0.01"}]
