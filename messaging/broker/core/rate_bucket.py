"""Tokens that come at a rate. Pure."""

from __future__ import annotations

BURST_S = 0.15  # what accumulates while nothing is sent, and is not lost when the event loop is late


class RateBucket:
    """Tokens that come at `rate` a second; at most `BURST_S` of them, or one, accumulate. It may go into debt.
    `spilled`: tokens for which there was no room."""

    __slots__ = ("_at_s", "_rate", "_tokens", "spilled")

    def __init__(self, rate: float, now_s: float) -> None:
        self._rate = rate
        self._tokens = self.burst
        self.spilled = 0.0
        self._at_s = now_s

    @property
    def burst(self) -> float:
        return max(1.0, self._rate * BURST_S)

    @property
    def rate(self) -> float:
        return self._rate

    def tokens(self, now_s: float) -> float:
        if now_s > self._at_s:
            tokens = self._tokens + (now_s - self._at_s) * self._rate
            self._tokens = min(self.burst, tokens)
            self.spilled += tokens - self._tokens
            self._at_s = now_s
        return self._tokens

    def take(self, amount: float) -> float:
        """Returns in how many seconds that much comes."""
        self._tokens -= amount
        return amount / self._rate

    def change(self, rate: float, now_s: float) -> None:
        self.tokens(now_s)
        self._rate = rate
        self._tokens = min(self._tokens, self.burst)

    def wait_s(self, now_s: float) -> float:
        """Until there are tokens again."""
        tokens = self.tokens(now_s)
        return -tokens / self._rate if tokens <= 0 else 0.0


def changed(bucket: RateBucket | None, rate: float, now_s: float) -> RateBucket | None:
    if not rate:
        return None
    if bucket is None:
        return RateBucket(rate, now_s)
    bucket.change(rate, now_s)
    return bucket
