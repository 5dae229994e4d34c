"""Work of a task in slices of the turns of the event loop, shared with connections as `core/turns/turn_budget.py` decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import TypeVar

from messaging.broker.core.turns.turn_budget import TurnUsage
from messaging.broker.runtime.turn_loop import TurnLoop, Worker

AT_ONCE = 16  # partitions of a topic, for one: what is committed together continues in one turn
Item = TypeVar("Item")
Result = TypeVar("Result")


class Progress:
    """How many items there are, as far as is known, and how many of them are done."""

    __slots__ = ("done", "items")

    def __init__(self) -> None:
        self.done = self.items = 0


counted_for: ContextVar[Progress] = ContextVar("counted_for")  # the progress that a task shows, if it does


class TurnSlices:
    """What one task does for `tenant`. It calls `spend` before each step."""

    __slots__ = ("_begins", "_left", "_turn_loop", "_usage", "tenant", "waits")

    def __init__(self, turn_loop: TurnLoop[Worker], tenant: str) -> None:
        self._turn_loop = turn_loop
        self.tenant = tenant
        self._usage = TurnUsage()
        self._left = 0
        self._begins: asyncio.Future[None] | None = None
        self.waits = 0  # for a turn

    async def spend(self, cost: int) -> None:
        """Waits for a turn where the slice is used up. `cost`: in units of `core/turns/command_costs.py`."""
        while self._left <= 0:
            self.waits += 1
            self._begins = asyncio.get_running_loop().create_future()
            self._turn_loop.wait(self.tenant, self)
            await self._begins
        self._left -= cost

    def work(self) -> str | None:
        """Takes a slice of this turn, which the task uses right after it."""
        begins = self._begins
        if begins is None or begins.done():  # the task was cancelled
            return None
        turns = self._turn_loop.turns
        allowance = turns.allowance_of_waiting(self._usage)
        if allowance <= 0:
            return self.tenant
        turns.spend(self._usage, allowance)
        self._left += allowance
        begins.set_result(None)
        return None


async def all_in_slices(
    slices: TurnSlices, items: Sequence[Item], cost: int, work: Callable[[Item], Awaitable[Result]]
) -> list[Result]:
    """The results of `work`, in order. It runs for a few items at once, so that they share commits, and `cost` is spent for each
    of them before."""
    results: list[Result] = []
    progress = counted_for.get(None) or Progress()
    progress.items += len(items)
    for start in range(0, len(items), AT_ONCE):
        some = items[start : start + AT_ONCE]
        await slices.spend(cost * len(some))
        results += await asyncio.gather(*(work(item) for item in some))
        progress.done += len(some)
    return results
