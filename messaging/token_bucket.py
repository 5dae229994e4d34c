"""A token bucket: a rate with a burst. Pure: the caller passes the time, in a unit of its own, of which the rate is one too."""

from __future__ import annotations


class TokenBucket:
    """`rate` tokens come in a unit of time; at most `burst` of them accumulate. `spilled`: tokens for which there was no room.

    `take` takes one token, or none where there is none. `spend` takes what was used already, which may leave a debt."""

    __slots__ = ("_at", "_tokens", "burst", "rate", "spilled")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self.spilled = 0.0
        self._tokens = float(burst)
        self._at = now

    def tokens(self, now: float) -> float:
        """Those that there are; below 0: a debt."""
        if now > self._at:
            tokens = self._tokens + (now - self._at) * self.rate
            self._tokens = min(self.burst, tokens)
            self.spilled += tokens - self._tokens
            self._at = now
        return self._tokens

    def take(self, now: float) -> float:
        """Takes a token and returns 0, or returns the time until there is one. `now` may be of a clock that is set back: then
        tokens come again from that time on."""
        self._at = min(self._at, now)
        if self.tokens(now) >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self.rate

    def spend(self, amount: float) -> float:
        """Returns the time in which that much comes."""
        self._tokens -= amount
        return amount / self.rate

    def wait(self, now: float) -> float:
        """Until there is more than a debt."""
        tokens = self.tokens(now)
        return -tokens / self.rate if tokens <= 0 else 0.0

    def change(self, rate: float, burst: float, now: float) -> None:
        """What came before came at the former rate."""
        self.tokens(now)
        self.rate, self.burst = rate, burst
        self._tokens = min(self._tokens, burst)
