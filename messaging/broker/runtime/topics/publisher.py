"""Socket to log: how the blocks of a topic's producers are appended, and how their receipts come back in order.

Sequence checks, counters and the header are taken once a block. Receipts, and the receipts of duplicates, leave a producer in the
order in which its messages came, and never before the messages are durable. A block takes one object on its way (`PendingPublish`):
where each of thousands of topics gets one message, a block is a message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from messaging.broker.core.dedup import Deduplication
from messaging.broker.core.entries import EntryBlock, for_log, header_of, whole_bytes
from messaging.broker.core.producers import Producer, ProducerTable
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.protocol import hot
from messaging.protocol.hot import BlockSummary, SendFrame
from messaging.storage.ledger_store import StoreError
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.managed.pending_append import PendingAppend

KEPT_SHARE = 4  # a block that is kept in memory is copied out of a read so many times its size


class PublishedTopic(TopicContext, Protocol):
    """The topic as its publisher sees it."""

    def stored(self, pending: PendingPublish) -> None:
        """A block is durable."""

    def append_failed(self, error: StoreError) -> None:
        """The log did not take a block."""


class Publisher:
    __slots__ = (
        "after_pending",
        "bytes_in",
        "completed_blocks",
        "dedup",
        "dedup_changes",
        "dedup_saving",
        "last_published_ms",
        "ledger",
        "messages_in",
        "producers",
        "published_blocks",
        "topic",
    )

    def __init__(self, topic: PublishedTopic, ledger: ManagedLedger) -> None:
        self.topic = topic
        self.ledger = ledger
        self.producers = ProducerTable()
        self.dedup: Deduplication | None = None
        self.dedup_changes = False  # it is being turned on or off
        self.dedup_saving: asyncio.Lock | None = None  # one snapshot is packed and stored at a time
        self.messages_in = 0
        self.bytes_in = 0
        self.last_published_ms = 0
        self.published_blocks = 0
        self.completed_blocks = 0
        # (after so many answered blocks, what is to be done); None while nothing waits
        self.after_pending: deque[tuple[int, Callable[[bool], None]]] | None = None

    def publish(self, producer: Producer, buf: bytes, sent: list[SendFrame], summary: BlockSummary) -> int:
        """Appends one block of a producer; receipts come through its sink. Returns the bytes appended.

        Raises `StoreError` where the log takes nothing: the topic then has to be opened again."""
        now_ms = self.ledger.stamp()
        name = producer.name_bytes
        asked, dedup = sent, self.dedup
        if dedup is not None:
            self.ledger.check_open()  # what it counts as taken may have been refused: then nothing is judged by that
            sent, repeated = dedup.sift(name, sent)
            if repeated:
                if not sent:
                    dedup.took(name, sent, now_ms)
                    self.run_after_pending(lambda stored: self.send_receipts(producer, asked) if stored else None)
                    return 0
                summary = hot.summarize(sent)
        end_offsets = summary.end_offsets
        data = for_log(buf, sent, end_offsets)
        pending = PendingPublish(self, producer, data, sent, asked, summary, now_ms)
        self.ledger.append(header_of(sent, name, now_ms, summary.message_count), data, end_offsets, pending)
        if dedup is not None:
            dedup.took(name, sent, now_ms)
        self.published_blocks += 1
        return end_offsets[-1]

    def run_after_pending(self, act: Callable[[bool], None]) -> None:
        """Does what must not overtake the receipts of anything appended so far: at once, or when the last of them has its answer.

        `act` is told whether that was stored. Blocks of all producers count: the original of a duplicate may have come over a
        connection that is gone, and is not durable before its block is."""
        if self.completed_blocks == self.published_blocks:
            act(True)
            return
        if self.after_pending is None:
            self.after_pending = deque()
        self.after_pending.append((self.published_blocks, act))

    def run_due(self, stored: bool) -> None:
        """Another block has its answer: what waited for that is done."""
        after_pending = self.after_pending
        while after_pending and after_pending[0][0] <= self.completed_blocks:
            after_pending.popleft()[1](stored)
        if not after_pending:
            self.after_pending = None

    def send_receipts(self, producer: Producer, asked: list[SendFrame]) -> None:
        """Receipts one by one, each with the id under which its sequence id is stored (-1:-1 where that is not remembered)."""
        if self.dedup is None or producer.closed:
            return
        for frame in asked:
            producer.sink.receipts(producer, [frame], self.dedup.position_of(producer.name_bytes, frame.sequence_id))


class PendingPublish(PendingAppend):
    """One block between its append and its answer."""

    __slots__ = ("asked", "data", "now_ms", "producer", "publisher", "sent", "summary")

    def __init__(
        self,
        publisher: Publisher,
        producer: Producer,
        data: bytes | memoryview,
        sent: list[SendFrame],
        asked: list[SendFrame],
        summary: BlockSummary,
        now_ms: int,
    ) -> None:
        self.publisher = publisher
        self.producer = producer
        self.data = data  # as the log has it
        self.sent = sent
        self.asked = asked  # with the duplicates, which are not in `sent`
        self.summary = summary
        self.now_ms = now_ms

    def confirmed(self, error: StoreError | None) -> None:
        """The log has it, or will not have it. In append order over the topic. Raises nothing: what goes wrong with one producer or
        reader keeps nobody's receipts back."""
        publisher = self.publisher
        try:
            self._complete(error)
        except Exception as unexpected:
            publisher.topic.services.dispatching.failed(unexpected, topic=publisher.topic.text, producer=self.producer.name)
        if error is None:
            publisher.topic.stored(self)
        else:
            publisher.topic.append_failed(error)
        publisher.completed_blocks += 1
        if publisher.after_pending is not None:
            publisher.run_due(error is None)

    def _complete(self, error: StoreError | None) -> None:
        """Counts it and answers its producer."""
        publisher, producer = self.publisher, self.producer
        summary = self.summary
        if error is None:
            publisher.messages_in += summary.message_count
            publisher.bytes_in += summary.payload_bytes
            publisher.last_published_ms = self.now_ms
            producer.messages_in += summary.message_count
            producer.bytes_in += summary.payload_bytes
            if publisher.dedup is not None:
                publisher.dedup.stored(producer.name_bytes, self.sent, self.first)
        producer.sink.append_completed(summary.end_offsets[-1])
        if error is None and not producer.closed:
            if self.asked is self.sent:
                producer.sink.receipts(producer, self.sent, self.first)
            else:
                publisher.send_receipts(producer, self.asked)

    def block(self) -> EntryBlock:
        """What consumers get. It holds on to no more than a few times its own size."""
        data, summary = self.data, self.summary
        if whole_bytes(data) > KEPT_SHARE * len(data):
            data = bytes(data)
        messages, end_offsets = summary.message_count, summary.end_offsets
        counts = None if messages == len(end_offsets) else [frame.message_count for frame in self.sent]
        at = self.first
        return EntryBlock(at.ledger_id, at.entry_id, data, end_offsets, self.now_ms, messages, counts=counts)
