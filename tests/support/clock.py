"""A clock that tests move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from messaging.clock import ExpiryClock


@dataclass
class Clock:
    """Moves on, or jumps."""

    now_ms: int = 1_700_000_000_000
    boottime_ms: int = 0

    def __call__(self) -> int:
        return self.now_ms

    def pass_(self, time_ms: int) -> None:
        self.now_ms += time_ms
        self.boottime_ms += time_ms


def give(service: Any, clock: Clock) -> None:
    """A broker (`messaging.broker.runtime.broker.Broker`) goes by `clock` from here on."""
    service.storage.clock_ms = service.topics.services.clock_ms = clock
    service.idle_topics.known_since_ms = clock.now_ms
    service.storage.expiry_clock = ExpiryClock(clock, lambda: clock.boottime_ms)
