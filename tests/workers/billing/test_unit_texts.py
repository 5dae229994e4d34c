"""One is no plural, nor is a part of a million one."""

from __future__ import annotations

import pytest
from django.utils import translation

from workers.billing.unit_texts import quantity_text, units_text
from workers.rating.units import UNITS


@pytest.mark.parametrize(
    ("quantity", "unit", "english", "german"),
    [
        (36_000, "million messages", "0.036 million messages", "0,036 Millionen Nachrichten"),
        (1_000_000, "million messages", "1 million messages", "1 Million Nachrichten"),
        (1, "message", "1 message", "1 Nachricht"),
        (5, "message", "5 messages", "5 Nachrichten"),
        (5_000, "thousand messages", "5 thousand messages", "5 Tausend Nachrichten"),
        (UNITS["GiB-month"].size, "GiB-month", "1 GiB-month", "1 GiB-Monat"),
        (0, "GiB-month", "0 GiB-months", "0 GiB-Monate"),
        (3 << 30, "GiB", "3 GiB", "3 GiB"),
        (1_234, "", "1,234", "1.234"),
    ],
)
def test_a_quantity_has_its_number_of_its_unit(quantity: int, unit: str, english: str, german: str) -> None:
    assert quantity_text(quantity, unit) == english
    with translation.override("de"):
        assert quantity_text(quantity, unit) == german


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_that_is_a_word_has_a_plural(unit: str) -> None:
    one, many = units_text("1", unit), units_text("2", unit)
    assert one == f"1 {unit}" and many in (f"2 {unit}", f"2 {unit}s")
    assert (many == f"2 {unit}") == (unit.isupper() or unit.endswith("iB") or unit.endswith("s"))
