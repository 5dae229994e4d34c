"""An order in which those who share something scarce are served: who got least so far comes first, first among the tenants, then
among the senders of one. Pure.

What somebody got is counted while others wait. Whoever begins to wait is put level with those that are being served, so that
nobody saves up.
"""

from __future__ import annotations

from collections.abc import KeysView
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

Sender = TypeVar("Sender")


class _Group(Generic[Sender]):
    """The senders of one tenant."""

    __slots__ = ("got", "heap", "reached", "waiting")

    def __init__(self) -> None:
        self.got: dict[Sender, float] = {}
        self.reached = 0.0  # what the last one served had got
        self.heap: list[tuple[float, int, Sender]] = []  # also those that have stopped waiting
        self.waiting: dict[Sender, int] = {}  # the number of their place in the heap


class ServiceOrder(Generic[Sender]):
    __slots__ = ("_got", "_groups", "_numbers", "_reached", "_waiting")

    def __init__(self) -> None:
        self._groups: dict[str, _Group[Sender]] = {}
        self._got: dict[str, float] = {}
        self._reached = 0.0
        self._waiting: dict[str, None] = {}  # tenants of whom somebody waits
        self._numbers = count()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __len__(self) -> int:
        return sum(len(self._groups[tenant].waiting) for tenant in self._waiting)

    @property
    def tenants(self) -> KeysView[str]:
        """Those of whom somebody waits."""
        return self._waiting.keys()

    def count_of(self, tenant: str) -> int:
        """How many of a tenant wait."""
        return len(self._groups[tenant].waiting) if tenant in self._waiting else 0

    def push(self, tenant: str, sender: Sender) -> None:
        group = self._groups.get(tenant)
        if group is None:
            group = self._groups[tenant] = _Group()
        if sender in group.waiting:
            return
        if tenant not in self._waiting:
            self._waiting[tenant] = None
            self._got[tenant] = max(self._got.get(tenant, 0.0), self._reached)
        got = group.got[sender] = max(group.got.get(sender, 0.0), group.reached)
        number = group.waiting[sender] = next(self._numbers)
        heappush(group.heap, (got, number, sender))

    def discard(self, tenant: str, sender: Sender) -> None:
        group = self._groups.get(tenant)
        if group is not None and group.waiting.pop(sender, None) is not None:
            self._left(tenant, group)

    def forget(self, tenant: str, sender: Sender) -> None:
        """It wants nothing any more."""
        self.discard(tenant, sender)
        group = self._groups.get(tenant)
        if group is not None:
            group.got.pop(sender, None)

    def pop(self) -> Sender | None:
        if not self._waiting:
            return None
        tenant = min(self._waiting, key=self._got.__getitem__)
        group = self._groups[tenant]
        while True:
            got, number, sender = heappop(group.heap)
            if group.waiting.get(sender) == number:
                break
        del group.waiting[sender]
        group.reached, self._reached = got, self._got[tenant]
        self._left(tenant, group)
        return sender

    def served(self, tenant: str, sender: Sender, amount: float) -> None:
        """It got so much. Counts while it or others wait, or have just waited."""
        group = self._groups.get(tenant)
        if group is None and self._waiting:
            group = self._groups[tenant] = _Group()
        if group is not None:
            group.got[sender] = max(group.got.get(sender, 0.0), group.reached) + amount
            self._got[tenant] = max(self._got.get(tenant, 0.0), self._reached) + amount

    def reset(self) -> None:
        """Nobody waits: what was counted has no meaning any more."""
        self._groups.clear()
        self._got.clear()
        self._reached = 0.0

    def _left(self, tenant: str, group: _Group[Sender]) -> None:
        if not group.waiting:
            del self._waiting[tenant]
            group.heap.clear()
