"""A token bucket: a rate per second with a burst. Pure: the caller passes the time."""

from __future__ import annotations


class TokenBucket:
    """`rate` tokens a second; at most `burst` accumulate."""

    __slots__ = ("_at_ms", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: int, now_ms: int) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._at_ms = now_ms

    def take(self, now_ms: int) -> int:
        """Takes a token and returns 0, or returns the milliseconds until there is one."""
        elapsed_ms = max(0, now_ms - self._at_ms)
        self._tokens = min(float(self._burst), self._tokens + elapsed_ms * self._rate / 1000)
        self._at_ms = now_ms
        if self._tokens >= 1:
            self._tokens -= 1
            return 0
        return max(1, round((1 - self._tokens) * 1000 / self._rate))
