"""The consumer of the benchmark of delayed messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.delayed.gathered_block import GatheredBlock
from messaging.broker.core.entries import EntryBlock
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.topic import Topic
from tests.benchmarks.delayed_delivery.delayed_load import Blocks


class Receiving:
    """A consumer's end: takes everything, acknowledges it, and writes down how late it was."""

    writable = True

    def __init__(self, topic: Topic, subscription: Subscription, clock: Callable[[], int]) -> None:
        self.topic = topic
        self.subscription = subscription
        self.received = 0
        self._wanted, self._enough = 0, asyncio.Event()
        self.late_ms: list[NDArray[np.int64]] = []
        self._clock = clock
        self._frames = Blocks(delayed=True)
        self._acks: list[tuple[int, list[int]]] = []

    async def wait_for(self, count: int, seconds: float) -> None:
        """Until so many were received since `received` was set to 0, or for so long."""
        self._wanted, self._enough = count, asyncio.Event()
        if self.received < count:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._enough.wait(), seconds)

    def deliver(self, consumer: Consumer, block: EntryBlock, first: int, last: int, redelivery_counts: list[int] | None) -> int:
        return self.deliver_picked(consumer, block, list(range(first, last)), redelivery_counts)

    def deliver_picked(self, consumer: Consumer, block: EntryBlock, picked: list[int], redelivery_counts: list[int] | None) -> int:
        self.received += len(picked)
        if self.received >= self._wanted:
            self._enough.set()
        times = block.deliver_at_ms
        if times is not None:
            self.late_ms.append(self._clock() - np.array([times[index] for index in picked], np.int64))
        elif isinstance(block, GatheredBlock):
            self.late_ms.append(self._clock() - self._frames.times(block.data)[picked])
        if not self._acks:
            asyncio.get_running_loop().call_soon(self._acknowledge, consumer)
        self._acks.append((block.ledger_id, [block.entry_at(index) for index in picked]))
        return len(picked) * len(block.data) // len(block.end_offsets)  # as a connection: what it sends, with the frames

    def _acknowledge(self, consumer: Consumer) -> None:
        acks, self._acks = self._acks, []
        subscription = self.subscription
        by_ledger: dict[int, list[int]] = {}
        for ledger_id, entries in acks:
            by_ledger.setdefault(ledger_id, []).extend(entries)
        for ledger_id, entries in by_ledger.items():
            self.topic.acknowledgements.acknowledge(subscription, consumer, ledger_id, entries)
        self.topic.consumers.flow(subscription, consumer, 100_000)

    def active_changed(self, consumer: Consumer, active: bool) -> None: ...
    def end_of_topic(self, consumer: Consumer) -> None: ...
    def closed(self, consumer: Consumer) -> None: ...
