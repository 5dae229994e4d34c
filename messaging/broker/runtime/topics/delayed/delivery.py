"""Delivers the delayed messages of one topic when they are due. It exists once the topic has any.

One timer for each such topic, set for the exact time of the next message. Times are compared with the clock that expiry trusts
(`messaging/clock.py`), so that nothing is early because the clock jumped ahead; the timer goes by the monotonic clock, and
`DelayTimers.check_clock` (`delayed/timers.py`) sets all timers anew when the two have parted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from messaging.broker.core.delayed.delayed_entries import DelayedEntries
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.overrides import Overrides, acknowledge_cancelled
from messaging.broker.core.delayed.run_index import RunIndex
from messaging.broker.core.delayed.time_slots import NEVER_MS
from messaging.broker.core.delayed.topic_delays import DelayPolicy, TopicDelays
from messaging.broker.core.memory.memory_charge import Charge
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.delayed.due_reader import DueReader
from messaging.broker.runtime.topics.delayed.index_jobs import IndexJobs
from messaging.broker.runtime.topics.delayed.overrides import OverrideStore
from messaging.broker.runtime.topics.dispatch.entry_cache import EntryCache
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.ledger import ManagedLedger

WAIT_S_MAX = 86_400.0  # a timer is set again after this time, because clocks drift
KEPT_FREE = 8  # this part of the account stays free for what else is remembered of clients
LEDGERS_A_MS = 10  # with so many, the memory of a topic is measured once a millisecond at most
RETRY_S = 1.0  # after a wake that failed
WAKE_COST = 150  # of one topic with some messages that are due, in units of `core/turns/command_costs.py`
SEALED_AT_CLOSE = 8_192  # from so many entries on, they are stored when a topic is unloaded; reading finds fewer again


class DelayedTopic(TopicContext, Protocol):
    ledger: ManagedLedger


class DelayedDelivery:
    __slots__ = (
        "_charge",
        "_dispatch",
        "_due_reader",
        "_failed",
        "_measured_ms",
        "_policy",
        "_timer",
        "_timer_ms",
        "_topic",
        "delays",
        "index",
        "jobs",
        "overrides",
    )

    def __init__(
        self,
        topic: DelayedTopic,
        cache: EntryCache,
        dispatch: Callable[[Subscription], None],
        failed: Callable[[Subscription, Exception], None],
    ) -> None:
        """`dispatch` sends a subscription what has become due; `failed` is told of one that may have missed some of it."""
        self._topic = topic
        self._dispatch = dispatch
        self._failed = failed
        self._charge = Charge(topic.services.memory.records, topic.name.tenant)
        self._measured_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None  # the time for which it is set
        self._policy = self._current_policy()
        self.index = RunIndex(self._policy.resolution_ms, topic.services.memory.delayed_seal_entries)
        self.jobs = IndexJobs(topic, self.index, self._lost, self.wake)
        self.delays = TopicDelays(self.index, self.allows)
        self.overrides = OverrideStore(topic, self.delays)
        self._due_reader = DueReader(topic, self.delays, cache, self.allows, self._read_ahead)
        topic.services.loops.delay_timers.topics[self] = None
        ledger_list = topic.ledger_list
        stored_before = ledger_list.entries - ledger_list.added_entries
        if stored_before > 0:  # what was stored before the topic was loaded may be missing in the index
            self.delays.unindexed = ledger_list.first, ledger_list.at_index(stored_before - 1)

    def _current_policy(self) -> DelayPolicy:
        services, name = self._topic.services, self._topic.name
        return DelayPolicy(
            bool(services.policies.value("delayed_delivery", name)),
            int(services.policies.value("delayed_delivery_tick_ms", name)),
            services.limits.delayed_delivery_strict,
        )

    async def restore(self, overrides: Overrides | None) -> None:
        """What is stored of the index, and `overrides`. Raises `StoreError`; it is closed then."""
        try:
            await self.jobs.restore()
        except BaseException:
            self.close()
            raise
        if overrides is not None:
            self.delays.restore(overrides)
            for subscription in self._topic.subscriptions.table.values():
                acknowledge_cancelled(overrides, subscription.cursor, self._topic.ledger_list)
        self._update_memory_and_timer()

    # --- what happens

    def published(self, ledger_id: int, first_entry: int, times: Sequence[int]) -> bool:
        """A block with delivery times is durable, and nobody has read it. Returns whether none of it can be sent now."""
        cutoff_ms = self._policy.cutoff_ms(self._now_ms())
        later = self.delays.published(ledger_id, first_entry, times, cutoff_ms)
        first_ms = min(times) if later else min((at_ms for at_ms in times if at_ms > cutoff_ms), default=NEVER_MS)
        if self.index.grown or self._timer_ms is None or first_ms < self._timer_ms:
            self._update_memory_and_timer()
        return later

    def join(self, subscription: Subscription) -> bool:
        """`subscription` delays messages. Returns whether that is new."""
        if subscription.state.delays is not None:
            return False
        subscription.state.use_delays(self.delays)
        return True

    def begin(self) -> None:
        """A block with delayed messages is about to be sent: those that the index does not have are judged by the time of now."""
        self.delays.cutoff_ms = self._policy.cutoff_ms(self._now_ms())

    def end(self, subscription: Subscription) -> None:
        """It was sent what of the block was due."""
        if subscription.state.delayed is not None:
            self.delays.count(subscription.state.delayed)
        self._update_memory_and_timer()

    def policies_changed(self) -> None:
        self._policy = self._current_policy()
        self.index.resolution_ms = self._policy.resolution_ms
        self.wake()

    def wake_soon(self) -> None:
        """Wakes in its turn: very many topics may be due at the same moment."""
        services = self._topic.services
        if self in services.loops.delay_timers.topics:
            services.loops.dispatch_turns.wait(self._topic.name.tenant, self)

    def run(self) -> None:
        """It is this topic's turn."""
        services = self._topic.services
        if self in services.loops.delay_timers.topics:
            self.wake()
        services.loops.dispatch_turns.turns.left -= WAKE_COST

    def wake(self) -> None:
        """Some may be due: their time has come, the clock jumped, or the policy changed. What raises is tried again."""
        waited_for_room, self._timer_ms = self.delays.full, None
        try:
            self._advance()
            self._due_reader.look(self.index, self._now_ms())
            if waited_for_room:
                self._dispatch_all()
            self._update_memory_and_timer()
        except Exception as error:
            self._topic.services.loops.dispatching.failed(error, topic=self._topic.text)
            self._wake_again(error)

    def _wake_again(self, error: Exception) -> None:
        """After a failure: what was due by then may be in no subscription."""
        if self._topic.closed is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_ms = asyncio.get_running_loop().call_later(RETRY_S, self.wake), None
        for subscription in self._topic.subscriptions.table.values():
            if subscription.state.delayed is not None:
                self._failed(subscription, error)

    @property
    def waiting_entries(self) -> int:
        """That are not due yet."""
        return sum(map(len, self.index.pending.values()))

    def changed(self) -> None:
        """Some were cancelled or rescheduled."""
        self.overrides.changed()
        self.wake()

    def forget(self, subscription: Subscription) -> None:
        """It is deleted."""
        if subscription.state.delayed is not None:
            self.delays.leave(subscription.state.delayed)
            self._update_memory_and_timer()

    def close(self) -> None:
        """Releases nothing any more. `store` follows where the topic is unloaded."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timer_ms = None
        self.jobs.close()
        self._topic.services.loops.delay_timers.topics.pop(self, None)
        self._due_reader.close()
        self._charge.end()

    async def store(self) -> None:
        """Finishes what is under way and stores what is in memory, if that is much. Never raises."""
        try:
            await self.overrides.save()
        except StoreError as error:  # whoever waits for it is told the same
            self._topic.services.loops.dispatching.failed(error, topic=self._topic.text)
        await self.jobs.finish()
        job = self.index.seal(self._now_ms(), SEALED_AT_CLOSE)
        if job is not None:
            await self.jobs.do(job)

    def _advance(self) -> None:
        self._send(self.delays.advance(self._now_ms(), self._policy, self._topic.ledger_list.first_id))

    def _send(self, released: list[DelayedEntries] | None) -> None:
        if released is None:
            return
        for subscription in self._topic.subscriptions.table.values():
            if subscription.consumers:
                delayed = subscription.state.delayed
                if delayed is None or delayed in released:
                    self._dispatch(subscription)

    def _read_ahead(self) -> None:
        """Something was read before it was due; some of it may be due by now."""
        ahead = self.delays.ahead
        waiting, ahead.waiting = ahead.waiting, {}
        if waiting:
            self._send([entry for entry in self.delays.entries if entry in waiting])
        self._update_memory_and_timer()

    def _lost(self, entries: EntrySets) -> None:
        """When they are due is not known any more: each is looked at."""
        self.delays.ahead.clear()
        self._send(self.delays.release(entries))

    def _dispatch_all(self) -> None:
        for subscription in self._topic.subscriptions.table.values():
            if subscription.consumers:
                self._dispatch(subscription)

    # --- memory and timer

    def _update_memory_and_timer(self) -> None:
        """Called after every change of the messages that wait."""
        if self._topic.closed is not None:
            return
        now_ms = self._now_ms()
        self.jobs.begin(now_ms)
        self._measure(now_ms)
        wake_ms = self._wake_ms(now_ms)
        if wake_ms == self._timer_ms and wake_ms is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_ms = None, wake_ms
        if wake_ms is not None:
            wait_s = min(max(0, wake_ms - now_ms) / 1000, WAIT_S_MAX)
            loop, timers = asyncio.get_running_loop(), self._topic.services.loops.delay_timers
            timers.timer_set(now_ms, round(loop.time() * 1000))
            self._timer = loop.call_later(wait_s, self.wake_soon)

    def _measure(self, now_ms: int) -> None:
        """Each ledger takes a microsecond: topics with thousands are measured the less often."""
        if not 0 <= now_ms - self._measured_ms < len(self.index.pending) // LEDGERS_A_MS:
            self._measured_ms = now_ms
            self._charge.change(self.delays.memory_bytes - self._charge.held_bytes)

    def _wake_ms(self, now_ms: int) -> int | None:
        """Entries that are due within the same part of a tick are sent together."""
        due_ms, load_ms = self.delays.wake_ms(now_ms, self._policy), self.index.loads_ms()
        resolution_ms = self._policy.resolution_ms
        times = [-(-due_ms // resolution_ms) * resolution_ms] if due_ms is not None else []
        times += [at_ms for at_ms in (load_ms, self._due_reader.look_ms(self.index)) if at_ms is not None]
        return min(times, default=None)

    def _now_ms(self) -> int:
        return self._topic.services.stores.storage.safe_expiry_ms()

    def allows(self, size: int) -> bool:
        account = self._topic.services.memory.records
        return self._charge.allows(size) and account.used_bytes + size <= account.limit_bytes - account.limit_bytes // KEPT_FREE
