"""Senders under rate limits in a time of their own."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count

from messaging.broker.core.limits.rate_limits import LevelLimiter, RateLevel, RateLimit, Throttle


def level(
    limit: RateLimit, at: RateLevel = RateLevel.TOPIC, added: Callable[[], tuple[float, float]] | None = None
) -> LevelLimiter:
    return LevelLimiter(at, "a_policy", limit, 0.0, added)


class RateWorld:
    """Timers as `RateTimers` has them; each is late by up to `late_s`."""

    def __init__(self, late_s: float = 0.0) -> None:
        self.now_s = 0.0
        self._late_s = late_s
        self._numbers = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._timed: set[LevelLimiter] = set()

    def at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at_s, next(self._numbers), act))

    def run(self, until_s: float) -> None:
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, act = heapq.heappop(self._events)
            act()
        self.now_s = until_s

    def begin(self, limiter: LevelLimiter) -> None:
        if limiter not in self._timed:
            self._timed.add(limiter)
            late_s = self._late_s * (next(self._numbers) % 7) / 6
            self.at(self.now_s + limiter.wait_s(self.now_s) + late_s, lambda: self._turn(limiter))

    def change(self, limiter: LevelLimiter, limit: RateLimit) -> None:
        limiter.change(limit, self.now_s)
        self.at(self.now_s, lambda: self._turn(limiter))

    def _turn(self, limiter: LevelLimiter) -> None:
        self._timed.discard(limiter)
        for sender in limiter.turn(self.now_s):
            sender.granted()
        if limiter.waiting:
            self.begin(limiter)


class Sender:
    """Sends what it has in batches, as far as it may. Where it has to read first, it can send so much later."""

    def __init__(
        self,
        world: RateWorld,
        levels: Sequence[LevelLimiter],
        *,
        messages: int = 0,
        batch: int = 1,
        message_bytes: int = 1,
        tenant: str = "acme",
        reads_s: float = 0.0,
    ) -> None:
        self.world = world
        self.sent: list[tuple[float, int]] = []
        self.queue = deque([batch] * (messages // batch))
        self._message_bytes = message_bytes
        self._reads_s = reads_s
        self._throttle = Throttle(tenant, levels, self._go_on, world.begin)
        world.at(0.0, self.send)

    def add(self, batch: int) -> None:
        self.queue.append(batch)
        self.send()

    def _go_on(self) -> None:
        if self._reads_s:
            self.world.at(self.world.now_s + self._reads_s, self.send)
        else:
            self.send()

    def send(self) -> None:
        while self.queue and (allowed := self._throttle.allowance(self.world.now_s)):
            total = 0
            while self.queue and total < allowed.messages and total * self._message_bytes < allowed.size_bytes:
                total += self.queue.popleft()
            self._throttle.take(total, total * self._message_bytes)
            self.sent.append((self.world.now_s, total))
