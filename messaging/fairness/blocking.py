"""A fair queue between threads: what many put in, one thread takes out in turns by tenant."""

from __future__ import annotations

import queue
from typing import Generic, TypeVar

from messaging.fairness.queue import FairQueue

Item = TypeVar("Item")


class BlockingFairQueue(Generic[Item]):
    """Items of a tenant keep their order. `take` and `take_waiting` are for one thread, the others for any."""

    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[tuple[str, Item] | None] = queue.SimpleQueue()  # None: the end
        self._in_turns: FairQueue[Item] = FairQueue()  # of the thread that takes
        self._ended = False

    def put(self, tenant: str, item: Item) -> None:
        """Does not block."""
        self._arrived.put((tenant, item))

    def end(self) -> None:
        """What was put in before is still taken out."""
        self._arrived.put(None)

    def take(self) -> Item | None:
        """Blocks until there is something; None: it was ended."""
        item = self.take_waiting()
        if item is None and not self._ended:
            self._add(self._arrived.get())
            return self.take_waiting()
        return item

    def take_waiting(self) -> Item | None:
        """Does not block; None: nothing waits."""
        while not self._ended:
            try:
                self._add(self._arrived.get_nowait())
            except queue.Empty:
                break
        return self._in_turns.pop()

    def _add(self, arrived: tuple[str, Item] | None) -> None:
        if arrived is None:
            self._ended = True
        else:
            self._in_turns.push(*arrived)
