"""Where batches end because of their age: one place for the partitions of all producers of a client.

The event loop is the lock: partitions say that they have an open batch, one timer for all of them fires at the earliest due time,
and everything that is due then leaves in the same turn, so that one write carries the batches of all partitions of a broker.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

SLACK_S = 0.0005  # what is due so soon goes along


class Flushable(Protocol):
    def flush(self) -> None:
        """Ends its open batch. Must not raise."""


class Flusher:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due_s: dict[Flushable, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self._soon: dict[Flushable, None] = {}

    def later(self, partition: Flushable, delay_s: float) -> None:
        """Its batch was begun just now."""
        due_s = self._loop.time() + delay_s
        self._due_s[partition] = due_s
        if self._timer is None or due_s < self._timer_s:
            self._arm(due_s)

    def at_end_of_turn(self, partition: Flushable) -> None:
        """Somebody waits for a receipt: the batch leaves as soon as all who are ready to send now have sent."""
        if not self._soon:
            self._loop.call_soon(self._flush_soon)
        self._soon[partition] = None

    def forget(self, partition: Flushable) -> None:
        """Its batch has ended."""
        self._due_s.pop(partition, None)
        self._soon.pop(partition, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due_s.clear()
        self._soon.clear()

    def _flush_soon(self) -> None:
        partitions, self._soon = list(self._soon), {}
        for partition in partitions:
            partition.flush()

    def _arm(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = due_s
        self._timer = self._loop.call_at(due_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        limit_s = self._loop.time() + SLACK_S
        for partition in [partition for partition, due_s in self._due_s.items() if due_s <= limit_s]:
            partition.flush()
        if self._due_s:
            self._arm(min(self._due_s.values()))
