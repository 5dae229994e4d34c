"""Which tenant uses one of a few slots next. Pure.

Tenants take turns, and none uses more slots than are left for the others: of eight, one tenant has four at most, the next two. So
somebody who uses nothing yet finds a free slot, or waits for the first that ends, behind one item of each tenant before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from messaging.fairness.queue import FairQueue

Item = TypeVar("Item", bound=Hashable)


class FairSlots(Generic[Item]):
    """`slots_max` items are served at a time, of a tenant `per_tenant_max` at most; `waiting_max` wait, of a tenant no more than
    there is room left for others. An item is asked for once."""

    def __init__(self, slots_max: int, per_tenant_max: int | None = None, waiting_max: int | None = None) -> None:
        self.slots_max = self.free = slots_max
        self.waiting_max = waiting_max
        self.served: Counter[str] = Counter()  # slots in use, by tenant
        self.waiting: Counter[str] = Counter()
        self._per_tenant_max = slots_max if per_tenant_max is None else per_tenant_max
        self._queue: FairQueue[tuple[str, Item]] = FairQueue()

    def ask(self, tenant: str, item: Item, *, always: bool = False) -> bool:
        """False: there is no room for this tenant to wait, and it may not `always`. Call `begin` afterwards: it may be its turn at
        once."""
        limited = self.waiting_max is not None and not always and not self._fits(tenant)
        if limited and self.waiting[tenant] >= (self.waiting_max or 0) - self.waiting.total():
            return False
        self._queue.push(tenant, (tenant, item))
        self.waiting[tenant] += 1
        return True

    def begin(self, fits: Callable[[Item], bool] = lambda item: True) -> tuple[str, Item] | None:
        """Who is served now, and uses a slot until `end`; None: nobody. What does not fit keeps those of its tenant waiting."""
        following = self._queue.pop(lambda tenant, asked: self._fits(tenant) and fits(asked[1])) if self.free else None
        if following is not None:
            self._waits_no_more(following[0])
            self.served[following[0]] += 1
            self.free -= 1
        return following

    def withdraw(self, tenant: str, item: Item) -> bool:
        """Whether it was still waiting; it is not served then."""
        if not self._queue.discard(tenant, (tenant, item)):
            return False
        self._waits_no_more(tenant)
        return True

    def end(self, tenant: str) -> None:
        """A slot of the tenant is free. Call `begin` afterwards."""
        self.free += 1
        self.served[tenant] -= 1
        if not self.served[tenant]:
            del self.served[tenant]

    def _fits(self, tenant: str) -> bool:
        return self.served[tenant] < min(self.free, self._per_tenant_max)

    def _waits_no_more(self, tenant: str) -> None:
        self.waiting[tenant] -= 1
        if not self.waiting[tenant]:
            del self.waiting[tenant]
