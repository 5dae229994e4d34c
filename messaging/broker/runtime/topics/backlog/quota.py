"""Enforces the backlog quota of one topic when producers open and publish. A topic without a quota has none of this.

What reaches the limit is stored and confirmed, as in Pulsar; then the producers are closed, and refused until there is room again.
So a producer that is admitted can always publish something, and none opens again and again for nothing.

Measuring the backlog walks over subscriptions once and over ledgers once, so it is done only when as much was published as there
was room. The age of the oldest message is read from storage once for each mark-delete position at which it may be too old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from messaging.broker.core.backlog.quota import EVICTED_TO, BacklogQuota, QuotaAction, bytes_after, mark_leaving
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.backlog.sizes import durable, first_unacknowledged, ledger_sizes, lowest_mark_delete
from messaging.broker.runtime.topics.limits.admission import Policy
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.errors import BacklogHold, MagnetarError, QuotaExceeded
from messaging.protocol.names import TopicName
from messaging.storage.ledger_store import Position, StoreError

REMEDY = "consume it, delete a subscription, or raise the quota"


class QuotaOwner(Protocol):
    """The publisher."""

    quota: TopicBacklogQuota | None

    def refuse(self, why: MagnetarError) -> None:
        """Closes the producers: their next tries to open get the error."""


class Expires(Protocol):
    async def expire_up_to(self, subscription: Subscription, last: Position) -> int: ...
    async def expire_each_up_to(self, subscriptions: Iterable[Subscription], last: Position) -> int: ...


class QuotaTopic(TopicContext, Protocol):
    """The interface of the topic that its quota uses."""

    @property
    def acknowledgements(self) -> Expires: ...


def quota_of(policy: Policy, name: TopicName) -> BacklogQuota:
    return BacklogQuota(
        policy("backlog_quota_bytes", name),
        QuotaAction(policy("backlog_quota_bytes_policy", name)),
        policy("backlog_quota_age_s", name),
        QuotaAction(policy("backlog_quota_age_policy", name)),
    )


class TopicBacklogQuota:
    __slots__ = (
        "_check_age_at_ms",
        "_evicting",
        "_looking",
        "_measuring",
        "_oldest",
        "_owner",
        "_room_bytes",
        "_topic",
        "closing",
        "quota",
    )

    def __init__(self, topic: QuotaTopic, owner: QuotaOwner, quota: BacklogQuota) -> None:
        self.quota = quota
        self.closing: MagnetarError | None = None  # why the producers are about to be closed
        self._topic = topic
        self._owner = owner
        self._room_bytes = 0  # that may be published before the backlog is measured again
        self._oldest: tuple[Position, int] | None = None  # the first unacknowledged entry, when it was measured, and its time
        self._check_age_at_ms = 0
        self._looking = False  # once what is pending is stored
        self._measuring = False
        self._evicting: asyncio.Task[None] | None = None

    # --- producers

    def took(self, size: int, now_ms: int) -> bool:
        """A block of `size` bytes was appended. Whether to ask `reached` once it is stored."""
        self._room_bytes -= size
        full = self.quota.bytes_max >= 0 and self._room_bytes <= 0
        if self._looking or not (full or (self.quota.age_max_s >= 0 and now_ms >= self._check_age_at_ms)):
            return False
        self._looking = True
        return True

    def reached(self) -> bool:
        """Whether the producers are to be closed, by `close` once they have their receipts. Nothing is appended until then, and the
        quota is not replaced."""
        self._looking = False
        if self._replaced:
            return False
        refusal = self._bytes_refusal() or self._age_refusal(self._topic.services.clock_ms())
        if refusal is None or self.closing is not None:
            return False
        self.closing = refusal
        return True

    def close(self, stored: bool) -> None:
        refusal, self.closing = self.closing, None
        if refusal is not None:
            self._owner.refuse(refusal)

    @property
    def _replaced(self) -> bool:
        """The policies have changed: what this one had begun is for the one that follows it to decide."""
        return self._owner.quota is not self

    def held(self) -> str:
        """Why producers are refused now; "" if they are not."""
        quota, why = self.quota, None
        if quota.bytes_max >= 0 and quota.bytes_action is not QuotaAction.EVICT:
            why = self._too_large(self._backlog_bytes())
        if why is None and self._oldest is not None and quota.age_action is not QuotaAction.EVICT:
            now_ms = self._topic.services.clock_ms()
            if now_ms >= self._check_age_at_ms and self._oldest[0] == self._first_unacknowledged:
                why = self._too_old(now_ms, self._oldest[1])
        return why.message if why is not None else ""

    async def check(self, now_ms: int) -> None:
        """For a producer that opens. Raises `BacklogHold`, `QuotaExceeded`."""
        if self.quota.age_max_s >= 0:
            await self._measure_age(now_ms)
        refusal = self._bytes_refusal() or self._age_refusal(now_ms)
        if refusal is not None:
            raise refusal

    async def enforce(self, now_ms: int) -> None:
        """For maintenance: evicts what is too old or too much, although nobody publishes."""
        if self._evicting is not None:
            await asyncio.wait([self._evicting])  # it was begun earlier, when less was too old
        try:
            await self.check(now_ms)
        except QuotaExceeded:
            pass  # it concerns producers, and there may be none
        if self._evicting is not None:
            await asyncio.wait([self._evicting])

    # --- size

    def _bytes_refusal(self) -> MagnetarError | None:
        limit = self.quota.bytes_max
        if limit < 0:
            return None
        backlog = self._backlog_bytes()
        self._room_bytes = limit - backlog
        refusal = self._too_large(backlog)
        if refusal is not None and self.quota.bytes_action is QuotaAction.EVICT:
            self._begin_eviction(self._evict_bytes)
            return None
        return refusal

    def _backlog_bytes(self) -> int:
        """Of the subscription that stands furthest back: the later a position, the fewer bytes follow it."""
        lowest = lowest_mark_delete(self._topic.subscriptions.table)
        return 0 if lowest is None else bytes_after(ledger_sizes(self._topic.ledger), lowest)

    def _too_large(self, backlog: int) -> MagnetarError | None:
        limit = self.quota.bytes_max
        if backlog < limit or not backlog:
            return None
        return self._refusal(self.quota.bytes_action, f"the backlog of {backlog} bytes has reached the limit of {limit} bytes")

    @property
    def _first_unacknowledged(self) -> Position | None:
        return first_unacknowledged(self._topic.subscriptions.table, self._topic.ledger_list)

    async def _evict_bytes(self) -> None:
        lowest = lowest_mark_delete(self._topic.subscriptions.table)
        if lowest is None:
            return
        last = mark_leaving(ledger_sizes(self._topic.ledger), lowest, int(self.quota.bytes_max * EVICTED_TO))
        for subscription in durable(self._topic.subscriptions.table):
            if self._replaced:
                return
            if subscription.cursor.mark_delete < last:
                await self._topic.acknowledgements.expire_up_to(subscription, last)

    # --- age

    def _age_refusal(self, now_ms: int) -> MagnetarError | None:
        limit_s = self.quota.age_max_s
        if limit_s < 0 or now_ms < self._check_age_at_ms:
            return None
        first = self._first_unacknowledged
        if first is None:
            self._oldest, self._check_age_at_ms = None, now_ms + limit_s * 1000
            return None
        if self._oldest is None or self._oldest[0] != first:
            self._begin_measuring(now_ms)
            return None
        if self.quota.age_action is QuotaAction.EVICT:
            self._begin_eviction(self._evict_old)
            return None
        return self._too_old(now_ms, self._oldest[1])

    def _too_old(self, now_ms: int, stored_ms: int) -> MagnetarError:
        why = f"its oldest unacknowledged message is {(now_ms - stored_ms) // 1000} s old; {self.quota.age_max_s} s are allowed"
        return self._refusal(self.quota.age_action, why)

    def _begin_measuring(self, now_ms: int) -> None:
        if not self._measuring:
            self._measuring = True
            self._topic.services.loops.background.spawn(self._measure_age(now_ms), f"age of the backlog of {self._topic.text}")

    async def _measure_age(self, now_ms: int) -> None:
        self._measuring = True
        try:
            first = self._first_unacknowledged
            at_ms = await self._topic.entries.broker_time(first) if first is not None else 0
        except StoreError:  # unknown for now
            return
        finally:
            self._measuring = False
        self._oldest = (first, at_ms) if first is not None and at_ms else None
        self._check_age_at_ms = (at_ms or now_ms) + self.quota.age_max_s * 1000

    async def _evict_old(self) -> None:
        cutoff_ms = self._topic.services.stores.storage.safe_expiry_ms() - self.quota.age_max_s * 1000
        last = await self._topic.entries.mark_delete_before_broker_time(cutoff_ms)
        if self._replaced:
            return
        await self._topic.acknowledgements.expire_each_up_to(durable(self._topic.subscriptions.table), last)
        self._oldest = None

    # --- both

    def _begin_eviction(self, evict: Callable[[], Awaitable[None]]) -> None:
        if self._evicting is None:
            self._evicting = self._topic.services.loops.background.spawn(
                self._run(evict), f"evict the backlog of {self._topic.text}"
            )

    async def _run(self, evict: Callable[[], Awaitable[None]]) -> None:
        try:
            await evict()
        finally:
            self._evicting = None

    def _refusal(self, action: QuotaAction, why: str) -> MagnetarError:
        kind = BacklogHold if action is QuotaAction.HOLD else QuotaExceeded
        refused = f"topic {self._topic.text} accepts no messages: {why}"
        return kind(f"{refused}: {REMEDY}")
