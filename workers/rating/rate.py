"""The lines of an invoice: a pure function of usage and price plan.

A period (a month, UTC) is cut into segments where another version of a plan comes into force. Each meter gives one line a segment,
its amount rounded once. The amount of a line is handed out to namespaces, and that of a namespace to its topics, so that the parts
sum to the line to the cent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise

from workers.rating.charge import TierCharge, charges
from workers.rating.errors import RatingError
from workers.rating.money import round_to_minor
from workers.rating.plan import PlanVersion
from workers.rating.split import split
from workers.rating.units import METERS

USAGE, BASE_FEE, MINIMUM, ADJUSTMENT = "usage", "base_fee", "minimum", "adjustment"
HOUR = timedelta(hours=1)
Usage = Mapping[str, Mapping[str, int]]  # meter -> namespace -> quantity in base units


@dataclass(frozen=True)
class Segment:
    """A part of a period, [start, end), in which one version of a plan is in force."""

    start: datetime
    end: datetime
    version: PlanVersion

    @property
    def hours(self) -> int:
        return (self.end - self.start) // HOUR


@dataclass(frozen=True)
class Share:
    """What of a line is a namespace's. Amount in minor units."""

    namespace: str
    quantity: int
    amount: int


@dataclass(frozen=True)
class Line:
    """`amount` in minor units, rounded once. `before`: what the month had used when the segment began; `total`: what it used."""

    id: str
    kind: str
    title: str
    start: datetime
    end: datetime
    amount: int
    meter: str = ""
    unit: str = ""
    quantity: int = 0
    before: int = 0
    total: int = 0
    included: int = 0
    parts: tuple[TierCharge, ...] = ()
    shares: tuple[Share, ...] = ()
    of_invoice: str = ""  # adjustments: the number of the invoice that they correct
    runs: tuple[str, ...] = field(default=())  # adjustments: the usage runs that found the difference


def month_of(at: datetime) -> tuple[datetime, datetime]:
    """Start and end of the month, in the time zone of `at`."""
    start = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return start, (start + timedelta(days=32)).replace(day=1)


def segments_of(
    start: datetime, end: datetime, assigned: Iterable[tuple[datetime, str]], versions: Mapping[str, Sequence[PlanVersion]]
) -> list[Segment]:
    """`assigned`: (from, plan), what is in force until the next. `versions`: by plan. What no version covers is in no segment.

    Raises `RatingError` where the currency would change within the period: one invoice has one currency."""
    plans = sorted(assigned)
    edges = {start, end} | {at for at, _ in plans} | {version.in_force_from for some in versions.values() for version in some}
    inside = sorted(edge for edge in edges if start <= edge <= end)
    segments: list[Segment] = []
    for begin, finish in pairwise(inside):
        plan = next((name for at, name in reversed(plans) if at <= begin), None)
        in_force = [version for version in versions.get(plan or "", ()) if version.in_force_from <= begin]
        if not in_force:
            continue
        version = max(in_force, key=lambda version: (version.in_force_from, version.version))
        if segments and segments[-1].version is version and segments[-1].end == begin:
            segments[-1] = Segment(segments[-1].start, finish, version)
        else:
            segments.append(Segment(begin, finish, version))
    currencies = sorted({segment.version.currency for segment in segments})
    if len(currencies) > 1:
        raise RatingError(
            f"the plans of {start:%Y-%m} have the currencies {' and '.join(currencies)}: change it at the start of a month"
        )
    return segments


def rate(segments: Sequence[Segment], usage: Sequence[Usage], month_hours: int) -> list[Line]:
    """Lines of a period. `usage`: that of each segment; `month_hours`: of the whole month, that fees are in proportion to."""
    totals = {meter: sum(sum(of_segment.get(meter, {}).values()) for of_segment in usage) for meter in METERS}
    before = dict.fromkeys(METERS, 0)
    lines: list[Line] = []
    minimum = Fraction(0)
    for segment, used in zip(segments, usage, strict=True):
        version = segment.version
        part = Fraction(segment.hours, month_hours)
        minimum += version.minimum * part
        if version.base_fee:
            lines.append(_fee(segment, round_to_minor(version.base_fee * part, version.currency)))
        for price in version.prices:
            by_namespace = used.get(price.meter, {})
            quantity = sum(by_namespace.values())
            if not quantity:
                continue
            parts = charges(price, before[price.meter], quantity, totals[price.meter])
            amount = round_to_minor(sum((part.amount for part in parts), Fraction(0)), version.currency)
            shares = split(amount, by_namespace)
            lines.append(
                Line(
                    id=line_id(price.meter, segment.start),
                    kind=USAGE,
                    title=METERS[price.meter].title,
                    start=segment.start,
                    end=segment.end,
                    amount=amount,
                    meter=price.meter,
                    unit=price.unit,
                    quantity=quantity,
                    before=before[price.meter],
                    total=totals[price.meter],
                    included=price.included,
                    parts=tuple(parts),
                    shares=tuple(Share(name, by_namespace[name], shares[name]) for name in sorted(by_namespace)),
                )
            )
        for meter in METERS:
            before[meter] += sum(used.get(meter, {}).values())
    if minimum:
        shortfall = round_to_minor(minimum, segments[0].version.currency) - sum(line.amount for line in lines)
        if shortfall > 0:
            first, last = segments[0].start, segments[-1].end
            lines.append(Line(line_id(MINIMUM, first), MINIMUM, "Up to the agreed minimum", first, last, shortfall))
    return lines


def line_id(what: str, start: datetime) -> str:
    return f"{what}@{start:%Y-%m-%dT%H}"


def _fee(segment: Segment, amount: int) -> Line:
    title = f"Base fee, {segment.version.title}"
    return Line(line_id(BASE_FEE, segment.start), BASE_FEE, title, segment.start, segment.end, amount)
