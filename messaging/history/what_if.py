"""What a policy would have done to traffic that was recorded. Pure: cells of history and the values of a policy in, bounds out.

History has sums of minutes or hours and a few peaks, so most answers are two: for at least, and for at most how long. Both hold if
clients had sent and asked for the same, whatever came when within a step. What history does not record is told as unknown by the
caller: a policy that is not in `REPLAYED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

from messaging.history.cells import Cell
from messaging.history.points import COLUMNS, OLDEST_UNKNOWN

_INDEX = {name: index for index, name in enumerate(COLUMNS)}
_EVICTS = "consumer_backlog_eviction"
Values = Mapping[str, Any]  # policy -> the value that would be in force


class Outcome(StrEnum):
    """What a policy does to whoever it meets."""

    PUBLISHING_HELD = "publishing_held"
    DELIVERY_HELD = "delivery_held"
    PUBLISHING_REFUSED = "publishing_refused"
    EVICTED = "evicted"
    EXPIRED = "expired"
    PRODUCERS_REFUSED = "producers_refused"
    CONSUMERS_REFUSED = "consumers_refused"
    DELETED = "deleted"


class Scope(StrEnum):
    """What a policy counts together: which series it is held against."""

    SUBSCRIPTION = "subscription"
    TOPIC = "topic"
    NAMESPACE = "namespace"
    TENANT = "tenant"


class Bounds(NamedTuple):
    """For how long. `most_seen`: the highest of what the policy limits, in its own terms (a second, ms, bytes, a count); None: it
    was not recorded."""

    at_least_ms: int
    at_most_ms: int
    most_seen: float | None


class Replayed(NamedTuple):
    """`limit`: in the terms of `Bounds.most_seen`; None: none, so nothing comes of it. `of_time`: both are ms."""

    scope: Scope
    outcome: Callable[[Values], Outcome]
    limit: Callable[[Values], float | None]
    bounds: Callable[[Sequence[Cell], float], Bounds]
    of_time: bool = False


def known_ms(cells: Sequence[Cell]) -> int:
    return sum(min(cell.known_ms, cell.width_ms) for cell in cells)


def throttled_ms(cells: Sequence[Cell]) -> int:
    """How long a rate limit of then held something back: what would have come without it, nobody knows."""
    return sum(min(_value(cell, "throttled_ms"), cell.known_ms) for cell in cells)


def held_by_rate(cells: Sequence[Cell], limit: float, amount: str, peak: str = "") -> Bounds:
    """`limit`: of `amount` a second, above 0. What comes beyond it waits, and goes on at that rate.

    At least: everything beyond the limit came at the very end of its step, and is what is carried into the next one. At most: all
    of a step came at once, or at its peak, and what holds the others is no longer busy than the work there is."""
    a_ms = limit / 1000
    least = most = waiting_least = waiting_most = 0.0
    highest: float | None = None
    for cell in cells:
        width = min(cell.known_ms, cell.width_ms)
        waiting_least = max(0.0, waiting_least - a_ms * (cell.width_ms - width))
        if not width:
            continue
        came = _value(cell, amount)
        mean = came * 1000 / width
        fastest = max(mean, _value(cell, peak)) if peak and (_value(cell, peak) or not came) else inf
        highest = max(highest or 0.0, mean if fastest is inf else fastest)
        least += min(width, waiting_least / a_ms)
        if waiting_most > 0 or (came and fastest > limit):
            most += min(width, (waiting_most + came) / a_ms)
        bunched = came * (1 - limit / fastest) if came and fastest > limit else 0.0  # limit / inf is 0
        waiting_least = max(0.0, waiting_least + came - a_ms * width)
        waiting_most = max(0.0, waiting_most + came - a_ms * width, bunched)
    return Bounds(int(least), int(max(least, most)), highest)


def over_age(cells: Sequence[Cell], limit_ms: float) -> Bounds:
    """How long something older than this waited for an acknowledgement. At least: as the oldest message at the end of each step
    says, which is right as long as no subscription was moved back."""
    least = most = 0.0
    highest: float | None = None
    for cell in cells:
        if not cell.held:
            continue
        held, age, oldest = min(cell.held_ms, cell.width_ms), _value(cell, "age_max_ms"), _value(cell, "oldest_ms")
        if oldest == OLDEST_UNKNOWN and not age:
            most += held
            continue
        highest = max(highest or 0.0, age)
        if age > limit_ms:
            most += held
            if oldest > OLDEST_UNKNOWN:
                least += min(held, max(0.0, cell.until_ms - oldest - limit_ms))
    return Bounds(int(least), int(most), highest)


def over_stored(cells: Sequence[Cell], limit: float) -> Bounds:
    """How long a backlog can have been so many bytes or more: a quota that is reached refuses the next message. It is counted in
    entries, so that no lower bound is known; it is no larger than what was stored."""
    most, highest = 0, None
    for cell in cells:
        if cell.held:
            stored = _value(cell, "stored_bytes") if _value(cell, "backlog_max") else 0
            highest = max(highest or 0, stored)
            most += min(cell.held_ms, cell.width_ms) if stored >= limit else 0
    return Bounds(0, most, highest)


def over_count(cells: Sequence[Cell], limit: float, what: str) -> Bounds:
    """How long there were more than `limit`, as they were seen at the ends of steps: at both ends of one, or at one of them."""
    held = [(cell, _value(cell, what)) for cell in cells if cell.held]
    least = most = 0
    for (before, count_before), (cell, count) in pairwise(held):
        if before.until_ms != cell.from_ms:
            continue
        width = min(cell.held_ms, cell.width_ms)
        least += width if min(count_before, count) > limit else 0
        most += width if max(count_before, count) > limit else 0
    if held and held[0][1] > limit:
        most += min(held[0][0].held_ms, held[0][0].width_ms)
    return Bounds(least, most, max((count for _, count in held), default=None))


def unused(cells: Sequence[Cell], limit_ms: float, counters: Sequence[str], members: Sequence[str]) -> Bounds:
    """The longest time that nobody was there and nothing went through; `most_seen` is that. Who came and went within a step,
    without a message, was not seen: there is no lower bound."""
    longest = run = 0
    for cell in cells:
        idle = cell.held and not any(_value(cell, name) for name in (*counters, *members))
        run = run + min(cell.held_ms, cell.width_ms) if idle else 0
        longest = max(longest, run)
    return Bounds(0, int(max(0, longest - limit_ms)), longest)


def kept_bytes(cells: Sequence[Cell]) -> int:
    """What came in: retention for the time of these cells keeps no more of it."""
    return sum(_value(cell, "bytes_in") for cell in cells)


def _value(cell: Cell, column: str) -> int:
    return cell.values[_INDEX[column]]


def _positive(policy: str, factor: float = 1) -> Callable[[Values], float | None]:
    """A limit of which 0 and -1 mean that there is none."""

    def limit(values: Values) -> float | None:
        return values[policy] * factor if values[policy] > 0 else None

    return limit


def _quota(policy: str, factor: float = 1) -> Callable[[Values], float | None]:
    """A limit of which 0 is one, too."""

    def limit(values: Values) -> float | None:
        return values[policy] * factor if values[policy] >= 0 else None

    return limit


def _a_second(prefix: str, unit: str) -> Callable[[Values], float | None]:
    """Of a rate with a period."""

    def limit(values: Values) -> float | None:
        number = values[f"{prefix}_{unit}"]
        return number / max(1, values[f"{prefix}_period_s"]) if number > 0 else None

    return limit


def _inactive(values: Values) -> float | None:
    return values["inactive_topic_after_s"] * 1000 if values["inactive_topic_delete"] else None


def _always(outcome: Outcome) -> Callable[[Values], Outcome]:
    return lambda values: outcome


def _quota_outcome(policy: str) -> Callable[[Values], Outcome]:
    return lambda values: Outcome.EVICTED if values[policy] == _EVICTS else Outcome.PUBLISHING_REFUSED


def _rate(scope: Scope, limit: Callable[[Values], float | None], direction: str, unit: str) -> Replayed:
    outcome = Outcome.PUBLISHING_HELD if direction == "in" else Outcome.DELIVERY_HELD
    peak = f"{direction}_peak" if unit == "messages" and scope is Scope.TOPIC else ""  # others have none of their own
    amount = f"{unit}_{direction}"
    return Replayed(scope, _always(outcome), limit, lambda cells, most: held_by_rate(cells, most, amount, peak))


def _members(scope: Scope, policy: str, what: str) -> Replayed:
    outcome = Outcome.PRODUCERS_REFUSED if what == "producers" else Outcome.CONSUMERS_REFUSED
    return Replayed(scope, _always(outcome), _positive(policy), lambda cells, most: over_count(cells, most, what))


def _rates() -> dict[str, Replayed]:
    table = {}
    for unit in ("messages", "bytes"):
        for direction, verb in (("in", "publish"), ("out", "dispatch")):
            for scope in (Scope.NAMESPACE, Scope.TENANT):
                name = f"{scope}_{verb}_rate_{unit}"
                table[name] = _rate(scope, _positive(name), direction, unit)
        table[f"publish_rate_{unit}"] = _rate(Scope.TOPIC, _positive(f"publish_rate_{unit}"), "in", unit)
        table[f"dispatch_rate_{unit}"] = _rate(Scope.TOPIC, _a_second("dispatch_rate", unit), "out", unit)
        name = "subscription_dispatch_rate"
        table[f"{name}_{unit}"] = _rate(Scope.SUBSCRIPTION, _a_second(name, unit), "out", unit)
    return table


REPLAYED: Mapping[str, Replayed] = {
    **_rates(),
    "backlog_quota_bytes": Replayed(
        Scope.TOPIC, _quota_outcome("backlog_quota_bytes_policy"), _quota("backlog_quota_bytes"), over_stored
    ),
    "backlog_quota_age_s": Replayed(
        Scope.TOPIC, _quota_outcome("backlog_quota_age_policy"), _quota("backlog_quota_age_s", 1000), over_age, of_time=True
    ),
    "message_ttl_s": Replayed(
        Scope.SUBSCRIPTION, _always(Outcome.EXPIRED), _positive("message_ttl_s", 1000), over_age, of_time=True
    ),
    "max_producers_per_topic": _members(Scope.TOPIC, "max_producers_per_topic", "producers"),
    "max_consumers_per_topic": _members(Scope.TOPIC, "max_consumers_per_topic", "consumers"),
    "max_consumers_per_subscription": _members(Scope.SUBSCRIPTION, "max_consumers_per_subscription", "consumers"),
    **{
        f"max_{what}_per_{scope}": _members(scope, f"max_{what}_per_{scope}", what)
        for scope in (Scope.NAMESPACE, Scope.TENANT)
        for what in ("producers", "consumers")
    },
    "subscription_expiration_min": Replayed(
        Scope.SUBSCRIPTION,
        _always(Outcome.DELETED),
        _positive("subscription_expiration_min", 60_000),
        lambda cells, most: unused(cells, most, ("messages_out",), ("consumers",)),
        of_time=True,
    ),
    "inactive_topic_after_s": Replayed(
        Scope.TOPIC,
        _always(Outcome.DELETED),
        _inactive,
        lambda cells, most: unused(cells, most, ("messages_in", "messages_out"), ("producers", "consumers")),
        of_time=True,
    ),
}
_DISPATCH = ("dispatch_rate", "subscription_dispatch_rate")
# What else decides about them: a change of it is held against history with theirs.
DECIDES: Mapping[str, Sequence[str]] = {
    "backlog_quota_bytes_policy": ("backlog_quota_bytes",),
    "backlog_quota_age_policy": ("backlog_quota_age_s",),
    "inactive_topic_delete": ("inactive_topic_after_s",),
    **{f"{rate}_{field}": (f"{rate}_messages", f"{rate}_bytes") for rate in _DISPATCH for field in ("period_s", "relative")},
}


def replayed_of(changed: Iterable[str]) -> tuple[list[str], list[str]]:
    """Of policies that change: those to hold against history, and those that history says nothing of."""
    names = [name for policy in changed for name in DECIDES.get(policy, (policy,))]
    ordered = list(dict.fromkeys(names))
    return [name for name in ordered if name in REPLAYED], [name for name in ordered if name not in REPLAYED]


def decided_by(policies: Iterable[str]) -> set[str]:
    """The policies whose values decide about these."""
    names = set(policies)
    return names | {policy for policy, about in DECIDES.items() if names & set(about)}


def is_relative(policy: str, values: Values) -> bool:
    """Whether its limit moves with the rate of publishing, so that none can be held against history."""
    return bool(values.get(f"{policy.rpartition('_')[0]}_relative"))
