"""How brokers divide a rate limit that holds over all of them. Pure.

Each computes the parts of all from what all said a moment ago, so they come to about the same parts, which always add up to the
whole. Those that want more share equally what the others leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

HEADROOM = 1.2  # a broker whose senders do not wait may send so much more than it did, before the parts are made anew
LEAST = 0.05  # of the limit: what one may begin with that has sent nothing


class RateDemand(NamedTuple):
    """`used`: part of the whole limit that was sent. `waits`: senders wait for more."""

    used: float
    waits: bool


def parts(demands: Sequence[RateDemand]) -> list[float]:
    """The part of each, in their order; together 1."""
    wanted = [1.0 if demand.waits else min(1.0, demand.used * HEADROOM + LEAST) for demand in demands]
    shares = [0.0] * len(demands)
    left, open_to = 1.0, sorted(range(len(demands)), key=lambda index: wanted[index])
    while open_to:
        equal = left / len(open_to)
        index = open_to[0]
        if wanted[index] >= equal:
            for rest in open_to:
                shares[rest] = equal
            return shares
        shares[index] = wanted[index]
        left -= wanted[index]
        open_to.pop(0)
    return [share + left / len(shares) for share in shares]
