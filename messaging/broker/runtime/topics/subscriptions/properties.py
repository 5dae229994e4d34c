"""The memory of the properties of one topic's subscriptions: charged, and bounded in sum."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from messaging.broker.core.memory.memory_charge import Charge
from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.errors import NotReady, PreconditionFailed
from messaging.limits.sizes import SUBSCRIPTIONS_PAIRS_BYTES_MAX


class SubscriptionProperties:
    __slots__ = ("_charge", "_topic")

    def __init__(self, account: MemoryAccount, tenant: str, topic: str) -> None:
        self._charge = Charge(account, tenant)
        self._topic = topic

    def change(self, more_bytes: int) -> None:
        """What is stored already, or gone."""
        self._charge.change(more_bytes)

    @contextmanager
    def change_if_done(self, more_bytes: int) -> Iterator[None]:
        """Charged unless what happens inside this context fails. Raises `PreconditionFailed`, `NotReady`."""
        if more_bytes > 0:
            self._check(more_bytes)
        self._charge.change(more_bytes)
        try:
            yield
        except BaseException:
            self._charge.change(-more_bytes)
            raise

    def end(self) -> None:
        """Idempotent."""
        self._charge.end()

    def _check(self, more_bytes: int) -> None:
        total_bytes = self._charge.held_bytes + more_bytes
        if total_bytes > SUBSCRIPTIONS_PAIRS_BYTES_MAX:
            raise PreconditionFailed(
                f"the properties of all subscriptions of {self._topic} would take {total_bytes} bytes of memory; at most "
                f"{SUBSCRIPTIONS_PAIRS_BYTES_MAX} are allowed: use shorter ones"
            )
        if not self._charge.allows(more_bytes):
            raise NotReady(
                f"there is no memory for more properties of subscriptions of {self._topic}: use shorter ones, or try later"
            )
