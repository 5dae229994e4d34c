"""The topics of a broker that wait for delayed messages."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from messaging.broker.core.delayed.run_jobs import Job, Load, Seal
from messaging.fairness.turns import FairTurns

JUMP_MS = 1_000
SEALS_MAX, MERGES_MAX, LOADS_MAX, LISTS_MAX = 2, 1, 4, 2  # at a time; of each kind one for a tenant


class Waiting(Protocol):
    def wake_soon(self) -> None:
        """Looks at the time and delivers what is due, in its turn."""

    @property
    def waiting_entries(self) -> int: ...


class DelayTimers:
    def __init__(self) -> None:
        self.topics: dict[Waiting, None] = {}
        self._sealing, self._merging = FairTurns(SEALS_MAX, 1), FairTurns(MERGES_MAX, 1)
        self._loading, self._listing = FairTurns(LOADS_MAX, 1), FairTurns(LISTS_MAX, 1)
        self._offsets_ms: tuple[int, int] | None = None  # of the clocks by which timers were set: the lowest and the highest

    def turn(self, job: Job, tenant: str) -> AbstractAsyncContextManager[None]:
        """Tenants take turns. What is due soon does not wait for what is stored, nor what is to be stored for a long merge."""
        kind = self._loading if isinstance(job, Load) else self._sealing if isinstance(job, Seal) else self._merging
        return kind.turn(tenant)

    def list_turn(self, tenant: str) -> AbstractAsyncContextManager[None]:
        """For somebody who asks what is scheduled."""
        return self._listing.turn(tenant)

    def timer_set(self, now_ms: int, passed_ms: int) -> None:
        """A topic sets its timer by these. A clock that is wrong for less than the time between two checks may set one, too."""
        offset_ms = now_ms - passed_ms
        lowest_ms, highest_ms = self._offsets_ms or (offset_ms, offset_ms)
        self._offsets_ms = min(lowest_ms, offset_ms), max(highest_ms, offset_ms)

    def check_clock(self, now_ms: int, passed_ms: int) -> None:
        """Called about once a second. `passed_ms` is the clock that timers go by: where it and the time have parted since a timer
        was set, because the clock was set or the machine slept, every topic sets its timer anew."""
        if self._offsets_ms is None:
            return
        offset_ms, (lowest_ms, highest_ms) = now_ms - passed_ms, self._offsets_ms
        if max(offset_ms - lowest_ms, highest_ms - offset_ms) > JUMP_MS:
            self._offsets_ms = None
            for topic in list(self.topics):
                topic.wake_soon()
