"""Which bundles the leader moves, so that no broker has much more to do than the others.

The rule cannot oscillate: a move is made only if the broker that takes the bundle has less to do afterwards than the one that gave
it had before, so the greatest load falls with each move, and no bundle moves back soon.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from messaging.broker.core.ownership.placement import EVERYWHERE, PlacementRules
from messaging.storage.ownership import NamespaceBundle

ABOVE_MEAN = 1.15  # what a broker may have to do, of the mean of all
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
    """`loads`: what each live broker's bundles that can move cost it, in any one unit; `moved_ms`: when each last moved. One
    move at most for each broker that gives, and for each that takes."""
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
            moved_lately = now_ms - moved_ms.get(bundle, now_ms - AGAIN_MS) < AGAIN_MS
            if taker is not None and load > 0 and total[taker] + load < total[giver] and not moved_lately:
                movable.append((abs(load - excess), bundle, taker))
        if movable:
            _, bundle, taker = min(movable)
            chosen.append(BundleMove(bundle, giver, taker))
            takers.remove(taker)
            if giver in takers:
                takers.remove(giver)
    return chosen
