"""Amounts of money. Computed as fractions, which lose nothing; rounded once, to whole minor units (cents), which are integers."""

from __future__ import annotations

import re
from decimal import Context, Decimal
from fractions import Fraction

from workers.rating.errors import RatingError

# ISO 4217: digits after the point.
CURRENCIES: dict[str, int] = {
    **dict.fromkeys(("AED", "AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "ILS", "INR"), 2),
    **dict.fromkeys(("MXN", "NOK", "NZD", "PLN", "RON", "SEK", "SGD", "THB", "TRY", "TWD", "USD", "ZAR"), 2),
    **dict.fromkeys(("CLP", "ISK", "JPY", "KRW", "VND"), 0),
    **dict.fromkeys(("BHD", "JOD", "KWD", "OMR", "TND"), 3),
}
DIGITS_MAX = 18  # of a price, on each side of the point
_NUMBER = re.compile(rf"-?[0-9]{{1,{DIGITS_MAX}}}(\.[0-9]{{1,{DIGITS_MAX}}})?")
_TEXT = Context(prec=200)


def _minor_units(currency: str) -> int:
    """In one of the currency."""
    return int(10 ** CURRENCIES[currency])


def exact(text: object, what: str, *, negative: bool = False) -> Fraction:
    """The number that `text` spells: digits with or without a point. Raises `RatingError` for anything else, floats too."""
    if not isinstance(text, str) or not _NUMBER.fullmatch(text) or (text.startswith("-") and not negative):
        given = str(text)[:40]
        raise RatingError(
            f'{what} {given!r} is not a number: write it as text, like "0.05", with at most {DIGITS_MAX} digits'
            if negative
            else f'{what} {given!r} is not a number of 0 or more: write it as text, like "0.05", with at most {DIGITS_MAX} digits'
        )
    return Fraction(text)


def round_to_minor(amount: Fraction, currency: str) -> int:
    """In minor units; half a unit goes away from zero, as on paper."""
    scaled = amount * _minor_units(currency)
    magnitude = (2 * abs(scaled.numerator) + scaled.denominator) // (2 * scaled.denominator)
    return magnitude if scaled >= 0 else -magnitude


def money_text(minor: int, currency: str) -> str:
    """`1234` of EUR is ``12.34``."""
    return str(Decimal(minor).scaleb(-CURRENCIES[currency], _TEXT))


def minor_of(text: object, currency: str, what: str) -> int:
    """The reverse. Raises `RatingError` if it has more digits than the currency."""
    scaled = exact(text, what, negative=True) * _minor_units(currency)
    if scaled.denominator != 1:
        raise RatingError(
            f"{what} {str(text)!r} has more than {CURRENCIES[currency]} digits after the point, the most for {currency}"
        )
    return scaled.numerator


def decimal_text(amount: Fraction, digits: int = 12) -> str:
    """For reading, not for computing: at most `digits` after the point, cut off there."""
    scaled = abs(amount.numerator) * 10**digits // amount.denominator
    text = str(Decimal(scaled).scaleb(-digits, _TEXT).normalize(_TEXT))
    if "E" in text:
        text = format(Decimal(text), "f")
    return f"-{text}" if amount < 0 and scaled else text
