"""Which bundles the leader moves, so that no broker has much more to do than the others, nor many more bundles.

The rule cannot oscillate. A move by load is made only if the broker that takes the bundle has less to do afterwards than the one
that gave it had before, so the sum of the squares of all loads falls. A move by count never raises that sum, and lets the sum of
the squares of all counts fall. So both come to an end while loads stay as they are, and no bundle moves back soon.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import NamedTuple

from messaging.broker.core.ownership.placement import EVERYWHERE, PlacementRules
from messaging.storage.ownership import NamespaceBundle

ABOVE_MEAN = 1.15  # what a broker may have to do, of the mean of all
EVENED_MAX = 8  # moves by count in one round: of bundles that carry little, so that a broker that is back has its share in minutes
AGAIN_MS = 5 * 60_000  # no bundle moves twice within this time


class BundleMove(NamedTuple):
    bundle: NamespaceBundle
    giver: str
    taker: str


def moves(
    loads: Mapping[str, Mapping[NamespaceBundle, float]],
    moved_ms: Mapping[NamespaceBundle, int],
    now_ms: int,
    rules: PlacementRules = EVERYWHERE,
) -> list[BundleMove]:
    """`loads`: what each live broker's bundles that can move cost it, in any one unit; `moved_ms`: when each last moved. By
    load one move at most for each broker that gives, and for each that takes; then up to `EVENED_MAX` by count."""
    chosen = _by_load(loads, moved_ms, now_ms, rules)
    return chosen + _by_count(loads, chosen, moved_ms, now_ms, rules)


def _by_load(
    loads: Mapping[str, Mapping[NamespaceBundle, float]],
    moved_ms: Mapping[NamespaceBundle, int],
    now_ms: int,
    rules: PlacementRules,
) -> list[BundleMove]:
    total = {broker_id: sum(bundles.values()) for broker_id, bundles in loads.items()}
    if len(total) < 2:
        return []
    mean = sum(total.values()) / len(total)
    chosen: list[BundleMove] = []
    takers = sorted(total, key=lambda broker_id: (total[broker_id], broker_id))
    for giver in sorted(total, key=lambda broker_id: (-total[broker_id], broker_id)):
        if total[giver] <= mean * ABOVE_MEAN or not takers or takers[0] == giver:
            break
        excess = total[giver] - mean
        movable = []
        for bundle, load in loads[giver].items():
            taker = next(iter(rules.allowed(bundle.namespace, [each for each in takers if each != giver], giver)), None)
            moved_lately = _moved_lately(bundle, moved_ms, now_ms)
            if taker is not None and load > 0 and total[taker] + load < total[giver] and not moved_lately:
                movable.append((abs(load - excess), bundle, taker))
        if movable:
            _, bundle, taker = min(movable)
            chosen.append(BundleMove(bundle, giver, taker))
            takers.remove(taker)
            if giver in takers:
                takers.remove(giver)
    return chosen


def _by_count(
    loads: Mapping[str, Mapping[NamespaceBundle, float]],
    before: list[BundleMove],
    moved_ms: Mapping[NamespaceBundle, int],
    now_ms: int,
    rules: PlacementRules,
) -> list[BundleMove]:
    """`before`: what moves anyway. Bundles that carry least go first, from whoever has most of them."""
    total = {broker_id: sum(bundles.values()) for broker_id, bundles in loads.items()}
    count = {broker_id: len(bundles) for broker_id, bundles in loads.items()}
    for move in before:
        load = loads[move.giver][move.bundle]
        total[move.giver], total[move.taker] = total[move.giver] - load, total[move.taker] + load
        count[move.giver], count[move.taker] = count[move.giver] - 1, count[move.taker] + 1
    most = max(1, sum(count.values())) / max(1, len(count)) * ABOVE_MEAN
    moved = {move.bundle for move in before}
    chosen: list[BundleMove] = []
    for giver in sorted(count, key=lambda broker_id: (-count[broker_id], broker_id)):
        if count[giver] <= most:
            break
        quiet = (
            (load, bundle)
            for bundle, load in loads[giver].items()
            if bundle not in moved and not _moved_lately(bundle, moved_ms, now_ms)
        )
        for load, bundle in heapq.nsmallest(EVENED_MAX, quiet):
            takers = sorted(
                (
                    broker_id
                    for broker_id in count
                    if count[broker_id] + 2 <= count[giver] and (load == 0 or total[broker_id] + load <= total[giver])
                ),
                key=lambda broker_id: (count[broker_id], total[broker_id], broker_id),
            )
            taker = next(iter(rules.allowed(bundle.namespace, takers, giver)), None)
            if count[giver] <= most or len(chosen) == EVENED_MAX:
                break
            if taker is not None:
                chosen.append(BundleMove(bundle, giver, taker))
                total[giver], total[taker] = total[giver] - load, total[taker] + load
                count[giver], count[taker] = count[giver] - 1, count[taker] + 1
    return chosen


def _moved_lately(bundle: NamespaceBundle, moved_ms: Mapping[NamespaceBundle, int], now_ms: int) -> bool:
    return now_ms - moved_ms.get(bundle, now_ms - AGAIN_MS) < AGAIN_MS
