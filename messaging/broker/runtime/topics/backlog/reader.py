"""Reads entries from one topic's log for subscriptions that are behind the entry cache, as planned by `core/backlog/plan.py`.

A reader exists only while reads are in progress or blocks are held for a subscription.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

import structlog

from messaging.broker.core.backlog.plan import BacklogPlan, Steps
from messaging.broker.core.backlog.read import BacklogRead, ReadState
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.backlog.scheduler import BacklogDispatcher
from messaging.broker.runtime.topics.dispatch.entry_cache import EntryCache
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.ledger_store import Block, Corrupt, Position
from messaging.storage.managed.ledger_list import LedgerList

log = structlog.get_logger("broker.dispatcher")

READ_ENTRIES = 4096
READ_RETRY_S = 1.0


class BacklogOwner(BacklogDispatcher, Protocol):
    """The interface of the dispatcher that its backlog reader uses."""

    topic: TopicContext
    cache: EntryCache

    def dispatch(self, subscription: Subscription) -> object: ...


class LogSource(Protocol):
    """What is read from: the ledgers of the topic, or its compacted ledger."""

    @property
    def ledger_list(self) -> LedgerList: ...

    async def read(self, position: Position, *, entries_max: int, bytes_max: int) -> list[Block]: ...

    def forecast(self, position: Position, *, entries_max: int, bytes_max: int) -> int | Awaitable[int]: ...


class BacklogReader:
    def __init__(
        self,
        dispatcher: BacklogOwner,
        log: LogSource,
        entries_of: Callable[[Block], EntryBlock],
        released: Callable[[BacklogReader], None],
    ) -> None:
        self.dispatcher = dispatcher
        self.log = log
        self._released = released  # called when nothing is read or held any more
        self.tenant = dispatcher.tenant
        services = dispatcher.topic.services
        self._scheduler = services.loops.backlog_scheduler
        read_bytes = self._scheduler.read_bytes(services.stores.storage.ledgers.read_bytes)
        self.plan = BacklogPlan(
            log.ledger_list, lambda position: dispatcher.cache.find(position) is not None, entries_of, read_bytes
        )
        self._tasks: dict[BacklogRead, asyncio.Task[list[Block]]] = {}
        self._scheduler.readers[self] = None

    def find(self, subscription: Subscription, position: Position, *, sequential: bool) -> EntryBlock | None:
        """The block that holds `position`. None while it is being read; `subscription` is scheduled once it is available."""
        block, steps = self.plan.find(subscription, position, sequential=sequential)
        self._take(steps)
        if steps.unreadable:
            self._skip(subscription, Corrupt(steps.unreadable, position.ledger_id, position.entry_id))
            self._scheduler.schedule(self.dispatcher, subscription)
        return block

    def _take(self, steps: Steps) -> None:
        """Carries out the steps of a plan. Memory that one step releases may start reads of other topics, and starting a read may
        reclaim memory from subscriptions of this topic. A read that lost its subscribers in the meantime is therefore not started.
        """
        self._scheduler.reads_joined += steps.joined
        for read in steps.cancel:
            if read.state is ReadState.DONE:
                self._scheduler.resized(self.tenant, read.size_bytes, 0)
            elif read.state is ReadState.UNDER_WAY:
                self._tasks[read].cancel()  # it releases its memory when it ends
            else:
                self._scheduler.withdraw(self, read)
        for read in steps.start:
            self._forecast(read)
        for subscription in steps.dispatch:
            self._scheduler.schedule(self.dispatcher, subscription)
        if not self.plan.subscriptions:
            self._scheduler.readers.pop(self, None)
            self._released(self)

    # --- reading

    def _forecast(self, read: BacklogRead) -> None:
        entries = self.log.forecast(read.first, entries_max=READ_ENTRIES, bytes_max=read.size_bytes)
        if isinstance(entries, int):
            self._ask(read, entries)
        else:
            self.dispatcher.topic.services.loops.background.spawn(
                self._forecast_later(read, entries), f"forecast {self.dispatcher.topic_name}"
            )

    async def _forecast_later(self, read: BacklogRead, forecast: Awaitable[int]) -> None:
        entries = 0  # it is not known
        try:
            entries = await forecast
        finally:
            self._ask(read, entries)

    def _ask(self, read: BacklogRead, entries: int) -> None:
        if read.users:
            if entries:
                read.forecast(entries)
            self._scheduler.ask(self, read)

    def begin(self, read: BacklogRead) -> None:
        """Starts this read; the scheduler granted it memory."""
        read.state = ReadState.UNDER_WAY
        entries = read.entries if read.stop_entry else READ_ENTRIES
        work = self.log.read(read.first, entries_max=entries, bytes_max=read.size_bytes)
        task = asyncio.get_running_loop().create_task(work, name=f"read backlog of {self.dispatcher.topic_name}")
        self._tasks[read] = task
        task.add_done_callback(partial(self._ended, read))

    def _ended(self, read: BacklogRead, task: asyncio.Task[list[Block]]) -> None:
        del self._tasks[read]
        error = None if task.cancelled() else task.exception()
        blocks = [] if error is not None or task.cancelled() else task.result()
        topic, waiting = self.dispatcher.topic, list(read.users)
        # The number of concurrent reads is limited over all topics: an exception here would leave this read counted forever.
        try:
            if not read.users:
                self._scheduler.resized(self.tenant, read.size_bytes, 0)
            elif blocks:
                expected = read.size_bytes
                steps = self.plan.arrived(read, blocks)
                self._scheduler.resized(self.tenant, expected, read.size_bytes)
                self._take(steps)
            else:
                self._failed(read, error)
        except Exception as unexpected:  # whoever waits for this read does not wait for ever
            topic.services.loops.dispatching.failed(unexpected, topic=topic.text, position=str(read.first))
            with topic.services.loops.dispatching.guard(topic=topic.text, position=str(read.first)):
                self._failed(read, unexpected)
            for subscription in waiting:
                asyncio.get_running_loop().call_later(READ_RETRY_S, self.dispatcher.dispatch, subscription)
        self._scheduler.ended()

    def _failed(self, read: BacklogRead, error: BaseException | None) -> None:
        """The read failed. Subscriptions that waited for it skip what cannot be read, or try again later."""
        steps = self.plan.failed(read)
        if isinstance(error, Corrupt):
            for subscription in steps.dispatch:
                self._skip(subscription, error)
        else:
            topic = self.dispatcher.topic
            log.error("read.failed", topic=topic.text, position=str(read.first), error=str(error or "nothing came"))
            for subscription in steps.dispatch:
                asyncio.get_running_loop().call_later(READ_RETRY_S, self.dispatcher.dispatch, subscription)
            steps.dispatch = []
        self._take(steps)

    def _skip(self, subscription: Subscription, error: Corrupt) -> None:
        topic = self.dispatcher.topic
        topic.services.stores.storage.damage["delivery"] += 1
        log.error("entry.corrupt", topic=topic.text, ledger_id=error.ledger_id, entry_id=error.entry_id, error=str(error))
        if not subscription.state.reading.skip_lost(error.ledger_id, error.resume_entry):
            for delta in subscription.skip_lost(error.ledger_id, error.resume_entry):
                topic.cursor_changes.store(subscription, delta)

    # --- releasing memory

    def forget(self, subscription: Subscription) -> None:
        """Releases everything held for a subscription that no longer reads from here."""
        self._take(self.plan.forget(subscription))

    def give_back(self) -> bool:
        """Releases blocks held for subscriptions that cannot take messages now. Returns whether there were any."""
        steps = self.plan.give_back()
        if steps is None:
            return False
        self._take(steps)
        return True

    def sweep(self) -> None:
        self._take(self.plan.sweep())

    def close(self) -> None:
        for subscription in list(self.plan.subscriptions):
            self.forget(subscription)
