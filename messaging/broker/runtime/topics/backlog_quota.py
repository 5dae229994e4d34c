"""Enforces the backlog quota of one topic when producers open and publish. A topic without a quota has none of this.

Measuring the backlog walks over subscriptions and ledgers, so it is done only when as much was published as there was room. The age
of the oldest message is read from storage once for each mark-delete position at which it may be too old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from messaging.broker.core.backlog_quota import EVICTED_TO, BacklogQuota, QuotaAction, bytes_after, mark_leaving
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.admission import Policy
from messaging.broker.runtime.topics.backlog_sizes import durable, first_unacknowledged, ledger_sizes
from messaging.broker.runtime.topics.entry_lookup import broker_time, mark_delete_before_broker_time
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.errors import BacklogHold, MagnetarError, QuotaExceeded
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Position, StoreError


class QuotaTopic(TopicContext, Protocol):
    """The interface of the topic that its quota uses."""

    async def expire_up_to(self, subscription: Subscription, last: Position) -> int: ...

    def refuse_publishing(self, why: MagnetarError) -> None:
        """Closes the producers: their next tries to open get the error."""


def quota_of(policy: Policy, name: TopicName) -> BacklogQuota:
    return BacklogQuota(
        policy("backlog_quota_bytes", name),
        QuotaAction(policy("backlog_quota_bytes_policy", name)),
        policy("backlog_quota_age_s", name),
        QuotaAction(policy("backlog_quota_age_policy", name)),
    )


class TopicBacklogQuota:
    __slots__ = ("_check_age_at_ms", "_evicting", "_measuring", "_oldest", "_room_bytes", "_topic", "quota")

    def __init__(self, topic: QuotaTopic, quota: BacklogQuota) -> None:
        self.quota = quota
        self._topic = topic
        self._room_bytes = 0  # that may be published before the backlog is measured again
        self._oldest: tuple[Position, int] | None = None  # the first unacknowledged entry, when it was measured, and its time
        self._check_age_at_ms = 0
        self._measuring = False
        self._evicting: asyncio.Task[None] | None = None

    # --- producers

    def admits(self, size: int, now_ms: int) -> bool:
        """Whether a block of `size` bytes may be appended. If not, the producers were closed."""
        refusal = self._bytes_refusal(size) or self._age_refusal(now_ms)
        if refusal is not None:
            self._topic.refuse_publishing(refusal)
        return refusal is None

    async def check(self, now_ms: int) -> None:
        """For a producer that opens. Raises `BacklogHold`, `QuotaExceeded`."""
        if self.quota.age_max_s >= 0:
            await self._measure_age(now_ms)
        refusal = self._bytes_refusal(0) or self._age_refusal(now_ms)
        if refusal is not None:
            raise refusal

    async def enforce(self, now_ms: int) -> None:
        """For maintenance: evicts what is too old or too much, although nobody publishes."""
        try:
            await self.check(now_ms)
        except QuotaExceeded:
            pass  # it concerns producers, and there may be none
        if self._evicting is not None:
            await asyncio.wait([self._evicting])

    # --- size

    def _bytes_refusal(self, size: int) -> MagnetarError | None:
        limit = self.quota.bytes_max
        if limit < 0:
            return None
        self._room_bytes -= size
        if self._room_bytes >= 0 and size:
            return None
        ledgers = ledger_sizes(self._topic)
        backlog = max((bytes_after(ledgers, one.cursor.mark_delete) for one in durable(self._topic)), default=0)
        self._room_bytes = limit - backlog - size
        if backlog + size <= limit if size else backlog < limit or not backlog:
            return None
        if self.quota.bytes_action is QuotaAction.EVICT:
            self._begin_eviction(self._evict_bytes)
            return None
        return self._refusal(self.quota.bytes_action, f"the backlog of {backlog} bytes leaves no room in {limit} bytes")

    async def _evict_bytes(self) -> None:
        wanted = int(self.quota.bytes_max * EVICTED_TO)
        for subscription in durable(self._topic):
            ledgers = ledger_sizes(self._topic)
            if bytes_after(ledgers, subscription.cursor.mark_delete) > wanted:
                await self._topic.expire_up_to(subscription, mark_leaving(ledgers, subscription.cursor.mark_delete, wanted))

    # --- age

    def _age_refusal(self, now_ms: int) -> MagnetarError | None:
        limit_s = self.quota.age_max_s
        if limit_s < 0 or now_ms < self._check_age_at_ms:
            return None
        first = first_unacknowledged(self._topic)
        if first is None:
            self._oldest, self._check_age_at_ms = None, now_ms + limit_s * 1000
            return None
        if self._oldest is None or self._oldest[0] != first:
            self._begin_measuring(now_ms)
            return None
        if self.quota.age_action is QuotaAction.EVICT:
            self._begin_eviction(self._evict_old)
            return None
        age_s = (now_ms - self._oldest[1]) // 1000
        return self._refusal(self.quota.age_action, f"its oldest unacknowledged message is {age_s} s old; {limit_s} s are allowed")

    def _begin_measuring(self, now_ms: int) -> None:
        if not self._measuring:
            self._measuring = True
            self._topic.services.background.spawn(self._measure_age(now_ms), f"age of the backlog of {self._topic.text}")

    async def _measure_age(self, now_ms: int) -> None:
        self._measuring = True
        try:
            first = first_unacknowledged(self._topic)
            at_ms = await broker_time(self._topic, first) if first is not None else 0
        except StoreError:  # unknown for now
            return
        finally:
            self._measuring = False
        self._oldest = (first, at_ms) if first is not None and at_ms else None
        self._check_age_at_ms = (at_ms or now_ms) + self.quota.age_max_s * 1000

    async def _evict_old(self) -> None:
        cutoff_ms = self._topic.services.storage.safe_expiry_ms() - self.quota.age_max_s * 1000
        last = await mark_delete_before_broker_time(self._topic, cutoff_ms)
        for subscription in durable(self._topic):
            await self._topic.expire_up_to(subscription, last)
        self._oldest = None

    # --- both

    def _begin_eviction(self, evict: Callable[[], Awaitable[None]]) -> None:
        if self._evicting is None:
            self._evicting = self._topic.services.background.spawn(self._run(evict), f"evict the backlog of {self._topic.text}")

    async def _run(self, evict: Callable[[], Awaitable[None]]) -> None:
        try:
            await evict()
        finally:
            self._evicting = None

    def _refusal(self, action: QuotaAction, why: str) -> MagnetarError:
        kind = BacklogHold if action is QuotaAction.HOLD else QuotaExceeded
        return kind(f"topic {self._topic.text} accepts no messages: {why}: consume it, delete a subscription, or raise the quota")
