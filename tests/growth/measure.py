"""How the steps of an entry point grow."""

from __future__ import annotations

from typing import NamedTuple

from tests.growth.entry_points import EntryPoint
from tests.support.steps import Steps

TOLERANCE = 1.6  # times as many steps as allowed: calls differ a little
FREE_STEPS = 30  # and so many more


class Measured(NamedTuple):
    entry_point: EntryPoint
    steps: list[int]  # at each size
    most: str  # where they are, at the largest

    @property
    def grows(self) -> bool:
        """Faster than it may."""
        times = TOLERANCE * 10**self.entry_point.growth
        return any(now > times * before + FREE_STEPS for before, now in zip(self.steps, self.steps[1:], strict=False))

    @property
    def row(self) -> str:
        counts = "".join(f"{count:>12,}" for count in self.steps)
        return f"{'GROWS' if self.grows else 'ok':6}{self.entry_point.growth.name:9}{counts}  {self.entry_point.name} ({self.most})"


def measured(entry_point: EntryPoint, sizes: list[int]) -> Measured:
    """`sizes`: each ten times as large as the one before."""
    counts, most = [], ""
    for size in sizes:
        act = entry_point.made(size)
        with Steps() as steps:
            act()
        counts.append(steps.count)
        most = steps.most
    return Measured(entry_point, counts, most)
