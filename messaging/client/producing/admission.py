"""Stage: whether there is room for a message. Pure.

Two limits: messages of a partition that have no receipt, and bytes of all producers of a client. Whoever is not admitted waits in
the order of the calls, in the queue of its partition, so that a blocked partition holds up nobody else; messages that may go to any
partition wait in a queue of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
ANYWHERE = -1


class MemoryLimit:
    """Bytes that all producers of a client may have on their way together. One message larger than all of it passes alone."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self._waiting: dict[Callable[[], None], None] = {}

    def reserve(self, size_bytes: int) -> bool:
        if self.used_bytes and self.used_bytes + size_bytes > self.bytes_max:
            return False
        self.used_bytes += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        if self._waiting:
            # Each is asked once, and is behind the others if it still waits: producers take what becomes free in turns.
            waiting, self._waiting = self._waiting, {}
            for callback in waiting:
                callback()

    def wait(self, callback: Callable[[], None]) -> None:
        """`callback` is called once, when something was released."""
        self._waiting[callback] = None

    def forget(self, callback: Callable[[], None]) -> None:
        self._waiting.pop(callback, None)


class Room:
    """Messages without a receipt, by partition. `across_max` is shared evenly by the partitions."""

    def __init__(self, partition_max: int, across_max: int) -> None:
        self._partition_max = partition_max
        self._across_max = across_max
        self._used: list[int] = []
        self.limit = max(1, min(partition_max, across_max))  # of a partition

    def grow(self, partitions: int) -> None:
        self._used.extend([0] * (partitions - len(self._used)))
        self.limit = max(1, min(self._partition_max, self._across_max // max(1, partitions)))

    @property
    def used(self) -> int:
        return sum(self._used)

    def has(self, partition: int) -> bool:
        return self._used[partition] < self.limit

    def take(self, partition: int) -> None:
        self._used[partition] += 1

    def give_back(self, partition: int, messages: int) -> None:
        self._used[partition] -= messages


class WaitingLine(Generic[T]):
    """Those that wait for room, by partition, each in order."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[T]] = {}

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def __bool__(self) -> bool:
        return bool(self._queues)

    def waits(self, partition: int) -> bool:
        return partition in self._queues

    def add(self, partition: int, entry: T) -> None:
        self._queues.setdefault(partition, deque()).append(entry)

    def remove(self, partition: int, entry: T) -> bool:
        queue = self._queues.get(partition)
        if queue is None or entry not in queue:
            return False
        queue.remove(entry)
        if not queue:
            del self._queues[partition]
        return True

    def let_in(self, partition: int, enter: Callable[[T], bool]) -> None:
        """Calls `enter` with each in order until it returns False."""
        queue = self._queues.get(partition)
        while queue:
            if not enter(queue[0]):
                return
            queue.popleft()
        self._queues.pop(partition, None)

    @property
    def partitions(self) -> list[int]:
        return list(self._queues)

    def take_all(self) -> list[T]:
        entries = [entry for queue in self._queues.values() for entry in queue]
        self._queues.clear()
        return entries
