"""Shares of a rate limit for senders that cannot wait for their turns: each may use an equal part, first among tenants, then among
the senders of one. Pure.

A share is counted in seconds of the limit. It divides among those that send at all: who has not asked for a second has none.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from messaging.broker.core.limits.service_order import ServiceOrder

ACTIVE_S = 1.0
BURST_S = 0.15  # what of a limit accumulates while nothing is sent, and is not lost when the event loop is late

Sender = TypeVar("Sender")


class _Share:
    __slots__ = ("asked_s", "credit_s", "tenant")

    def __init__(self, tenant: str, now_s: float) -> None:
        self.tenant = tenant
        self.asked_s = now_s
        self.credit_s = BURST_S


class FairShares(Generic[Sender]):
    __slots__ = ("_senders", "_shares")

    def __init__(self) -> None:
        self._shares: OrderedDict[Sender, _Share] = OrderedDict()  # who asked longest ago comes first
        self._senders: dict[str, int] = {}  # how many of each tenant

    def credit_s(self, tenant: str, sender: Sender, now_s: float, waiting: ServiceOrder[Sender]) -> float | None:
        """How much of its share it has left; None: it is alone. `waiting`: those that wait for their turns under the same limit."""
        self._forget_silent(now_s)
        share = self._shares.pop(sender, None)
        if share is None:
            share = _Share(tenant, now_s)
            self._senders[tenant] = self._senders.get(tenant, 0) + 1
        self._shares[sender] = share
        part = 1 / len(self._senders.keys() | waiting.tenants) / (self._senders[tenant] + waiting.count_of(tenant))
        share.credit_s = min(BURST_S * part, share.credit_s + (now_s - share.asked_s) * part)
        share.asked_s = now_s
        return None if part == 1 else share.credit_s

    def took(self, sender: Sender, used_s: float) -> None:
        share = self._shares.get(sender)
        if share is not None:
            share.credit_s -= used_s

    def forget(self, sender: Sender) -> None:
        """It sends nothing more. Idempotent."""
        share = self._shares.pop(sender, None)
        if share is not None:
            self._left(share)

    def _forget_silent(self, now_s: float) -> None:
        while self._shares:
            sender, share = next(iter(self._shares.items()))
            if now_s - share.asked_s < ACTIVE_S:
                return
            del self._shares[sender]
            self._left(share)

    def _left(self, share: _Share) -> None:
        self._senders[share.tenant] -= 1
        if not self._senders[share.tenant]:
            del self._senders[share.tenant]
