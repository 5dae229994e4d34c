"""Bounds the work in one turn of the event loop: how much, for whom, and who continues in the next turn. Pure.

A turn has a budget, and each connection has a slice of it. A connection that has used up its slice, or arrives when the budget is
used up, waits. Waiting connections continue in the following turns, one tenant after the other and each tenant's connections in
order, one slice each. They get only part of the budget, so that connections with little work are served in the turn in which it
arrives. While there are such connections, or were a few turns ago, that part is a fraction of a slice, so that turns are short:
they send a request, wait for the disk and send another, and each of these steps takes a turn. Work that cannot be divided may
cost more than a slice; the excess is a debt that is paid with the slices of the next turns.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from messaging.fairness.queue import FairQueue

Item = TypeVar("Item")

TURN_COST = 16_384  # units of `command_costs`: 8 milliseconds
SLICE_COST = 4096  # a read of the smallest messages is one slice, so that publishing is never divided
NEWCOMERS_SHARE = 4  # 1/4 of a turn is for connections that do not wait yet
CROWDED_SHARE = 8  # meanwhile waiting connections get 1/8 of a slice together: a quarter of a millisecond
QUIET_TURNS = 8  # after so many turns without newcomers, waiting connections get more


class TurnUsage:
    """What one connection used of the turn with this number. If it is more than a slice, the rest is its debt."""

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
        self._quiet_turns = QUIET_TURNS  # since a turn with work for connections that did not wait
        self.waiting: FairQueue[Item] = FairQueue()
        self.deferred = 0  # how often a connection had to wait

    def begin(self) -> None:
        """Starts the next turn of the loop."""
        self._quiet_turns = 0 if self.left < self._left_by_waiting else self._quiet_turns + 1
        crowded = self._quiet_turns < QUIET_TURNS
        self._newcomers_part = self.turn_cost - self.slice_cost // CROWDED_SHARE if crowded else self.turn_cost // NEWCOMERS_SHARE
        self.number += 1
        self.left = self._left_by_waiting = self.turn_cost

    @property
    def left_to_waiting(self) -> int:
        """Units of this turn that waiting connections may still use."""
        return self.left - self._newcomers_part

    def allowance(self, used: TurnUsage) -> int:
        """Units that a connection that does not wait may use now; 0 or less: it has to wait."""
        if used.turn != self.number:
            spent = used.spent - self.slice_cost * (self.number - used.turn)
            used.spent = spent if spent > 0 else 0
            used.turn = self.number
        left = self.slice_cost - used.spent  # called once per read; `min` would be slower
        return left if left < self.left else self.left

    def allowance_of_waiting(self, used: TurnUsage) -> int:
        """The same for a connection that `following` returned."""
        return min(self.allowance(used), self.left_to_waiting)

    def spend(self, used: TurnUsage, cost: int) -> bool:
        """Returns whether so much was used that another turn should start soon; small amounts need no turn of their own."""
        used.spent += cost
        self.left -= cost
        return self.left < self.turn_cost - self.slice_cost // 2

    def wait(self, tenant: str, item: Item) -> None:
        self.deferred += 1
        self.waiting.push(tenant, item)

    def following(self) -> Item | None:
        """The next connection to continue, which no longer waits; None if the waiting connections have had their part of the
        turn."""
        item = self.waiting.pop() if self.left_to_waiting > 0 else None
        if item is None:
            self._left_by_waiting = self.left
        return item
