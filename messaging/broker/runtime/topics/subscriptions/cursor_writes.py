"""How often the cursors of one topic are written: at the rate of a policy. A topic without that rate has none of this.

A change is written at once if its cursor was not written for an interval. Otherwise it waits, with those who want to know when it
is durable, and is written with all others of its cursor when the interval ends. What waits is bounded: where it is more, or where
the tenant may keep no more in memory, it is written before.
"""

from __future__ import annotations

import asyncio
from functools import partial

from messaging.broker.core.memory.memory_charge import Charge
from messaging.broker.runtime.topics.services import TopicServices
from messaging.protocol.names import TopicName
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.delta_batcher import Done

MARK_DELETE_RATE = "persistence_mark_delete_rate"
WAITING_BYTES_MAX = 64 << 10  # of one cursor
CHANGE_BYTES = 128  # what a change costs that waits, beside its bytes


def following(current: CursorWrites | None, services: TopicServices, name: TopicName) -> CursorWrites | None:
    """The writes as the policy has them now; None: a change is written at once."""
    rate = float(services.policies.value(MARK_DELETE_RATE, name)) if name.persistent else 0.0
    if current is not None and current.rate != rate:
        current.close()
        current = None
    if not rate or current is not None:
        return current
    return CursorWrites(services.stores.cursors, Charge(services.memory.records, name.tenant), rate)


class _Waiting:
    """What waits for the end of the interval that began with the last write of one cursor."""

    __slots__ = ("changes", "size_bytes", "timer")

    def __init__(self, timer: asyncio.TimerHandle) -> None:
        self.timer = timer
        self.changes: list[tuple[bytes, Done | None]] = []
        self.size_bytes = 0


class CursorWrites:
    """`rate`: writes of one cursor per second. Cursors are named by the ids of their subscriptions."""

    def __init__(self, log: CursorLog, charge: Charge, rate: float) -> None:
        self.rate = rate
        self._log = log
        self._charge = charge
        self._cursors: dict[int, _Waiting] = {}  # those written less than an interval ago

    def append(self, subscription_id: int, delta: bytes, done: Done | None) -> None:
        """As `CursorLog.append`; without a delta, `done` is called when what was appended before is durable."""
        waiting = self._cursors.get(subscription_id)
        if waiting is None or (not delta and not waiting.changes):
            self._write(subscription_id, delta, done)
            if delta:
                self._begin_interval(subscription_id)
            return
        size = CHANGE_BYTES + len(delta)
        if waiting.size_bytes + size > WAITING_BYTES_MAX or not self._charge.allows(size):
            self.write_now(subscription_id)
            self._write(subscription_id, delta, done)
            return
        self._charge.change(size)
        waiting.size_bytes += size
        waiting.changes.append((delta, done))

    def write_now(self, subscription_id: int) -> None:
        """Somebody waits who is not to wait for the interval, such as an administrator."""
        waiting = self._cursors.get(subscription_id)
        if waiting is None:
            return
        changes, waiting.changes = waiting.changes, []
        self._charge.change(-waiting.size_bytes)
        waiting.size_bytes = 0
        for delta, done in changes:
            self._write(subscription_id, delta, done)

    def close(self) -> None:
        """Writes everything that waits. Idempotent."""
        for subscription_id, waiting in list(self._cursors.items()):
            waiting.timer.cancel()
            self.write_now(subscription_id)
        self._cursors.clear()

    def _begin_interval(self, subscription_id: int) -> None:
        timer = asyncio.get_running_loop().call_later(1 / self.rate, partial(self._interval_ended, subscription_id))
        self._cursors[subscription_id] = _Waiting(timer)

    def _interval_ended(self, subscription_id: int) -> None:
        if self._cursors[subscription_id].changes:
            self.write_now(subscription_id)
            self._begin_interval(subscription_id)
        else:
            del self._cursors[subscription_id]

    def _write(self, subscription_id: int, delta: bytes, done: Done | None) -> None:
        if delta:
            self._log.append(subscription_id, delta, done)
        elif done is not None:
            self._log.when_durable(subscription_id, done)
