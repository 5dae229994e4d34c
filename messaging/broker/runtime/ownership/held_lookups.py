"""Look-ups that wait at this broker for an owner that is about to be there: how many, whose, and until when.

Tenants share the places by the rule of memory: nobody has more of them than are left for the others, so a tenant that asks for all
of its topics at once, or again and again, takes no neighbour's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

HELD_MAX = 10_000  # at a time; those beyond are refused at once. A single tenant has half of them
HELD_LOOK_S = 0.5  # between two looks of one that waits, where nothing is new


class HeldLookups:
    def __init__(self) -> None:
        self._count = 0
        self._count_of: Counter[str] = Counter()  # by tenant
        self._waiting: set[asyncio.Future[None]] = set()

    @contextmanager
    def place(self, tenant: str) -> Iterator[bool]:
        """For one of them, as long as it waits. False: there is none for this tenant."""
        if self._count_of[tenant] >= HELD_MAX - self._count:
            yield False
            return
        self._count += 1
        self._count_of[tenant] += 1
        try:
            yield True
        finally:
            self._count -= 1
            self._count_of[tenant] -= 1
            if not self._count_of[tenant]:
                del self._count_of[tenant]

    async def news(self) -> None:
        """Returns when there may be any. Each one waits for a future of its own: to leave one that thousands wait for takes longer
        the more they are."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await asyncio.wait([waiting], timeout=HELD_LOOK_S)
        finally:
            self._waiting.discard(waiting)

    def tell(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for each in waiting:
            each.set_result(None)
