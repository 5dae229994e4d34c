"""Charges of topics handed out to subscriptions and keys. The parts of a charge sum to it exactly, in quantity and in cost.

What of a charge no part explains (storage, which is of all readers; clients that were not told apart) is nobody's in particular.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from heapq import nsmallest

from workers.billing import usage
from workers.rating.split import split

PARTS_OF_TOPIC_MAX = 50  # of a month; the smaller ones are nobody's in particular
PARTS_OF_TENANT_MAX = 20_000
NOBODY = ("", "")
ChargeKey = tuple[str, str, date, str]  # namespace, topic, day, meter
PartKey = tuple[str, str, str, str, date, str]  # namespace, topic, subscription, key, day, meter
Amounts = tuple[int, int]  # quantity, cost in 10^-9 of the currency
Place = tuple[str, str]  # namespace, topic
Part = tuple[str, str]  # subscription, key


def by_part(tenant_uid: str, charges: Mapping[ChargeKey, Amounts]) -> dict[PartKey, Amounts]:
    """`charges`: of one month."""
    days = sorted({key[2] for key in charges})
    if not days:
        return {}
    kept = largest(usage.parts_between(tenant_uid, _start(days[0]), _start(days[-1]) + timedelta(days=1)))
    of_day: dict[date, list[tuple[ChargeKey, Amounts]]] = {}
    for key, amounts in charges.items():
        of_day.setdefault(key[2], []).append((key, amounts))
    shares: dict[PartKey, Amounts] = {}
    for day in days:
        parts: dict[Place, list[usage.UsedPart]] = {}
        for used in usage.parts_between(tenant_uid, _start(day), _start(day) + timedelta(days=1)):
            parts.setdefault((used.namespace, used.topic), []).append(used)
        for (namespace, topic, _, meter), amounts in of_day[day]:
            weights: dict[Part, int] = {}
            for used in parts.get((namespace, topic), ()):
                part = (used.subscription, used.key) if (namespace, topic, used.subscription, used.key) in kept else NOBODY
                weights[part] = weights.get(part, 0) + used.quantities.get(meter, 0)
            for (subscription, name), given in handed_out(amounts, weights).items():
                shares[namespace, topic, subscription, name, day, meter] = given
    return shares


def handed_out(amounts: Amounts, weights: Mapping[Part, int]) -> dict[Part, Amounts]:
    """Parts with nothing are left out. Where parts explain more than there is (the backlog of a topic is that of the subscription
    that has most), the quantity is divided in their proportion."""
    quantity, nano = amounts
    used = {part: weight for part, weight in weights.items() if weight}
    explained = sum(used.values())
    if not used or not quantity:
        return {NOBODY: amounts}
    if explained > quantity:
        used = {part: given for part, given in split(quantity, used).items() if given}
    elif explained < quantity:
        used[NOBODY] = used.get(NOBODY, 0) + quantity - explained
    costs = split(nano, used)
    return {part: (given, costs[part]) for part, given in used.items()}


def largest(parts: Iterable[usage.UsedPart]) -> set[tuple[str, str, str, str]]:
    """(namespace, topic, subscription, key) of those that are told apart."""
    topics: dict[Place, list[tuple[int, Part]]] = {}
    for used in parts:
        topics.setdefault((used.namespace, used.topic), []).append((-used.size, (used.subscription, used.key)))
    ranked = [(size, place, part) for place, of_topic in topics.items() for size, part in nsmallest(PARTS_OF_TOPIC_MAX, of_topic)]
    return {(*place, *part) for _, place, part in nsmallest(PARTS_OF_TENANT_MAX, ranked)}


def _start(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
