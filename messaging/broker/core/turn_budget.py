"""Bounded work: how much may be done in one turn of the loop, for whom, and who goes on in the next. Pure.

A turn has a budget, and everybody in it a slice of that. Who has used up the slice, or comes when the budget is used up, waits;
those who wait go on in the following turns, one tenant after the other and the connections of each in order, each for a slice. They
get a part of the budget, so that whoever has little to do is served in the turn in which it comes. While such come, or came a few
turns ago, that part is a fraction of a slice, so that they come again soon: they ask, wait for the disk and ask again, and each of
these steps is a turn. What cannot be divided may cost more than a slice: the excess is owed, and paid with the slices of the next
turns.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from messaging.broker.core.fair_queue import FairQueue

Item = TypeVar("Item")

TURN_COST = 16_384  # units of `command_costs`: 8 milliseconds
SLICE_COST = 4096  # a read of the smallest messages is one slice, so that publishing is never divided
NEWCOMERS_SHARE = 4  # one part of so many of a turn is for those who do not wait yet
CROWDED_SHARE = 8  # while others come, those who wait get one part of so many of a slice, all together: a quarter of a millisecond
QUIET_TURNS = 8  # others come, as long as there were not so many turns without them


class TurnUsage:
    """What one connection has used of the turn with this number. More than a slice: it owes the rest."""

    __slots__ = ("spent", "turn")

    def __init__(self) -> None:
        self.turn = 0
        self.spent = 0


class TurnBudget(Generic[Item]):
    __slots__ = (
        "_left_by_waiting",
        "_newcomers_part",
        "_quiet_turns",
        "deferred",
        "left",
        "number",
        "slice_cost",
        "turn_cost",
        "waiting",
    )

    def __init__(self, turn_cost: int = TURN_COST, slice_cost: int = SLICE_COST) -> None:
        self.turn_cost = turn_cost
        self.slice_cost = slice_cost
        self.number = 1
        self.left = turn_cost
        self._left_by_waiting = turn_cost
        self._newcomers_part = turn_cost // NEWCOMERS_SHARE  # of this turn
        self._quiet_turns = QUIET_TURNS  # since one in which work was done for those who did not wait
        self.waiting: FairQueue[Item] = FairQueue()
        self.deferred = 0  # times that somebody had to wait

    def begin(self) -> None:
        """Another turn of the loop."""
        self._quiet_turns = 0 if self.left < self._left_by_waiting else self._quiet_turns + 1
        crowded = self._quiet_turns < QUIET_TURNS
        self._newcomers_part = self.turn_cost - self.slice_cost // CROWDED_SHARE if crowded else self.turn_cost // NEWCOMERS_SHARE
        self.number += 1
        self.left = self._left_by_waiting = self.turn_cost

    @property
    def left_to_waiting(self) -> int:
        """The units of this turn that those who wait may still spend."""
        return self.left - self._newcomers_part

    def allowance(self, used: TurnUsage) -> int:
        """The units that somebody who does not wait may spend now; 0 or less: it has to wait."""
        if used.turn != self.number:
            spent = used.spent - self.slice_cost * (self.number - used.turn)
            used.spent = spent if spent > 0 else 0
            used.turn = self.number
        left = self.slice_cost - used.spent  # asked once a read: compared here, a call of `min` takes longer
        return left if left < self.left else self.left

    def allowance_of_waiting(self, used: TurnUsage) -> int:
        """The same for somebody whom `following` named."""
        return min(self.allowance(used), self.left_to_waiting)

    def spend(self, used: TurnUsage, cost: int) -> bool:
        """Whether so much is spent that another turn should begin soon: little things come often, and need none of their own."""
        used.spent += cost
        self.left -= cost
        return self.left < self.turn_cost - self.slice_cost // 2

    def wait(self, tenant: str, item: Item) -> None:
        self.deferred += 1
        self.waiting.push(tenant, item)

    def following(self) -> Item | None:
        """Who goes on now, and waits no longer; None once those who wait had their part of the turn."""
        item = self.waiting.pop() if self.left_to_waiting > 0 else None
        if item is None:
            self._left_by_waiting = self.left
        return item
