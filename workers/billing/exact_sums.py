"""Quantities of charges, which may have more than 64 bits: 10 TB that are stored for a month are 2.6 x 10^19 byte-seconds, and a
database adds up 64-bit integers at most (SQLite fails where a sum passes that)."""

from __future__ import annotations

from typing import Any

from django.db.models import Aggregate, BigIntegerField, F, Sum

_HALF = 1 << 32
_UNIT = 1 << 62  # of `quantity_high`


class ExactSum(Aggregate):
    """A sum of 64-bit integers, which may have more bits itself. What one tenant costs must not make a page of all tenants fail."""

    function, name = "SUM", "ExactSum"
    output_field = BigIntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        halves = f"SUM(%(expressions)s / {_HALF}) || ':' || SUM(%(expressions)s %%%% {_HALF})"
        return self.as_sql(compiler, connection, template=halves, **extra)

    @property
    def convert_value(self) -> Any:
        return _number


def _number(value: Any, *_: Any) -> int | None:
    """From a decimal of PostgreSQL, or the two halves of SQLite."""
    if isinstance(value, str):
        uppers, lowers = value.split(":")
        return int(uppers) * _HALF + int(lowers)
    return None if value is None else int(value)


def columns_of(quantity: int) -> dict[str, int]:
    """The columns of a row that hold it."""
    high, low = (0, quantity) if abs(quantity) < _UNIT else divmod(quantity, _UNIT)
    return {"quantity": low, "quantity_high": high}


def quantity_of(high: int, low: int) -> int:
    """From the columns of a row."""
    return high * _UNIT + low


def sums() -> dict[str, Any]:
    """What to annotate with; `exact` makes a number of the three, in this order."""
    return {
        "quantity_highs": Sum("quantity_high"),
        "quantity_uppers": Sum(F("quantity") / _HALF),
        "quantity_lowers": Sum(F("quantity") % _HALF),
    }


def exact(highs: int, uppers: int, lowers: int) -> int:
    return highs * _UNIT + uppers * _HALF + lowers
