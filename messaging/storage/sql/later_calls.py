"""Calls whose transaction met another broker's: they run again a little later, and those of other turns go on meanwhile."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")

PAUSE_S_MAX = 0.05
PATIENCE_S = 12.0  # longer than a server lets a broker that was stopped keep its locks


@dataclass(frozen=True)
class Batch(Generic[Item]):
    """What shares a transaction. `meetings`: how often it met another one; `due_s`: when it may run again; `give_up_s`: from when
    on it may not."""

    items: list[Item]
    meetings: int
    due_s: float
    give_up_s: float


class LaterCalls(Generic[Item]):
    """By turn: while some of a turn are here, whoever has the others lets them wait, so that all keep their order. Times are of one
    clock that never goes back."""

    def __init__(self) -> None:
        self._batches: dict[str, Batch[Item]] = {}

    def add(self, turn: str, items: list[Item], met: Batch[Item], now_s: float) -> None:
        """For a while whose length is left to chance: two that met do not meet again. `met`: what they were part of."""
        pause_s = random.uniform(0, min(PAUSE_S_MAX, 0.002 * 2**met.meetings))
        self._batches[turn] = Batch(items, met.meetings + 1, now_s + pause_s, met.give_up_s)

    def __contains__(self, turn: str) -> bool:
        return turn in self._batches

    def wait_s(self, now_s: float) -> float | None:
        """Until something is due; None: nothing is here."""
        return max(0.0, min(batch.due_s for batch in self._batches.values()) - now_s) if self._batches else None

    def take(self, now_s: float) -> Batch[Item] | None:
        """What has been due the longest; None: nothing is."""
        turn = min(self._batches, key=lambda turn: self._batches[turn].due_s, default=None)
        return self._batches.pop(turn) if turn is not None and self._batches[turn].due_s <= now_s else None
