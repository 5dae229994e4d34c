"""What tenants owe of a limit that they share: messages and bytes that were sent at once and were far more than was allowed. Pure.

One SEND may say that it holds a hundred thousand messages, which nobody can verify while it is compressed. The limit is charged
what accumulates in `BURST_S`; the rest is the debt of its tenant, paid with its turns and with what nobody else uses. Until then it
sends nothing more under this limit, and others wait no longer than for any other message.
"""

from __future__ import annotations

from messaging.token_bucket import TokenBucket

Amount = tuple[float, float]  # messages, bytes


class TenantDebts:
    __slots__ = ("_owed",)

    def __init__(self) -> None:
        self._owed: dict[str, Amount] = {}  # first who has owed longest

    def __bool__(self) -> bool:
        return bool(self._owed)

    def __contains__(self, tenant: str) -> bool:
        return tenant in self._owed

    def owed(self, tenant: str) -> Amount:
        return self._owed.get(tenant, (0.0, 0.0))

    def charged(
        self, tenant: str, sent: Amount, messages: TokenBucket | None, size_bytes: TokenBucket | None, now_s: float
    ) -> Amount:
        """How much of what a tenant sent the limit is charged now."""
        owed_messages, owed_bytes = self.owed(tenant)
        most_messages, most_bytes = _most(messages, now_s), _most(size_bytes, now_s)
        over_messages, over_bytes = max(0.0, sent[0] - most_messages), max(0.0, sent[1] - most_bytes)
        if over_messages or over_bytes:
            self._owed[tenant] = owed_messages + over_messages, owed_bytes + over_bytes
        return sent[0] - over_messages, sent[1] - over_bytes

    def pay(self, tenant: str, offered: Amount) -> Amount:
        """How much of what is offered pays the debt of a tenant."""
        owed = self.owed(tenant)
        paid = min(owed[0], offered[0]), min(owed[1], offered[1])
        left = owed[0] - paid[0], owed[1] - paid[1]
        if left[0] > 0 or left[1] > 0:
            self._owed[tenant] = left
        else:
            self._owed.pop(tenant, None)
        return paid

    def pay_with_spilled(self, messages: TokenBucket | None, size_bytes: TokenBucket | None) -> None:
        """What accumulated beyond what is kept was used by nobody."""
        spilled = _spilled(messages), _spilled(size_bytes)
        for tenant in list(self._owed):
            paid = self.pay(tenant, spilled)
            spilled = spilled[0] - paid[0], spilled[1] - paid[1]
            if not any(spilled):
                return


def _most(bucket: TokenBucket | None, now_s: float) -> float:
    return float("inf") if bucket is None else max(0.0, bucket.tokens(now_s)) + bucket.burst


def _spilled(bucket: TokenBucket | None) -> float:
    if bucket is None:
        return 0.0
    spilled, bucket.spilled = bucket.spilled, 0.0
    return spilled
