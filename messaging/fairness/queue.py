"""A queue that is fair between tenants: it serves one item of each in turn, however many a tenant has waiting. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """An item waits only once, however often it is added; items of a tenant keep their order."""

    __slots__ = ("_tenants",)

    def __init__(self) -> None:
        # Tenants and their items, both in order. A plain dictionary walks over all that were taken from its front.
        self._tenants: OrderedDict[str, OrderedDict[Item, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._tenants)

    def __len__(self) -> int:
        return sum(map(len, self._tenants.values()))

    def push(self, tenant: str, item: Item) -> None:
        waiting = self._tenants.get(tenant)
        if waiting is None:
            waiting = self._tenants[tenant] = OrderedDict()
        waiting.setdefault(item)

    def discard(self, tenant: str, item: Item) -> bool:
        """Whether it waited."""
        waiting = self._tenants.get(tenant)
        if waiting is None or item not in waiting:
            return False
        del waiting[item]
        if not waiting:
            del self._tenants[tenant]
        return True

    def pop(self, fits: Callable[[str, Item], bool] = lambda tenant, item: True) -> Item | None:
        """The first item of the first tenant where it `fits`; that tenant's next turn comes after all others'. None: nothing fits.

        An item that does not fit keeps those of its tenant behind it waiting, so that what is small never starves what is large."""
        for tenant, waiting in self._tenants.items():
            item = next(iter(waiting))
            if fits(tenant, item):
                del self._tenants[tenant]
                del waiting[item]
                if waiting:
                    self._tenants[tenant] = waiting
                return item
        return None
