"""Stage: which partition a message goes to. Pure.

A key decides by its hash, always, so that its messages keep their order. Messages without a key may go anywhere: they avoid
partitions that take nothing, and stay on one until its batch ends, so that batches fill.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from messaging.client.message import OutgoingMessage
from messaging.client.producing.options import Routing
from messaging.errors import InvalidValue
from messaging.protocol.key_hashing import HashingScheme, key_hash

Available = Callable[[int], bool]


class Route(NamedTuple):
    partition: int
    movable: bool  # any other partition would do


FIRST = Route(0, False)


class Router:
    """`begin`: any number, which decides where messages without a key go first. `per_message`: there are no batches to fill."""

    def __init__(self, partitions: int, routing: Routing, hashing: HashingScheme, begin: int, *, per_message: bool) -> None:
        self.partitions = partitions
        self._routing = routing
        self._hashing: HashingScheme = hashing
        self._begin = begin
        self._current = begin % max(1, partitions)
        self._per_message = per_message
        self._fixed = [Route(index, False) for index in range(max(1, partitions))]
        self._movable = [Route(index, True) for index in range(max(1, partitions))]

    def choose(self, message: OutgoingMessage, available: Available) -> Route:
        """`available`: whether a partition takes messages now. If none does, the answer is one that does not."""
        count = self.partitions
        if count <= 1:
            return FIRST
        if callable(self._routing):
            partition = self._routing(message, count)
            if not isinstance(partition, int) or not 0 <= partition < count:
                raise InvalidValue(f"the router of this producer chose partition {partition!r}: the topic has 0 to {count - 1}")
            return self._fixed[partition]
        if message.key is not None:
            key = message.key if isinstance(message.key, str) else message.key.decode("utf-8", "replace")
            return self._fixed[key_hash(key, self._hashing) % count]
        if self._routing == "single":
            return self._fixed[self._begin % count]
        if not available(self._current):
            for step in range(1, count):
                if available((self._current + step) % count):
                    self._current = (self._current + step) % count
                    break
        chosen = self._current
        if self._per_message:
            self._current = (chosen + 1) % count
        return self._movable[chosen]

    def batch_ended(self, partition: int) -> None:
        if partition == self._current and self.partitions > 1:
            self._current = (partition + 1) % self.partitions
