"""How long to wait before a retry, and whether to retry. Pure: the random number is an argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from messaging.client.failures import ChannelClosed, Refused
from messaging.errors import MagnetarError, NotReady, from_code

# HTTP statuses of a refused upgrade that another try may change. 409: who held the name or the subscription may be about to go.
_RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
BAD_DATA, TOO_LARGE = 1007, 1009  # close codes that say that what we sent is wrong


class Backoff:
    """Doubles from `initial_s` to `max_s`. Each delay is drawn from the upper half of its step, so that clients do not come in
    waves. `random` returns a number in [0, 1)."""

    def __init__(self, random: Callable[[], float], initial_s: float = 0.1, max_s: float = 30.0) -> None:
        self._random = random
        self._initial_s = initial_s
        self._max_s = max_s
        self._attempts = 0

    def next_delay_s(self) -> float:
        step_s = min(self._max_s, self._initial_s * 2.0 ** min(self._attempts, 30))
        self._attempts += 1
        return step_s * (0.5 + self._random() / 2)

    def reset(self) -> None:
        self._attempts = 0


@dataclass(frozen=True, slots=True)
class Retry:
    delay_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    error: MagnetarError


class ReconnectPolicy:
    """Decides after each failure. Until the first connection stands, it tries for `open_timeout_s` and not at all again where the
    broker refused; afterwards forever, unless the broker says that this will never be."""

    def __init__(self, backoff: Backoff, open_timeout_s: float, now_s: float) -> None:
        self._backoff = backoff
        self._open_timeout_s = open_timeout_s
        self._open_until_s = now_s + open_timeout_s
        self.ever_connected = False

    def connected(self) -> None:
        self.ever_connected = True

    def healthy(self) -> None:
        """Something was received: the connection is of use, so the next failure is the first again."""
        self._backoff.reset()

    def after(self, failure: Exception, now_s: float) -> Retry | GiveUp:
        if isinstance(failure, MagnetarError):
            return GiveUp(failure)
        if isinstance(failure, Refused):
            retryable = failure.status in _RETRYABLE_STATUSES and (self.ever_connected or failure.status != 409)
            if not retryable:
                return GiveUp(from_code(failure.code, failure.message))
        if isinstance(failure, ChannelClosed) and failure.code == BAD_DATA:
            return GiveUp(MagnetarError(f"the broker refused the request: {failure.reason}"))
        delay_s = self._backoff.next_delay_s()
        if not self.ever_connected and now_s + delay_s > self._open_until_s:
            if isinstance(failure, Refused):
                return GiveUp(from_code(failure.code, failure.message))
            reason = str(failure) or type(failure).__name__
            return GiveUp(
                NotReady(f"no connection within {self._open_timeout_s:g} s: {reason}; check the URL and that the broker is running")
            )
        return Retry(delay_s)
