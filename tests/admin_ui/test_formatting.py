"""Figures as people read them: a small share does not read as nothing, and 100 % is all."""

from __future__ import annotations

from fractions import Fraction

import pytest
from django.utils import translation

from admin_ui import formatting
from admin_ui.cost_view import quantities_text
from admin_ui.translation import figures


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 %"),
        (Fraction(1, 1000), "<0.1 %"),
        (Fraction(6, 10), "0.6 %"),
        (3, "3 %"),
        (9.99, "9.9 %"),
        (10.5, "10 %"),
        (Fraction(999, 10), "99 %"),
        (100, "100 %"),
        (1234.5, "1,234 %"),
        (None, "–"),
    ],
)
def test_shares(value: float | Fraction | None, shown: str) -> None:
    assert formatting.percent(value) == shown


def test_quantities_are_in_the_largest_unit_that_there_is_one_of() -> None:
    used = {"messages_in": 36_000, "messages_out": 1_500_000, "bytes_in": 600 << 20, "backlog_entry_seconds": 3600, "api_calls": 1}
    assert [amount for _, amount in quantities_text(used)] == [
        "36,000 messages",
        "600 MiB",
        "1.5 million messages",
        "1 entry-hour",
        "1 call",
    ]
    with translation.override("de"):
        assert figures.percent(Fraction(6, 10)) == "0,6 %"
        shown = dict(quantities_text({"messages_in": 36_000, "api_calls": 1}))
        assert list(shown.values()) == ["36.000 Nachrichten", "1 Aufruf"]


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 B"), (0.05, "<1 B"), (0.5, "<1 B"), (0.7, "1 B"), (1052, "1.03 KiB"), (None, "–")]
)
def test_a_little_is_not_shown_as_nothing(value: float | None, shown: str) -> None:
    assert formatting.size(value) == shown
