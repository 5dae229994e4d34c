"""Prices by hand: each model at its edges, changes in the middle of a month, fees, minimum, credits and tax."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest

from workers.rating.adjust import adjustments
from workers.rating.charge import amount_of
from workers.rating.credit import Credit, Tax, UsedCredit, totals_of
from workers.rating.errors import RatingError
from workers.rating.money import minor_of, money_text, round_to_minor
from workers.rating.plan import PlanVersion, Price, plan_from
from workers.rating.rate import Line, Segment, month_of, rate, segments_of
from workers.rating.statement import LineBalance

GIB = 2**30
START, END = datetime(2026, 4, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)
MIDDLE = datetime(2026, 4, 16, tzinfo=UTC)
HOURS = 30 * 24
TIERS = [{"up_to": "10", "price": "1"}, {"up_to": "100", "price": "0.5", "flat": "2"}, {"price": "0.1"}]


def plan(*prices: dict[str, Any], version: int = 1, at: datetime = START, **fields: Any) -> PlanVersion:
    return plan_from(
        {"plan": "p", "version": version, "currency": "EUR", "in_force_from": at.isoformat(), "prices": list(prices), **fields}
    )


def price(**fields: Any) -> Price:
    return plan({"meter": "bytes_in", "unit": "GiB", **fields}).prices[0]


def of_month(*versions: PlanVersion, used: tuple[int, ...]) -> list[Line]:
    """Lines for so many GiB in the namespace acme/a, in each segment of April."""
    segments = segments_of(START, END, [(START, "p")], {"p": versions})
    return rate(segments, [{"bytes_in": {"acme/a": gib * GIB}} for gib in used], HOURS)


@pytest.mark.parametrize(
    ("gib", "due"),
    [
        (0, "0"), (10, "10"), (Fraction(1, GIB) + 10, Fraction(12) + Fraction(1, 2 * GIB)), (100, "57"),
        (Fraction(1, GIB) + 100, Fraction(57) + Fraction(1, 10 * GIB)), (200, "67"),
    ],
)  # fmt: skip
def test_graduated_tiers_end_at_their_edge(gib: Fraction, due: Fraction | str) -> None:
    quantity = int(gib * GIB)
    assert amount_of(price(model="graduated", tiers=TIERS), 0, quantity, quantity) == Fraction(due)


@pytest.mark.parametrize(("gib", "due"), [(0, "0"), (10, "10"), (11, "7.5"), (100, "52"), (101, "10.1")])
def test_a_volume_price_is_that_of_the_tier_of_the_whole_month(gib: int, due: str) -> None:
    assert amount_of(price(model="volume", tiers=TIERS), 0, gib * GIB, gib * GIB) == Fraction(due)


@pytest.mark.parametrize(("quantity", "due"), [(0, 0), (1, 3), (5 * GIB, 3), (5 * GIB + 1, 6), (10 * GIB, 6)])
def test_a_started_package_is_paid(quantity: int, due: int) -> None:
    assert amount_of(price(model="package", package="5", price="3"), 0, quantity, quantity) == due


def test_included_amounts_come_off_first() -> None:
    assert amount_of(price(included="10", price="2"), 0, 10 * GIB, 10 * GIB) == 0
    assert amount_of(price(included="10", price="2"), 0, 12 * GIB, 12 * GIB) == 4
    assert amount_of(price(included="10", model="graduated", tiers=TIERS), 0, 20 * GIB, 20 * GIB) == 10


def test_a_price_that_changes_in_the_middle_of_a_month_goes_on_where_the_old_one_stopped() -> None:
    old = plan({"meter": "bytes_in", "unit": "GiB", "price": "1", "included": "10"})
    new = plan({"meter": "bytes_in", "unit": "GiB", "price": "2", "included": "10"}, version=2, at=MIDDLE)
    assert [line.amount for line in of_month(old, new, used=(4, 9))] == [0, 600]  # 13 used, 10 included, 3 at the new price
    assert [line.amount for line in of_month(old, new, used=(12, 9))] == [200, 1800]
    assert [(line.start, line.end) for line in of_month(old, new, used=(12, 9))] == [(START, MIDDLE), (MIDDLE, END)]


def test_a_free_amount_is_not_given_twice_when_it_changes_with_the_price() -> None:
    old = plan({"meter": "bytes_in", "unit": "GiB", "price": "1", "included": "10"})
    less = plan({"meter": "bytes_in", "unit": "GiB", "price": "1", "included": "5"}, version=2, at=MIDDLE)
    more = plan({"meter": "bytes_in", "unit": "GiB", "price": "1", "included": "20"}, version=2, at=MIDDLE)
    assert [line.amount for line in of_month(old, less, used=(8, 3))] == [0, 300]
    assert [line.amount for line in of_month(old, less, used=(3, 3))] == [0, 100]
    assert [line.amount for line in of_month(old, more, used=(15, 10))] == [500, 500]


def test_a_tier_that_was_begun_is_not_begun_again_after_a_change() -> None:
    old = plan({"meter": "bytes_in", "unit": "GiB", "model": "graduated", "tiers": TIERS})
    new = plan({"meter": "bytes_in", "unit": "GiB", "model": "graduated", "tiers": TIERS}, version=2, at=MIDDLE, title="New")
    halves, whole = of_month(old, new, used=(20, 30)), of_month(old, used=(50,))
    assert sum(line.amount for line in halves) == whole[0].amount == 1000 + 200 + 2000


def test_fees_are_in_proportion_to_hours_and_the_minimum_is_made_up() -> None:
    old = plan({"meter": "bytes_in", "unit": "GiB", "price": "1"}, base_fee="30", minimum="100")
    new = plan({"meter": "bytes_in", "unit": "GiB", "price": "1"}, base_fee="60", minimum="200", version=2, at=MIDDLE)
    lines = of_month(old, new, used=(10, 10))
    assert [(line.kind, line.amount) for line in lines] == [
        ("base_fee", 1500), ("usage", 1000), ("base_fee", 3000), ("usage", 1000), ("minimum", 15000 - 6500),
    ]  # fmt: skip
    assert "minimum" not in {line.kind for line in of_month(old, used=(200,))}


def test_a_line_is_rounded_once_and_its_shares_sum_to_it() -> None:
    version = plan({"meter": "messages_in", "unit": "message", "price": "0.0033"})
    [line] = rate([Segment(START, END, version)], [{"messages_in": {"acme/a": 1, "acme/b": 1, "acme/c": 4}}], HOURS)
    assert line.amount == 2  # 1.98 cents
    assert [(share.namespace, share.amount) for share in line.shares] == [("acme/a", 1), ("acme/b", 0), ("acme/c", 1)]


def test_credits_that_expire_first_are_used_first_and_tax_is_on_the_rest() -> None:
    credits = [Credit("b", "", 500), Credit("a", "", 300, "2026-05-31")]
    totals = totals_of([600, 100], credits, Tax("VAT", "19"))
    assert totals.credits == (UsedCredit("a", "", 300), UsedCredit("b", "", 400))
    assert (totals.subtotal, totals.tax, totals.total) == (700, 0, 0)
    assert totals_of([1000], credits[1:], Tax("VAT", "19")).total == 700 + 133
    assert totals_of([-1000], credits, Tax("VAT", "19")).total == -1190  # a credit note uses none


def test_late_usage_is_the_difference_and_little_of_it_is_forgiven() -> None:
    version = plan({"meter": "bytes_in", "unit": "GiB", "price": "1"}, base_fee="30")
    before, after = of_month(version, used=(10,)), of_month(version, used=(12,))
    billed = {line.id: LineBalance(line.amount) for line in before}
    [more] = adjustments("2026-1", (START, END), billed, after, ["run-9"])
    assert (more.amount, more.of_invoice, more.runs, more.start, more.kind) == (200, "2026-1", ("run-9",), START, "adjustment")
    assert adjustments("2026-1", (START, END), billed, after, [], forgiven=200) == []
    [less] = adjustments("2026-1", (START, END), {line.id: LineBalance(line.amount) for line in after}, before, [], forgiven=200)
    assert less.amount == -200
    gone = adjustments("2026-1", (START, END), billed, [], [])
    assert sum(line.amount for line in gone) == -4000
    assert adjustments("2026-1", (START, END), billed, before, []) == []


def test_segments_follow_plans_and_versions() -> None:
    first, second = plan(), plan(version=2, at=MIDDLE)
    other = plan_from({"plan": "q", "version": 1, "currency": "EUR", "in_force_from": START.isoformat()})
    later = datetime(2026, 4, 20, tzinfo=UTC)
    segments = segments_of(START, END, [(START, "p"), (later, "q")], {"p": [second, first], "q": [other]})
    assert [(segment.start, segment.end, segment.version.plan, segment.version.version) for segment in segments] == [
        (START, MIDDLE, "p", 1), (MIDDLE, later, "p", 2), (later, END, "q", 1),
    ]  # fmt: skip
    assert segments_of(START, END, [], {"p": [first]}) == []
    assert [segment.start for segment in segments_of(START, END, [(MIDDLE, "p")], {"p": [first]})] == [MIDDLE]
    dollars = plan_from({"plan": "d", "version": 1, "currency": "USD", "in_force_from": START.isoformat()})
    with pytest.raises(RatingError, match="EUR and USD"):
        segments_of(START, END, [(START, "p"), (later, "d")], {"p": [first], "d": [dollars]})


@pytest.mark.parametrize(("year", "month", "hours"), [(2028, 2, 29 * 24), (2026, 2, 28 * 24), (2026, 12, 31 * 24)])
def test_months_have_their_length(year: int, month: int, hours: int) -> None:
    start, end = month_of(datetime(year, month, 17, 5, tzinfo=UTC))
    assert (end - start).total_seconds() == hours * 3600 and start.month == month


def test_money_is_rounded_away_from_zero_at_the_half() -> None:
    amounts = ["0.005", "0.0049", "-0.005", "1.015", "2.675"]
    assert [round_to_minor(Fraction(amount), "EUR") for amount in amounts] == [1, 0, -1, 102, 268]
    assert round_to_minor(Fraction("0.5"), "JPY") == 1 and round_to_minor(Fraction("0.0005"), "KWD") == 1
    assert [money_text(1234, currency) for currency in ("EUR", "JPY", "KWD")] == ["12.34", "1234", "1.234"]
    assert money_text(-5, "EUR") == "-0.05" and minor_of("-0.05", "EUR", "amount") == -5
    with pytest.raises(RatingError, match="more than 0 digits"):
        minor_of("1.5", "JPY", "amount")


def tiered(*tiers: dict[str, str]) -> dict[str, Any]:
    return {"prices": [{"meter": "bytes_in", "unit": "GiB", "model": "graduated", "tiers": list(tiers)}]}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"plan": "P"}, "name of a plan"), ({"version": 0}, "version '0'"), ({"version": True}, "version 'True'"),
        ({"currency": "XXX"}, "currency 'XXX'"), ({"in_force_from": "2026-04-01T00:30:00Z"}, "start of an hour"),
        ({"in_force_from": "2026-04-01T00:00:00"}, "time zone"), ({"base_fee": 3.5}, "base_fee"),
        ({"base_fee": "-1"}, "of 0 or more"),
        ({"minimum": "1e5"}, "minimum '1e5'"), ({"colour": 1}, "'colour'"), ({"prices": {}}, "not a list"),
        ({"prices": [{"meter": "bytes_in", "unit": "message", "price": "1"}]}, "unit of bytes"),
        ({"prices": [{"meter": "x", "unit": "message", "price": "1"}]}, "prices[0].meter 'x'"),
        ({"prices": [{"meter": "bytes_in", "unit": "GiB", "price": "1", "tiers": []}]}, "'tiers'"),
        (tiered({"up_to": "1", "price": "1"}), "the last has"), (tiered({"up_to": "0", "price": "1"}, {"price": "1"}), "above"),
        ({"prices": [{"meter": "bytes_in", "unit": "byte", "included": "0.5", "price": "1"}]}, "whole number of base units"),
        ({"prices": [{"meter": "bytes_in", "unit": "GiB", "model": "package", "package": "0", "price": "1"}]}, "package is 0"),
        ({"prices": [{"meter": "bytes_in", "unit": "GiB", "price": "1"}] * 2}, "2 prices for bytes_in"),
    ],
)  # fmt: skip
def test_a_plan_that_is_wrong_says_where(fields: dict[str, Any], says: str) -> None:
    right = {"plan": "p", "version": 1, "currency": "EUR", "in_force_from": "2026-04-01T00:00:00Z", "prices": []}
    plan_from(right)
    with pytest.raises(RatingError) as wrong:
        plan_from({**right, **fields})
    assert says in str(wrong.value)
