"""Quantities of bills as people read them, in the language that is in use: 0.036 million messages, 1 GiB-month."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from django.utils.translation import ngettext

from workers.rating.money import decimal_text
from workers.rating.units import UNITS
from workers.translation.figures import exact, of_language

QUANTITY_DIGITS = 6


def ngettext_noop(one: str, many: str) -> tuple[str, str]:
    """Both are translated when they are used."""
    return one, many


# Of units that are words: one, and any other number. Those that are symbols, as GiB, are the same everywhere.
_WORDS: Mapping[str, tuple[str, str]] = {
    "message": ngettext_noop("{number} message", "{number} messages"),
    "thousand messages": ngettext_noop("{number} thousand messages", "{number} thousand messages"),
    "million messages": ngettext_noop("{number} million messages", "{number} million messages"),
    "byte": ngettext_noop("{number} byte", "{number} bytes"),
    "GiB-hour": ngettext_noop("{number} GiB-hour", "{number} GiB-hours"),
    "GiB-month": ngettext_noop("{number} GiB-month", "{number} GiB-months"),
    "TiB-month": ngettext_noop("{number} TiB-month", "{number} TiB-months"),
    "entry-hour": ngettext_noop("{number} entry-hour", "{number} entry-hours"),
    "million entry-hours": ngettext_noop("{number} million entry-hours", "{number} million entry-hours"),
    "call": ngettext_noop("{number} call", "{number} calls"),
    "thousand calls": ngettext_noop("{number} thousand calls", "{number} thousand calls"),
    "million calls": ngettext_noop("{number} million calls", "{number} million calls"),
    "connection-hour": ngettext_noop("{number} connection-hour", "{number} connection-hours"),
}


def quantity_text(quantity: int, unit: str, digits: int = QUANTITY_DIGITS) -> str:
    """`quantity` base units in the unit of its price, cut to `digits` after the point (`present.plain` cuts alike); base units
    where there is none."""
    if unit not in UNITS:
        return exact(quantity)
    number = decimal_text(Fraction(quantity, UNITS[unit].size), digits)
    if quantity > 0 and number == "0":  # it may have cost something, and so is not nothing
        return f"<{units_text(least_shown(digits), unit)}"
    return units_text(number, unit)


def least_shown(digits: int) -> str:
    return f"{Decimal(1).scaleb(-digits):f}"


def units_text(number: str, unit: str) -> str:
    """So many of a unit: `number` is a decimal, as 0.036."""
    shown = of_language(f"{Decimal(number):,f}")
    if unit not in _WORDS:
        return f"{shown} {unit}"
    return ngettext(*_WORDS[unit], 1 if Decimal(number) == 1 else 2).format(number=shown)
