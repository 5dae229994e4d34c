"""A version of a price plan: read from its document, checked once, never changed.

    {"plan": "standard", "version": 3, "title": "Standard", "currency": "EUR", "in_force_from": "2026-04-01T00:00:00Z",
     "base_fee": "29.00", "minimum": "100.00",
     "prices": [{"meter": "bytes_in", "unit": "GiB", "model": "graduated", "included": "10",
                 "tiers": [{"up_to": "100", "price": "0.05"}, {"price": "0.03", "flat": "1.00"}]},
                {"meter": "messages_in", "unit": "million messages", "model": "package", "package": "5", "price": "0.40"},
                {"meter": "bytes_out", "unit": "GiB", "price": "0.09"}]}

Numbers are text, so that no program makes floats of them. `included`, `up_to` and `package` are in the unit of the price.
`base_fee` and `minimum` are for a month, in proportion to the hours of the month in which the version is in force.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from workers.rating.errors import RatingError
from workers.rating.money import CURRENCIES, exact
from workers.rating.units import METERS, UNITS

PER_UNIT, GRADUATED, VOLUME, PACKAGE = "per_unit", "graduated", "volume", "package"
MODELS = (PER_UNIT, GRADUATED, VOLUME, PACKAGE)
TIERS_MAX = 32
VERSION_MAX = 2**31 - 1
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_TITLE_LENGTH_MAX = 200
_PLAN_FIELDS = {"plan", "version", "title", "currency", "in_force_from", "base_fee", "minimum", "prices"}
_PRICE_FIELDS = {
    PER_UNIT: {"meter", "unit", "model", "included", "price"},
    GRADUATED: {"meter", "unit", "model", "included", "tiers"},
    VOLUME: {"meter", "unit", "model", "included", "tiers"},
    PACKAGE: {"meter", "unit", "model", "included", "package", "price"},
}


@dataclass(frozen=True)
class Tier:
    """`up_to`: its upper edge in base units, which belongs to it; None for the last. `price` per unit, `flat` once."""

    up_to: int | None
    price: Fraction
    flat: Fraction = Fraction(0)


@dataclass(frozen=True)
class Price:
    """`included` and `package` in base units."""

    meter: str
    unit: str
    model: str
    included: int
    tiers: tuple[Tier, ...]
    package: int = 0

    @property
    def unit_size(self) -> int:
        return UNITS[self.unit].size


@dataclass(frozen=True)
class PlanVersion:
    """`document` is what it was read from, kept for invoices and for those who check them."""

    plan: str
    version: int
    title: str
    currency: str
    in_force_from: datetime
    base_fee: Fraction
    minimum: Fraction
    prices: tuple[Price, ...]
    document: Mapping[str, Any]


def plan_from(document: object) -> PlanVersion:
    """Raises `RatingError`, which names the first value that is wrong."""
    fields = _object(document, "the price plan")
    _only(fields, _PLAN_FIELDS, "the price plan")
    name, version, title = fields.get("plan"), fields.get("version"), fields.get("title", fields.get("plan"))
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RatingError(f"plan {str(name)[:80]!r} is not a name of a plan: 1 to 63 of a-z, 0-9 and -")
    if type(version) is not int or not 1 <= version <= VERSION_MAX:
        raise RatingError(f"version {str(version)[:40]!r} is not a number from 1 to {VERSION_MAX}")
    if not isinstance(title, str) or not title.isprintable() or not 1 <= len(title) <= _TITLE_LENGTH_MAX:
        raise RatingError(f"title is not a text of 1 to {_TITLE_LENGTH_MAX} printable characters")
    currency = fields.get("currency")
    if currency not in CURRENCIES:
        raise RatingError(f"currency {str(currency)[:40]!r} is not known: use one of {', '.join(sorted(CURRENCIES))}")
    listed = fields.get("prices", [])
    if not isinstance(listed, list) or len(listed) > len(METERS):
        raise RatingError(f"prices is not a list of at most {len(METERS)} prices")
    prices = tuple(_price(price, f"prices[{index}]") for index, price in enumerate(listed))
    meters = [price.meter for price in prices]
    for meter in meters:
        if meters.count(meter) > 1:
            raise RatingError(f"prices has {meters.count(meter)} prices for {meter}: a plan has at most one for each meter")
    base_fee, minimum = (exact(fields.get(key, "0"), key) for key in ("base_fee", "minimum"))
    return PlanVersion(
        name,
        version,
        title,
        str(currency),
        whole_hour(fields.get("in_force_from"), "in_force_from"),
        base_fee,
        minimum,
        prices,
        fields,
    )


def whole_hour(text: object, what: str) -> datetime:
    """Usage is known by the hour, so that is where prices may change. Raises `RatingError`."""
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        at = datetime.min
    if at.tzinfo is None or not 2000 <= at.year <= 9000 or at.astimezone(UTC).replace(minute=0, second=0, microsecond=0) != at:
        raise RatingError(
            f"{what} {str(text)[:40]!r} is not the start of an hour, with a time zone: write it like 2026-04-01T00:00:00Z"
        )
    return at.astimezone(UTC)


def _price(document: object, where: str) -> Price:
    fields = _object(document, where)
    model = fields.get("model", PER_UNIT)
    if model not in MODELS:
        raise RatingError(f"{where}.model {str(model)[:40]!r} is not one of {', '.join(MODELS)}")
    _only(fields, _PRICE_FIELDS[model], where)
    meter, unit = fields.get("meter"), fields.get("unit")
    if meter not in METERS:
        raise RatingError(f"{where}.meter {str(meter)[:80]!r} is not one of {', '.join(METERS)}")
    dimension = METERS[str(meter)].dimension
    if unit not in UNITS or UNITS[str(unit)].dimension != dimension:
        fitting = [name for name, unit in UNITS.items() if unit.dimension == dimension]
        raise RatingError(f"{where}.unit {str(unit)[:40]!r} is not a unit of {dimension}: use one of {', '.join(fitting)}")
    size = UNITS[str(unit)].size
    included = _base_units(fields.get("included", "0"), size, f"{where}.included")
    if model in (GRADUATED, VOLUME):
        return Price(str(meter), str(unit), model, included, _tiers(fields.get("tiers"), size, f"{where}.tiers"))
    tiers = (Tier(None, exact(fields.get("price"), f"{where}.price")),)
    if model == PER_UNIT:
        return Price(str(meter), str(unit), model, included, tiers)
    package = _base_units(fields.get("package"), size, f"{where}.package")
    if not package:
        raise RatingError(f"{where}.package is 0: a package holds something")
    return Price(str(meter), str(unit), model, included, tiers, package)


def _tiers(listed: object, size: int, where: str) -> tuple[Tier, ...]:
    if not isinstance(listed, list) or not 1 <= len(listed) <= TIERS_MAX:
        raise RatingError(f"{where} is not a list of 1 to {TIERS_MAX} tiers")
    tiers: list[Tier] = []
    below = 0
    for index, tier in enumerate(listed):
        at = f"{where}[{index}]"
        fields = _object(tier, at)
        _only(fields, {"up_to", "price", "flat"}, at)
        last = index == len(listed) - 1
        if last == ("up_to" in fields):
            raise RatingError(f"{at}: every tier but the last has up_to, its upper edge, and the last has none")
        up_to = None if last else _base_units(fields["up_to"], size, f"{at}.up_to")
        if up_to is not None:
            if up_to <= below:
                raise RatingError(f"{at}.up_to {fields['up_to']!r} is not above the tier before it")
            below = up_to
        tiers.append(Tier(up_to, exact(fields.get("price"), f"{at}.price"), exact(fields.get("flat", "0"), f"{at}.flat")))
    return tuple(tiers)


def _base_units(text: object, size: int, what: str) -> int:
    """An edge lies between two base units, never within one."""
    value = exact(text, what) * size
    if value.denominator != 1:
        raise RatingError(f"{what} {str(text)!r} is not a whole number of base units: its unit has {size} of them")
    return value.numerator


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RatingError(f"{what} is not a JSON object")
    return value


def _only(fields: Mapping[str, Any], known: set[str], what: str) -> None:
    unknown = sorted(set(fields) - known)
    if unknown:
        raise RatingError(f"{what} has the field {unknown[0][:80]!r}, which is unknown there: use {', '.join(sorted(known))}")
