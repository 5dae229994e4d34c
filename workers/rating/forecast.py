"""What a running month will have cost, from its days so far: an estimate with bounds. Pure, in whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

DAYS_LOOKED_AT = 28
SPREAD = 2  # standard deviations: about 19 of 20 months end within the bounds, if days do not depend on each other


@dataclass(frozen=True)
class Forecast:
    """`so_far` is in the charges; `low` and `high` bound `likely`. `days`: how many whole days the estimate was made from."""

    so_far: int
    low: int
    likely: int
    high: int
    days: int

    @property
    def known(self) -> bool:
        """Whether `likely` is an estimate: without a whole day it is what was spent, which says nothing of what is to come. Where
        nothing was spent, nothing more is likely."""
        return self.days > 0 or not self.so_far

    @property
    def bounded(self) -> bool:
        """Whether `low` and `high` are bounds: one day does not say how much days differ."""
        return self.days > 1


def forecast(so_far: int, days: Sequence[int], days_left: int) -> Forecast:
    """`days`: cost of whole days before now, the newest last, fees left out. Without any, what is left is taken as 0, with no
    knowledge of how wrong that is: `days` says so."""
    seen = list(days)[-DAYS_LOOKED_AT:]
    if not seen or days_left <= 0:
        return Forecast(so_far, so_far, so_far, so_far, len(seen))
    mean = sum(seen) // len(seen)
    variance = sum((day - mean) ** 2 for day in seen) // max(1, len(seen) - 1)
    # The mean itself is uncertain, the more so the fewer days it is of.
    off = SPREAD * isqrt(variance * days_left * (len(seen) + days_left) // len(seen))
    likely = so_far + mean * days_left
    return Forecast(so_far, max(so_far, likely - off), likely, likely + off, len(seen))


def crossed(thresholds: Sequence[int], amount: int, budget: int) -> list[int]:
    """Thresholds, in per cent of the budget, that the amount has reached."""
    return [threshold for threshold in sorted(thresholds) if budget > 0 and amount * 100 >= threshold * budget]
