"""Numbers, sizes and spans of time as people read them. The same forms as static/admin_ui/js/format.js. Pure."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def digits(value: float, number: int) -> str:
    """With so many digits after the point. Of the shortest decimal that is this float, halves to the even digit: as browsers do."""
    return f"{Decimal(value if isinstance(value, int) else repr(float(value))):,.{number}f}"


def _trim(value: float) -> str:
    return digits(value, 2 if value < 9.995 else 1 if value < 99.95 else 0)


UNKNOWN = "–"  # never 0: what is not known is no number


def count(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if value < 10_000:
        return digits(value, 0)
    if value < 999_500:
        return f"{_trim(value / 1_000)} k"
    if value < 999_500_000:
        return f"{_trim(value / 1_000_000)} M"
    return f"{_trim(value / 1_000_000_000)} G"


def exact(value: int) -> str:
    """Every digit: for what is billed."""
    return f"{value:,}"


def rate(value: float | None) -> str:
    """Messages a second: small rates keep a decimal, so that one message every few seconds does not read as nothing."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0"
    if value < 0.1:
        return "<0.1"
    return digits(value, 1) if value < 10 else count(round(value))


def percent(value: float | Fraction | None) -> str:
    """Rounded down, so that 100 % is all. Small shares keep a decimal, so that what is used does not read as nothing."""
    if value is None:
        return UNKNOWN
    if 0 < value < Fraction(1, 10):
        return "<0.1 %"
    if 0 < value < 10 and value != int(value):
        return f"{int(value * 10) / 10:.1f} %"
    return f"{int(value):,} %"


def size(value_bytes: float | None) -> str:
    if value_bytes is None:
        return UNKNOWN
    if 0 < value_bytes <= 0.5:
        return "<1 B"  # a mean over a long time, which is not nothing
    unit = 0
    while value_bytes >= 1023.5 and unit < len(_UNITS) - 1:
        value_bytes /= 1024
        unit += 1
    return f"{digits(value_bytes, 0)} B" if unit == 0 else f"{_trim(value_bytes)} {_UNITS[unit]}"


def span(seconds: float | None) -> str:
    """A length of time by its two largest units: 3 d 4 h, 5 min 2 s."""
    if seconds is None:
        return UNKNOWN
    parts = []
    rest = int(seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if rest >= length:
            parts.append(f"{rest // length} {unit}")
            rest %= length
    return " ".join(parts[:2]) or "0 s"
