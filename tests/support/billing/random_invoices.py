"""Random invoices, held against a reference that counts unit by unit.

`python -m tests.support.billing.random_invoices --count 1000000` tries as many."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from random import Random
from typing import Any

from workers.rating.credit import Credit, Tax, Totals, totals_of
from workers.rating.money import CURRENCIES
from workers.rating.plan import GRADUATED, MODELS, PACKAGE, VOLUME, PlanVersion, Price, plan_from
from workers.rating.rate import USAGE, Line, Segment, rate, segments_of
from workers.rating.split import split
from workers.rating.units import METERS, UNITS

START = datetime(2026, 2, 1, tzinfo=UTC)
HOURS = 28 * 24
NAMESPACES = ("acme/a", "acme/b", "acme/c", "acme/d")
UNITS_OF_DIMENSION = {
    dimension: [name for name, unit in UNITS.items() if unit.dimension == dimension]
    for dimension in {unit.dimension for unit in UNITS.values()}
}


def random_plan(random: Random, version: int, currency: str, at: datetime, *, small: bool) -> PlanVersion:
    """`small`: units of one, so that the reference can count them."""
    meters = random.sample(list(METERS), random.randint(1, len(METERS)))
    document: dict[str, Any] = {
        "plan": "standard",
        "version": version,
        "currency": currency,
        "in_force_from": at.isoformat(),
        "base_fee": random_number(random, 40),
        "minimum": random.choice(["0", random_number(random, 90)]),
        "prices": [
            random_price(random, meter, small=small) for meter in meters if not small or METERS[meter].dimension == "messages"
        ],
    }
    return plan_from(document)


def random_price(random: Random, meter: str, *, small: bool) -> dict[str, Any]:
    unit = "message" if small else random.choice(UNITS_OF_DIMENSION[METERS[meter].dimension])
    price: dict[str, Any] = {"meter": meter, "unit": unit, "model": random.choice(MODELS), "included": str(random.randint(0, 12))}
    if price["model"] in (GRADUATED, VOLUME):
        edges = sorted(random.sample(range(1, 30), random.randint(0, 3)))
        price["tiers"] = [
            {**({"up_to": str(edge)} if edge else {}), "price": random_number(random, 3), "flat": random_number(random, 2)}
            for edge in [*edges, None]
        ]
    else:
        price["price"] = random_number(random, 3)
        if price["model"] == PACKAGE:
            price["package"] = str(random.randint(1, 9))
    return price


def random_number(random: Random, up_to: int) -> str:
    return f"{random.randint(0, up_to)}.{random.randint(0, 9999):04d}"


class RandomInvoice:
    """One invoice: its inputs, drawn from `random`, and what was made of them."""

    def __init__(self, random: Random) -> None:
        self.currency = random.choice(sorted(CURRENCIES))
        self.small = random.random() < 0.5
        edges = sorted(random.sample(range(1, HOURS), random.randint(0, 2)))
        starts = [START - timedelta(days=3), *(START + timedelta(hours=edge) for edge in edges)]
        versions = [random_plan(random, index + 1, self.currency, at, small=self.small) for index, at in enumerate(starts)]
        self.segments = segments_of(START, START + timedelta(hours=HOURS), [(starts[0], "standard")], {"standard": versions})
        highest = 25 if self.small else 2 ** random.randint(1, 50)
        self.usage = [
            {
                meter: {name: random.randint(0, highest) for name in random.sample(NAMESPACES, random.randint(0, 3))}
                for meter in METERS
            }
            for _ in self.segments
        ]
        self.credits = [
            Credit(f"c{index}", "", random.randint(0, 5000), random.choice(["", "2026-05-01"]))
            for index in range(random.randint(0, 2))
        ]
        self.tax = Tax("VAT", random.choice(["19", "7.7", "0"]))
        self.lines = rate(self.segments, self.usage, HOURS)
        self.totals = totals_of((line.amount for line in self.lines), self.credits, self.tax)


def check(invoice: RandomInvoice, random: Random) -> None:
    """Everything that must hold of an invoice. Raises `AssertionError`."""
    check_lines(invoice.lines, random)
    check_totals(invoice.lines, invoice.totals, invoice.credits)
    used = {meter: sum(sum(of_segment[meter].values()) for of_segment in invoice.usage) for meter in METERS}
    for meter in METERS:
        lines = [line for line in invoice.lines if line.meter == meter]
        priced = all(any(price.meter == meter for price in segment.version.prices) for segment in invoice.segments)
        if priced:
            assert sum(line.quantity for line in lines) == used[meter], meter
    if invoice.small:
        for line in invoice.lines:
            if line.kind == USAGE:
                check_unit_by_unit(
                    line, next(segment for segment in invoice.segments if segment.start == line.start), invoice.currency
                )


def check_lines(lines: list[Line], random: Random) -> None:
    for line in lines:
        assert line.amount >= 0
        if line.kind != USAGE:
            continue
        assert sum(share.amount for share in line.shares) == line.amount, line.id
        assert sum(share.quantity for share in line.shares) == line.quantity, line.id
        for share in line.shares:
            topics = {f"t{index}": random.randint(0, 1000) for index in range(random.randint(1, 5))}
            assert sum(split(share.amount, topics).values()) == share.amount
            exact = Fraction(line.amount * share.quantity, line.quantity)
            assert abs(share.amount - exact) < 1, line.id


def check_totals(lines: list[Line], totals: Totals, credits: list[Credit]) -> None:
    assert totals.subtotal == sum(line.amount for line in lines)
    used = sum(credit.amount for credit in totals.credits)
    assert 0 <= used == min(totals.subtotal, sum(credit.left for credit in credits))
    assert totals.total == totals.subtotal - used + totals.tax >= 0


def check_unit_by_unit(line: Line, segment: Segment, currency: str) -> None:
    """The reference: each unit of the month pays for itself."""
    price = next(price for price in segment.version.prices if price.meter == line.meter)
    due = sum(
        (cost_of_unit(price, position, line.total) for position in range(line.before + 1, line.before + line.quantity + 1)),
        Fraction(0),
    )
    assert sum((part.amount for part in line.parts), Fraction(0)) == due, line.id
    assert abs(Fraction(line.amount, 10 ** CURRENCIES[currency]) - due) <= Fraction(1, 2 * 10 ** CURRENCIES[currency]), line.id


def cost_of_unit(price: Price, position: int, total: int) -> Fraction:
    """Of the month's unit number `position`, counted from 1."""
    paid = position - price.included
    if paid <= 0:
        return Fraction(0)
    if price.model == PACKAGE:
        return price.tiers[0].price if (paid - 1) % price.package == 0 else Fraction(0)
    where = total - price.included if price.model == VOLUME else paid
    lower = 0
    for tier in price.tiers:
        if tier.up_to is None or where <= tier.up_to:
            first = 1 if price.model == VOLUME else lower + 1
            return tier.price + (tier.flat if paid == first else 0)
        lower = tier.up_to
    raise AssertionError("the last tier has no end")


def main() -> None:
    parser = argparse.ArgumentParser(description="Rate random invoices and check each of them.")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    began = time.monotonic()
    lines = 0
    for number in range(asked.count):
        random = Random(f"{asked.seed}/{number}")
        invoice = RandomInvoice(random)
        try:
            check(invoice, random)
        except AssertionError as error:
            raise SystemExit(f"invoice {number} of seed {asked.seed}: {error}") from error
        lines += len(invoice.lines)
    print(f"{asked.count} invoices with {lines} lines: every line, split and total is right ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
