"""Delivers the delayed messages of one topic when they are due. It exists only once a subscription that delays messages has come to
one.

One timer for each such topic, set for the exact time of the next message. Times are compared with the clock that expiry trusts
(`messaging/clock.py`), so that nothing is early because the clock jumped ahead; the timer goes by the monotonic clock, and
`DelayTimers.check_clock` (`delay_timers.py`) sets all timers anew when the two have parted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from messaging.broker.core.delayed.index import MemoryIndex
from messaging.broker.core.delayed.topic_delays import DelayPolicy, TopicDelays
from messaging.broker.core.memory_charge import Charge
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.topic_context import TopicContext

WAIT_S_MAX = 86_400.0  # a timer is set again after this time, because clocks drift
KEPT_FREE = 8  # this part of the account stays free for what else is remembered of clients


class DelayedDelivery:
    __slots__ = ("_charge", "_dispatch", "_index", "_timer", "_timer_ms", "_topic", "delays")

    def __init__(self, topic: TopicContext, dispatch: Callable[[Subscription], None]) -> None:
        """`dispatch` sends a subscription what has become due."""
        self._topic = topic
        self._dispatch = dispatch
        self._charge = Charge(topic.services.records, topic.name.tenant)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None  # the time for which it is set
        self._index = MemoryIndex(self.policy().resolution_ms)
        self.delays = TopicDelays(self._index, self._allows)
        topic.services.delay_timers.topics[self] = None

    def policy(self) -> DelayPolicy:
        services, name = self._topic.services, self._topic.name
        return DelayPolicy(
            bool(services.policy("delayed_delivery", name)),
            int(services.policy("delayed_delivery_tick_ms", name)),
            services.delayed_delivery_strict,
        )

    def begin(self, subscription: Subscription) -> None:
        """`subscription` is about to be sent a block with delayed messages."""
        if subscription.state.delays is None:
            subscription.state.use_delays(self.delays)
        self._advance(sent_now=subscription)

    def end(self, subscription: Subscription) -> None:
        """It was sent what of the block was due."""
        if subscription.state.delayed is not None:
            self.delays.count(subscription.state.delayed)
        self._update_memory_and_timer()

    def wake(self) -> None:
        """Some may be due: their time has come, the clock jumped, or the policy changed."""
        topic = self._topic
        with topic.services.dispatching.guard(topic=topic.text):
            waited_for_room, self._timer_ms = self.delays.full, None
            self._index.resolution_ms = self.policy().resolution_ms
            self._advance()
            if waited_for_room:
                self._dispatch_all()
            self._update_memory_and_timer()

    def forget(self, subscription: Subscription) -> None:
        """It is deleted."""
        if subscription.state.delayed is not None:
            self.delays.leave(subscription.state.delayed)
            self._update_memory_and_timer()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timer_ms = None
        self._topic.services.delay_timers.topics.pop(self, None)
        self._charge.end()

    def _advance(self, sent_now: Subscription | None = None) -> None:
        released = set(self.delays.advance(self._now_ms(), self.policy()))
        if not released:
            return
        for subscription in self._topic.subscriptions.values():
            if subscription.state.delayed in released and subscription.consumers and subscription is not sent_now:
                self._dispatch(subscription)

    def _dispatch_all(self) -> None:
        for subscription in self._topic.subscriptions.values():
            if subscription.consumers:
                self._dispatch(subscription)

    def _update_memory_and_timer(self) -> None:
        """Called after every change of the messages that wait."""
        if self._topic.closed is not None:
            return
        self._charge.change(self.delays.memory_bytes - self._charge.held_bytes)
        now_ms = self._now_ms()
        wake_ms = self.delays.wake_ms(now_ms, self.policy())
        if wake_ms == self._timer_ms and wake_ms is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_ms = None, wake_ms
        if wake_ms is not None:
            wait_s = min(max(0, wake_ms - now_ms) / 1000, WAIT_S_MAX)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self.wake)

    def _now_ms(self) -> int:
        return self._topic.services.storage.safe_expiry_ms()

    def _allows(self, size: int) -> bool:
        account = self._topic.services.records
        return self._charge.allows(size) and account.used_bytes + size <= account.limit_bytes - account.limit_bytes // KEPT_FREE
