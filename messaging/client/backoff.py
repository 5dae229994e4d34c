"""How long to wait before a retry, and whether to retry. Pure: the random number is an argument."""

from __future__ import annotations

from collections.abc import Callable

from messaging.client.errors import KeyUnavailable
from messaging.errors import ConsumerBusy, MagnetarError, PlatformError, ProducerBusy, QuotaExceeded, TopicNotFound

INITIAL_S, MAX_S = 0.1, 30.0


class Backoff:
    """Doubles from `initial_s` to `max_s`. Each delay is drawn from the upper half of its step, so that clients do not come in
    waves. `random` returns a number in [0, 1)."""

    def __init__(self, random: Callable[[], float], initial_s: float = INITIAL_S, max_s: float = MAX_S) -> None:
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


def retryable(error: MagnetarError, *, opened_before: bool) -> bool:
    """Whether another try may succeed. Once a producer or consumer was open, what holds its name or its subscription may be its own
    former connection, which the broker has not missed yet."""
    if isinstance(error, PlatformError):
        return True
    return opened_before and isinstance(error, ProducerBusy | ConsumerBusy | QuotaExceeded | TopicNotFound | KeyUnavailable)
