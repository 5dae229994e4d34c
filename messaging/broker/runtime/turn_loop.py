"""Runs the turns of the event loop: waiting connections continue as `core/turns/turn_budget.py` decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from messaging.background import BackgroundLoop
from messaging.broker.core.turns.turn_budget import SLICE_COST, TURN_COST, TurnBudget

Item = TypeVar("Item")


class Worker(Protocol):
    """Something of its work is left that does not fit into this turn."""

    def work(self) -> str | None:
        """A slice of it; the tenant whose turn the rest waits for, if there is a rest that has to wait for one."""


class TurnLoop(Generic[Item]):
    """`work` does a slice of what `Item` has to do and returns whose turn it is for: the tenant where there is more, else None.

    Whoever spends much of the turn calls `due`, so that another one begins."""

    __slots__ = ("_due", "_health", "_work", "turns")

    def __init__(
        self,
        work: Callable[[Item], str | None],
        turn_cost: int = TURN_COST,
        slice_cost: int = SLICE_COST,
        health: BackgroundLoop | None = None,
    ) -> None:
        self.turns: TurnBudget[Item] = TurnBudget(turn_cost, slice_cost)
        self._health = health or BackgroundLoop("turns", recurs=False)
        self._work = work
        self._due = False

    def due(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self.run_turn)

    def wait(self, tenant: str, item: Item) -> None:
        self.turns.wait(tenant, item)
        self.due()

    def failed(self, error: Exception) -> None:
        """A part of somebody's work did; the rest of it goes on."""
        self._health.failed(error)

    def run_turn(self) -> None:
        self._due = False
        turns = self.turns
        turns.begin()
        again: list[tuple[str, Item]] = []
        while (item := turns.following()) is not None:
            try:
                tenant = self._work(item)
            except Exception as error:  # of one of them; the others continue
                self.failed(error)
                continue
            if tenant is not None:
                again.append((tenant, item))
        for tenant, item in again:
            turns.wait(tenant, item)
        if turns.waiting:
            self.due()
