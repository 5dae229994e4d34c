"""A fair queue between threads: what many put in, one thread takes out in turns by tenant."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from messaging.fairness.queue import FairQueue

Item = TypeVar("Item")
Fits: TypeAlias = Callable[[str, Item], bool]


def _always(tenant: str, item: object) -> bool:
    return True


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

    @property
    def ended(self) -> bool:
        """Nothing more will come. What was left with the last call that found nothing is what does not fit."""
        return self._ended

    def take(self, wait_s: float | None = None, fits: Fits[Item] = _always) -> Item | None:
        """Blocks until something comes, for `wait_s` at most; None: nothing that fits did, or it was ended."""
        item = self.take_waiting(fits)
        if item is None and not self._ended:
            try:
                self._add(self._arrived.get(timeout=wait_s))
            except queue.Empty:
                return None
            return self.take_waiting(fits)
        return item

    def take_waiting(self, fits: Fits[Item] = _always) -> Item | None:
        """Does not block; None: nothing waits. `fits`: as `FairQueue.pop` takes it."""
        while not self._ended:
            try:
                self._add(self._arrived.get_nowait())
            except queue.Empty:
                break
        return self._in_turns.pop(fits)

    def _add(self, arrived: tuple[str, Item] | None) -> None:
        if arrived is None:
            self._ended = True
        else:
            self._in_turns.push(*arrived)
