"""The memory of all cursors, counted in one account. Changed cursors are measured once in a while, because acknowledgements arrive
far more often than their memory changes noticeably; only chunks, of which each takes much, are charged at once. Pure.
"""

from __future__ import annotations

from collections import OrderedDict

from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.broker.core.subscription import Subscription

MEASURED_MAX = 5_000  # subscriptions and consumers at a time
HELD_SHARE = 4  # what consumers hold is charged up to 1/4 of the account for each tenant: acknowledging it needs memory, too


def memory_bytes(subscription: Subscription) -> int:
    """About how much memory its acknowledgements, what was given back, redelivery counts and chunks take, and what its strategy
    knows of entries."""
    state = subscription.state
    chunk_bytes = 0 if state.chunks is None else state.chunks.memory_bytes
    returned_bytes = state.redeliveries.memory_bytes
    return subscription.cursor.memory_bytes + returned_bytes + chunk_bytes + subscription.strategy.memory_bytes


def held_bytes(subscription: Subscription) -> int:
    """The same of what its consumers hold."""
    return sum(consumer.held_bytes for consumer in subscription.consumers)


class CursorMemory:
    def __init__(self, account: MemoryAccount) -> None:
        self._account = account
        self._changed: OrderedDict[Subscription, str] = OrderedDict()  # with its tenant; to be measured
        self.uncounted_redeliveries = 0  # for which there was no memory

    def allows(self, tenant: str, size: int) -> bool:
        return self._account.allows(tenant, size)

    def changed(self, tenant: str, subscription: Subscription) -> None:
        self._changed[subscription] = tenant

    def measure(self) -> None:
        left = MEASURED_MAX
        while self._changed and left > 0:
            subscription, tenant = self._changed.popitem(last=False)
            self.charge(tenant, subscription)
            left -= 1 + len(subscription.consumers)

    def chunks_sent(self, tenant: str, subscription: Subscription) -> None:
        """Charges what is remembered of chunks since the last time; the oldest are forgotten for which there is no memory."""
        chunks, charged_bytes = subscription.state.chunks, subscription.charged_bytes
        if chunks is None or charged_bytes is None:
            return
        missing = chunks.memory_bytes - chunks.charged_bytes - self._account.share(tenant)
        if missing > 0:
            chunks.forget_oldest(missing)
        self._charge(tenant, subscription, charged_bytes + chunks.memory_bytes - chunks.charged_bytes)
        chunks.charged_bytes = chunks.memory_bytes

    def charge(self, tenant: str, subscription: Subscription) -> None:
        if subscription.state.chunks is not None:
            subscription.state.chunks.charged_bytes = subscription.state.chunks.memory_bytes
        own_bytes = memory_bytes(subscription)
        of_others = self._account.tenants.get(tenant, 0) - (subscription.charged_bytes or 0)
        room = max(0, self._account.limit_bytes // HELD_SHARE - of_others - own_bytes)
        self._charge(tenant, subscription, own_bytes + min(held_bytes(subscription), room))

    def release(self, tenant: str, subscription: Subscription) -> None:
        """It is deleted, or its topic is unloaded."""
        self._changed.pop(subscription, None)
        self._charge(tenant, subscription, 0)
        subscription.charged_bytes = None

    def _charge(self, tenant: str, subscription: Subscription, memory_bytes: int) -> None:
        if subscription.charged_bytes is None:
            return  # it is released
        more = memory_bytes - subscription.charged_bytes
        subscription.charged_bytes = memory_bytes
        if more > 0:
            self._account.take(tenant, more)
        elif more < 0:
            self._account.give(tenant, -more)
