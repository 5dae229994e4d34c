"""Subscriptions of a topic of which a dispatch raised: each is tried again after a while, the longer the more often it raised.

Until then nothing is sent to it, so that a fault costs no more than what is tried."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from messaging.broker.core.subscription import Subscription

RETRY_S = 0.1  # doubled with each further failure
RETRY_S_MAX = 30.0
ERROR_CHARACTERS_MAX = 200


@dataclass(slots=True)
class _Failures:
    count: int = 0
    error: str = ""
    timer: asyncio.TimerHandle | None = None  # None while it is tried


class DispatchRetries:
    """`retry` dispatches a subscription; `succeeded` or `failed` follows."""

    def __init__(self, retry: Callable[[Subscription], None]) -> None:
        self._retry = retry
        self._failures: dict[Subscription, _Failures] = {}

    def __bool__(self) -> bool:
        return bool(self._failures)

    def waits(self, subscription: Subscription) -> bool:
        failures = self._failures.get(subscription)
        return failures is not None and failures.timer is not None

    def described(self, subscription: Subscription) -> str:
        """What is known of its failures; empty: there are none."""
        failures = self._failures.get(subscription)
        return "" if failures is None else f"{failures.count} times, the last time with {failures.error}"

    def failed(self, subscription: Subscription, error: Exception) -> None:
        failures = self._failures.setdefault(subscription, _Failures())
        failures.count += 1
        failures.error = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
        if failures.timer is None:
            wait_s = min(RETRY_S * 2 ** min(failures.count - 1, 20), RETRY_S_MAX)
            failures.timer = asyncio.get_running_loop().call_later(wait_s, self._try, subscription)

    def succeeded(self, subscription: Subscription) -> None:
        self._failures.pop(subscription, None)

    def forget(self, subscription: Subscription) -> None:
        """It is deleted."""
        failures = self._failures.pop(subscription, None)
        if failures is not None and failures.timer is not None:
            failures.timer.cancel()

    def close(self) -> None:
        for subscription in list(self._failures):
            self.forget(subscription)

    def _try(self, subscription: Subscription) -> None:
        failures = self._failures.get(subscription)
        if failures is not None:
            failures.timer = None
            self._retry(subscription)
