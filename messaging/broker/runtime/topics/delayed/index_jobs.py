"""What the index of one topic's delayed messages has stored, merged and read again, while messages go on. What fails is tried
again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.run_index import RunIndex
from messaging.broker.core.delayed.run_jobs import Job, Load, StoredRun
from messaging.broker.runtime.topics.delayed.run_store import RunStore
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.storage.ledger_store import StoreError

RETRY_S = 1.0  # after a job that failed


class IndexJobs:
    """`lost` is given entries of which nobody knows the times any more; `wake` is called after each job."""

    __slots__ = ("_index", "_lost", "_put_off", "_retrying", "_running", "_runs", "_topic", "_wake")

    def __init__(self, topic: TopicContext, index: RunIndex, lost: Callable[[EntrySets], None], wake: Callable[[], None]) -> None:
        self._topic = topic
        self._index = index
        self._lost = lost
        self._wake = wake
        self._runs = RunStore(topic.ledger, topic.name.tenant)
        self._running: set[asyncio.Task[None]] = set()
        self._retrying: asyncio.TimerHandle | None = None  # a job failed: none but loads of others begins before this
        self._put_off: list[Load] = []  # that failed

    async def restore(self) -> None:
        """What is stored of the index. Raises `StoreError`."""
        await self._runs.restore(self._index)

    async def run_block(self, run: StoredRun, block: int) -> bytes | None:
        """A block of the index as it is stored; None if it is damaged. Raises `NoSuchLedger`: the run was merged; `StoreError`."""
        return await self._runs.block(run, block)

    def begin(self, now_ms: int) -> None:
        """What is due."""
        index = self._index
        for job in index.jobs(now_ms) if self._retrying is None else index.loads(index.releasing_ms):
            task = asyncio.get_running_loop().create_task(self.do(job), name=f"delayed messages of {self._topic.text}")
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def do(self, job: Job) -> None:
        """Never raises."""
        topic = self._topic
        with topic.services.loops.dispatching.guard(topic=topic.text, job=type(job).__name__):
            done = False
            try:
                async with topic.services.loops.delay_timers.turn(job, topic.name.tenant):
                    lost = await self._runs.do(self._index, job)
                done = True
                if topic.closed is None and lost:
                    self._lost(lost)
            except StoreError as error:
                topic.services.loops.dispatching.failed(error, topic=topic.text, job=type(job).__name__)
            finally:
                if not done:
                    self._retry_later(job)
                if topic.closed is None:
                    self._wake()

    async def finish(self) -> None:
        """Waits for what is under way."""
        if self._running:
            await asyncio.wait(self._running)

    def close(self) -> None:
        """Begins nothing any more by itself."""
        if self._retrying is not None:
            self._retrying.cancel()
        self._retrying = None

    def _retry_later(self, job: Job) -> None:
        if isinstance(job, Load):
            self._put_off.append(job)
        if self._retrying is None and self._topic.closed is None:
            self._retrying = asyncio.get_running_loop().call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._retrying = None
        while self._put_off:
            self._index.put_off(self._put_off.pop())
        self._wake()
