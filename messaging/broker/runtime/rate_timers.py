"""Wakes the senders that wait for a rate limit: one timer for each level for which somebody waits."""

from __future__ import annotations

import asyncio

from messaging.background import BackgroundLoop
from messaging.broker.core.limits.rate_limits import LevelLimiter, RateLimit


class RateTimers:
    def __init__(self, health: BackgroundLoop) -> None:
        self._health = health
        self._timers: dict[LevelLimiter, asyncio.TimerHandle] = {}

    def now_s(self) -> float:
        """The clock of all rate limits. It never goes back."""
        return asyncio.get_running_loop().time()

    def begin(self, level: LevelLimiter) -> None:
        """Somebody waits there."""
        if level not in self._timers:
            self._timers[level] = asyncio.get_running_loop().call_later(level.wait_s(self.now_s()), self._turn, level)

    def change(self, level: LevelLimiter, limit: RateLimit) -> None:
        """Takes effect at once: those that may go on do."""
        level.change(limit, self.now_s())
        timer = self._timers.pop(level, None)
        if timer is not None:
            timer.cancel()
            self._timers[level] = asyncio.get_running_loop().call_later(0, self._turn, level)

    def _turn(self, level: LevelLimiter) -> None:
        del self._timers[level]
        for sender in level.turn(self.now_s()):
            with self._health.guard(limit=level.policy):
                sender.granted()
        if level.waiting:
            self.begin(level)
