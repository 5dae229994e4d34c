"""What the pages of usage, costs and bills must show, by what clients did and the plan that they pay by.

A second of storage and of a backlog is counted at most from the moment when the clients began, and at least from the one when all
was sent, up to the last usage that was written before the broker stood still.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tests.compat.console.clients import FAILING, JOBS, LETTERS, PARTS, PAYLOAD_BYTES, PLACED, STEADY, TENANT, TYPED, World
from tests.compat.console.pages import Shown
from tests.compat.console.table import OVERHEAD_BYTES, SUBSCRIPTIONS, Range, exactly

FEE, BUDGET, CAP = 5.0, 20_000.0, 40_000.0  # EUR
PRICES = {  # meter -> unit, base units in it, EUR
    "messages_in": ("message", 1, 1.0),
    "bytes_in": ("MB", 10**6, 100.0),
    "messages_out": ("message", 1, 2.0),
    "bytes_out": ("MB", 10**6, 200.0),
    "stored_byte_seconds": ("GiB-hour", 2**30 * 3_600, 10_000_000.0),
    "backlog_entry_seconds": ("entry-hour", 3_600, 300.0),
}
PLAN: dict[str, Any] = {
    "plan": "truth",
    "version": 1,
    "currency": "EUR",
    "in_force_from": "2026-01-01T00:00:00Z",
    "base_fee": str(FEE),
    "prices": [{"meter": meter, "unit": unit, "price": str(price)} for meter, (unit, _, price) in PRICES.items()],
}
TITLES = {
    "messages_in": "Messages published",
    "bytes_in": "Bytes published",
    "messages_out": "Messages delivered",
    "bytes_out": "Bytes delivered",
    "stored_byte_seconds": "Storage",
    "backlog_entry_seconds": "Backlog",
}
METERS = {title: meter for meter, title in TITLES.items()}
TOPICS = (PLACED, PARTS, FAILING, JOBS, TYPED, STEADY, LETTERS)
FEES, REST = "fees and other", "everything else"
CENT = 0.01
LOOK_S = 1.0  # what is kept is looked at that often, and counts for the time since the look before


class Computed(NamedTuple):
    """Of the moment when usage was written, and of the one when the broker stood still."""

    world: World
    steady_sent: int  # by then, at least
    flushed_s: float
    stopped_s: float


def _plus(*ranges: Range) -> Range:
    return Range(sum(one.least for one in ranges), sum(one.most for one in ranges))


def _times(one: Range, least: float, most: float) -> Range:
    return Range(one.least * least, one.most * most)


def _out(of: Computed, topic: str) -> Range:
    world = of.world
    if topic == STEADY:
        return Range(0 if world.restarted else 1, world.sent[STEADY] + 1_000 * (world.restarted + world.stood_still))
    if topic == FAILING:
        return exactly(6)
    again = world.received[PLACED, "billing"] - world.acknowledged[PLACED, "billing"]
    least = world.received[PLACED, "billing"] if topic == PLACED else 0
    return Range(least, least + again * (world.restarted + world.stood_still) * (topic == PLACED))


def _seconds(of: Computed) -> tuple[float, float]:
    """Nothing is counted while no broker is there, which may have been for long, where one was killed."""
    least_s = 0 if of.world.restarted else max(0.0, of.flushed_s - of.world.done_s - LOOK_S)
    return least_s, of.stopped_s - of.world.began_s + LOOK_S


def used(of: Computed, topic: str, meter: str) -> Range:
    """In base units."""
    world, sent = of.world, Range(of.world.sent[topic], of.world.sent[topic])
    if topic == STEADY:
        sent = Range(1 if world.restarted else of.steady_sent, world.sent[STEADY])
    smallest = 20 if topic == TYPED else PAYLOAD_BYTES
    if meter == "messages_in":
        return sent
    if meter == "bytes_in":
        return _times(sent, smallest, PAYLOAD_BYTES + OVERHEAD_BYTES)
    if meter == "messages_out":
        return _out(of, topic)
    if meter == "bytes_out":
        return _times(_out(of, topic), smallest, PAYLOAD_BYTES + OVERHEAD_BYTES)
    least_s, most_s = _seconds(of)
    if meter == "stored_byte_seconds":
        kept = sent if topic not in (STEADY, FAILING, TYPED) else Range(0, sent.most)  # what is acknowledged may go
        return Range(kept.least * smallest * least_s, (kept.most + 2) * (PAYLOAD_BYTES + OVERHEAD_BYTES) * most_s)
    waiting = [world.backlog(*where) for where in SUBSCRIPTIONS.values() if where[0] == topic and topic not in (STEADY, FAILING)]
    left = max(waiting, default=world.left_over(topic))
    most = world.sent[STEADY] if topic == STEADY else world.sent[topic]  # before they were acknowledged
    return Range(left * least_s, most * most_s)


def all_used(of: Computed, meter: str) -> Range:
    return _plus(*(used(of, topic, meter) for topic in TOPICS))


def cost(quantity: Range, meter: str) -> Range:
    """Cut to the cent, and so may be one less."""
    _, size, price = PRICES[meter]
    return Range(quantity.least / size * price - CENT, quantity.most / size * price + CENT)


def cost_of(of: Computed, topic: str) -> Range:
    return _plus(*(cost(used(of, topic, meter), meter) for meter in PRICES))


def total(of: Computed) -> Range:
    return _plus(exactly(FEE), *(cost_of(of, topic) for topic in TOPICS))


def topic_named(name: str) -> str:
    """Whose partition or own name it is."""
    return "persistent://" + re.sub(r"-partition-\d+$", "", name.removeprefix("persistent://"))


def _cost_row(of: Computed, one: Shown) -> Range:
    """The page's name says what it sums by."""
    by = one.page.rpartition(" ")[2]
    if by == "tenant":
        return total(of) if one.row == TENANT else exactly(0)
    if one.row == FEES:
        return exactly(FEE)
    if by == "namespace":
        return _plus(total(of), exactly(-FEE))
    if by == "topic" and one.row == REST:
        return Range(0, total(of).most)  # the eighth and others; all rows together are the total
    if by == "topic":
        share = cost_of(of, topic_named(one.row))
        return Range(0, share.most) if "-partition-" in one.row else share
    if by == "meter":
        fees = exactly(FEE if one.row == "Base fee" else 0)  # connections and API calls have no price
        return cost(all_used(of, METERS[one.row]), METERS[one.row]) if one.row in METERS else fees
    return Range(0, total(of).most)  # of subscriptions and keys, which sum to all: the test of them


def _used_of(of: Computed, row: str, by: str, meter: str) -> Range:
    if by == "topic":
        found = used(of, topic_named(row), meter)
        return Range(0, found.most) if "-partition-" in row else found
    return all_used(of, meter)


def _cost_used(of: Computed, one: Shown) -> Range:
    """The first that is named: messages, where there are any."""
    by = one.page.rpartition(" ")[2]
    counted = by in ("tenant", "namespace", "topic") and one.row not in (FEES, REST) and one.text.startswith(TITLES["messages_in"])
    return _used_of(of, one.row, by, "messages_in") if counted else Range(0, float("inf"))


def _line(one: Shown) -> str:
    return METERS.get(one.row, "")


def _unit_quantity(quantity: Range, meter: str) -> Range:
    """Cut to six digits."""
    size = PRICES[meter][1]
    return Range(quantity.least / size - 1e-6, quantity.most / size)


def _drill(one: Shown) -> str:
    """The line of the invoice that the page is of."""
    return one.page.rpartition(" ")[2]


def _down_topic(of: Computed, one: Shown) -> Range:
    return _used_of(of, one.row, "topic", _drill(one))


def _usage_row(meter: str, of: Computed, one: Shown) -> Range:
    return _used_of(of, one.row, one.page.rpartition(" ")[2], meter)


def _percent(part: Range, whole: Range) -> Range:
    return Range(100 * part.least / whole.most - 1, 100 * part.most / whole.least + 1)


Expected = Callable[[Computed, Shown], Range]
BILLS: dict[str, Expected] = {  # of the first number of each
    **{f"usage.{meter}": partial(_usage_row, meter) for meter in ("messages_in", "bytes_in", "messages_out", "bytes_out")},
    "usage.stored_bytes": lambda of, one: _times(_usage_row("stored_byte_seconds", of, one), 0, 1 / 3_600),
    "usage.api_calls": lambda of, one: Range(0, 1_000) if one.page == "usage tenant" else exactly(0),
    "costs.total": lambda of, one: total(of),
    "costs.rows.cost": _cost_row,
    "costs.rows.part": lambda of, one: _percent(_cost_row(of, one), total(of)),
    "costs.rows.used": _cost_used,
    "month_ahead.so_far": lambda of, one: total(of),
    "month_ahead.likely": lambda of, one: Range(total(of).least, float("inf")),
    "month_ahead.bounds": lambda of, one: Range(0, float("inf")),
    "budgets.amount": lambda of, one: exactly(BUDGET),
    "budgets.so_far": lambda of, one: total(of),
    "budgets.likely": lambda of, one: Range(total(of).least, float("inf")),
    "spend_caps.spent": lambda of, one: total(of),
    "spend_caps.amount": lambda of, one: exactly(CAP),
    "spend_caps.percent": lambda of, one: _percent(total(of), exactly(CAP)),
    "invoices.total": lambda of, one: total(of),
    "invoice.total": lambda of, one: total(of),
    "invoice.sums": lambda of, one: total(of),
    "invoice.lines.quantity": lambda of, one: _unit_quantity(all_used(of, _line(one)), _line(one)),
    "invoice.lines.amount": lambda of, one: cost(all_used(of, _line(one)), _line(one)) if _line(one) else exactly(FEE),
    "invoice.topics.quantity": lambda of, one: _unit_quantity(_down_topic(of, one), _drill(one)),
    "invoice.topics.amount": lambda of, one: cost(_down_topic(of, one), _drill(one)),
    "invoice.hours.quantity": lambda of, one: _unit_quantity(all_used(of, _drill(one)), _drill(one)),
    "invoice.down.hours": lambda of, one: Range(1, 2),
    "invoice.down.files": lambda of, one: Range(1, 10_000),
}


def first_number(one: Shown) -> float | None:
    """Of bytes and seconds in their base unit; of prices as it is written."""
    if one.hook.startswith("usage."):
        return one.numbers[0] if one.numbers else None
    found = re.search(r"-?\d[\d,]*(?:\.\d+)?", one.text)
    if one.text.startswith("<"):
        return 0.0  # some, but less than can be shown
    return float(found[0].replace(",", "")) if found else None


def wrong(of: Computed, one: Shown) -> str:
    """What is wrong with it, or ""."""
    number = first_number(one)
    if number is None:
        return "" if one.text == "" or "not known" in one.text or "no whole day" in one.text else f"{one} has no number"
    expected = BILLS[one.hook](of, one)
    return "" if number in expected else f"{one.page}: {one.hook} of {one.row!r} is {one.text!r}, not {expected}"


ADDRESSES = {
    **{f"usage {by}": f"/usage?by={by}" for by in ("tenant", "namespace", "topic")},
    **{f"costs {by}": f"/costs?tenant={TENANT}&by={by}" for by in ("tenant", "namespace", "topic", "meter", "subscription", "key")},
    "month": f"/tenants/{TENANT}/month",
    "budgets": f"/tenants/{TENANT}/budgets",
    "spend caps": f"/tenants/{TENANT}/spend-caps",
    "invoices": f"/tenants/{TENANT}/invoices",
}
