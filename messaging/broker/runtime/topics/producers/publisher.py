"""Socket to log: appends the blocks of a topic's producers and returns their receipts in order.

Sequence checks, counters and the header are done once per block. Receipts, including those of duplicates, are sent in the order in
which the messages arrived, and never before the messages are durable. A block in flight needs one object (`PendingPublish`),
because with one message for each of thousands of topics every block is a single message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Protocol

import structlog

from messaging.broker.core.chunks import chunk_parts
from messaging.broker.core.delayed.given_delays import NONE_GIVEN
from messaging.broker.core.entries import EntryBlock, delivery_times, for_log, header_of, whole_bytes
from messaging.broker.core.producers.producer import Producer
from messaging.broker.core.producers.producer_sequences import NO_PARTS, ChunkPart
from messaging.broker.runtime.topics.backlog.quota import QuotaTopic, TopicBacklogQuota, quota_of
from messaging.broker.runtime.topics.loaded_topic import ConnectedProducers
from messaging.broker.runtime.topics.producers.deduplication import TopicDeduplication
from messaging.broker.runtime.topics.producers.topic_publisher import TopicPublisher
from messaging.errors import MagnetarError, NotReady, StorageFailed
from messaging.protocol import hot
from messaging.protocol.hot import CHUNK, DELAYED, BlockSummary, SendFrame
from messaging.storage.block_header import Extensions
from messaging.storage.ledger_store import Position, StoreError
from messaging.storage.managed.ledger import ManagedLedger
from messaging.storage.managed.pending_append import PendingAppend

log = structlog.get_logger("broker.topics")

KEPT_SHARE = 4  # a cached block is copied if it is a slice of a buffer more than this many times its size


class PublishedTopic(QuotaTopic, Protocol):
    """The interface of the topic that its publisher uses."""

    @property
    def producers(self) -> ClosesProducers: ...

    def stored(self, pending: PendingPublish) -> None:
        """Called when a block is durable."""


class ClosesProducers(ConnectedProducers, Protocol):
    def close_all(self) -> None: ...


class Publisher(TopicPublisher):
    __slots__ = (
        "after_pending",
        "completed_blocks",
        "deduplication",
        "dropped_entries",
        "last_dropped_ms",
        "published_blocks",
        "timed",
        "timed_from_ns",
    )
    topic: PublishedTopic

    def __init__(self, topic: PublishedTopic, ledger: ManagedLedger, deduplication: TopicDeduplication) -> None:
        super().__init__(topic, ledger)
        self.deduplication = deduplication
        self.dropped_entries, self.last_dropped_ms = 0, 0  # duplicates
        self.published_blocks = 0
        self.completed_blocks = 0
        self.timed: PendingPublish | None = None  # the block whose time is measured: one at a time, which costs the others nothing
        self.timed_from_ns = 0
        # (number of completed blocks to wait for, callback); None while nothing waits
        self.after_pending: deque[tuple[int, Callable[[bool], None]]] | None = None
        self.follow_policies()

    def publish(
        self, producer: Producer, buf: bytes, sent: list[SendFrame], summary: BlockSummary, extensions: Extensions = ()
    ) -> int:
        """Appends the block. What reaches the topic's backlog quota is appended, too; once it is stored, the producers are closed.
        Raises `StoreError` if the log accepts nothing: the topic is then recovered, and its producers reconnect.
        """
        if self.limits is not None and not self.limits.passing:
            return self.limits.publish(producer, buf, sent, summary, extensions)
        try:
            now_ms = self.ledger.stamp()
            quota = self.quota
            if quota is not None and (producer.closed or quota.closing is not None):
                return 0
            name = producer.name_bytes
            asked, dedup, parts = sent, self.deduplication.state, NO_PARTS
            if dedup is not None:
                if summary.flags & CHUNK:
                    parts = chunk_parts(sent, buf)
                self.ledger.check_open()  # entries that `dedup` counted may have been refused, so it cannot decide
                sent, repeated = dedup.sift(name, sent, now_ms, parts)
                if repeated:
                    self.dropped_entries, self.last_dropped_ms = self.dropped_entries + len(asked) - len(sent), now_ms
                    if not sent:
                        dedup.took(name, sent, now_ms)
                        self.run_after_pending(lambda stored: self.send_receipts(producer, asked, parts, {}) if stored else None)
                        return 0
                    summary = hot.summarize(sent)
                else:
                    asked = sent
            if self.delay_limits is not None and self.delay_limits.given != NONE_GIVEN and not extensions:
                summary = self.delay_limits.given.give(sent, now_ms)
            end_offsets = summary.end_offsets
            data = for_log(buf, sent, end_offsets)
            pending = PendingPublish(self, producer, data, sent, asked, summary, now_ms, parts)
            delayed, chunked = summary.flags & DELAYED != 0, summary.flags & CHUNK != 0
            count = summary.message_count
            if self.timed is None:
                self.timed, self.timed_from_ns = pending, perf_counter_ns()
            header = header_of(sent, name, now_ms, count, delayed=delayed, chunked=chunked, extensions=extensions)
            self.ledger.append(header, data, end_offsets, pending)
            if dedup is not None:
                dedup.took(name, sent, now_ms, parts)
            self.published_blocks += 1
            if self.stored_limit is not None:
                self.stored_limit.took(end_offsets[-1])
            if quota is not None and quota.took(end_offsets[-1], now_ms):
                self.run_after_pending(lambda stored: self.run_after_pending(quota.close) if quota.reached() else None)
            return end_offsets[-1]
        except StoreError:
            self.timed = None
            self.topic.services.events.failed(self.topic, NotReady(f"topic {self.topic.text} is being reloaded"))
            raise

    def measured(self, *, stored: bool) -> None:
        """The block whose time is measured is completed. Of one that was refused nothing is kept."""
        self.timed = None
        if stored:
            took_us = (perf_counter_ns() - self.timed_from_ns) // 1000
            self.timed_publishes += 1
            self.publish_us += took_us
            self.publish_us_max = max(self.publish_us_max, took_us)

    def follow_policies(self) -> None:
        super().follow_policies()
        self.stored_limit = self.topic.services.limits.stored_bytes.of(self.topic.name)
        self._follow_quota()

    def _follow_quota(self) -> None:
        quota, current = quota_of(self.topic.services.policies.value, self.topic.name), self.quota
        if current is not None and current.closing is not None:
            return  # what producers publish is refused until it has closed them, or they would not know what was stored
        if current is None or current.quota != quota:
            self.quota = None if quota.unlimited else TopicBacklogQuota(self.topic, self, quota)

    def refuse(self, why: MagnetarError) -> None:
        """Closes the producers: their next tries to open get the error."""
        log.info("topic.publishing_refused", topic=self.topic.text, why=why.message)
        self.topic.producers.close_all()
        self._follow_quota()

    def last_sequence_id(self, producer_name: bytes) -> int:
        dedup = self.deduplication.state
        return -1 if dedup is None else dedup.highest_taken(producer_name)

    def run_after_pending(self, act: Callable[[bool], None]) -> None:
        """Calls `act` immediately if nothing is pending, else when the last block that was appended is completed.

        `act` gets whether that block was stored. Blocks of all producers count: the original of a duplicate may have come over a
        connection that is gone, and is durable only once its block is.
        """
        if self.completed_blocks == self.published_blocks:
            act(True)
            return
        if self.after_pending is None:
            self.after_pending = deque()
        self.after_pending.append((self.published_blocks, act))

    def run_due(self, stored: bool) -> None:
        """Called after each completed block: runs the callbacks that waited for it."""
        after_pending = self.after_pending
        while after_pending and after_pending[0][0] <= self.completed_blocks:
            with self.topic.services.loops.dispatching.guard(topic=self.topic.text):  # the others run all the same
                after_pending.popleft()[1](stored)
        if not after_pending:
            self.after_pending = None

    def send_receipts(
        self,
        producer: Producer,
        asked: list[SendFrame],
        parts: Mapping[SendFrame, ChunkPart],
        new: Mapping[SendFrame, Position],
    ) -> None:
        """Sends one receipt per message, with the position of those that are `new`, or at which its sequence id is stored (-1:-1 if
        that is not remembered)."""
        dedup = self.deduplication.state
        if dedup is None or (producer.closed and not producer.fenced):
            return
        for frame in asked:
            position = new.get(frame) or dedup.position_of(producer.name_bytes, frame.sequence_id, parts.get(frame))
            producer.sink.receipts(producer, [frame], position)


class PendingPublish(PendingAppend):
    """One block, from its append to its receipts."""

    __slots__ = ("asked", "data", "now_ms", "parts", "producer", "publisher", "sent", "summary")

    def __init__(
        self,
        publisher: Publisher,
        producer: Producer,
        data: bytes | memoryview,
        sent: list[SendFrame],
        asked: list[SendFrame],
        summary: BlockSummary,
        now_ms: int,
        parts: Mapping[SendFrame, ChunkPart],
    ) -> None:
        self.publisher = publisher
        self.producer = producer
        self.data = data  # as stored in the log
        self.sent = sent
        self.asked = asked  # including duplicates, which are not in `sent`
        self.summary = summary
        self.now_ms = now_ms
        self.parts = parts  # which of `asked` are chunks, if the topic is deduplicated

    def confirmed(self, error: StoreError | None) -> None:
        """The block is durable, or the append failed. Called in append order over the topic. Never raises: a failure of one
        producer or subscription must not hold back the receipts of others.
        """
        publisher = self.publisher
        topic = publisher.topic
        try:
            self._complete(error)
        except Exception as unexpected:
            topic.services.loops.dispatching.failed(unexpected, topic=topic.text, producer=self.producer.name)
        try:
            if error is None:
                topic.stored(self)
            elif topic.closed is None:
                topic.services.events.failed(topic, StorageFailed(f"topic {topic.text} could not store messages: {error}"))
        except Exception as unexpected:
            topic.services.loops.dispatching.failed(unexpected, topic=topic.text)
        publisher.completed_blocks += 1
        if publisher.after_pending is not None:
            publisher.run_due(error is None)

    def _complete(self, error: StoreError | None) -> None:
        """Counts the block and sends its receipts."""
        publisher, producer = self.publisher, self.producer
        summary = self.summary
        if publisher.timed is self:
            publisher.measured(stored=error is None)
        if error is None:
            if publisher.topic.rates is None:  # it is marked active before anything is counted
                publisher.topic.mark_active()
            publisher.messages_in += summary.message_count
            publisher.bytes_in += summary.payload_bytes
            publisher.last_published_ms = self.now_ms
            producer.messages_in += summary.message_count
            producer.bytes_in += summary.payload_bytes
            if summary.flags & CHUNK:
                producer.chunks_in += sum(frame.flags & CHUNK != 0 for frame in self.sent)
                publisher.chunks_published = True
            dedup = publisher.deduplication.state
            if dedup is not None:
                dedup.stored(producer.name_bytes, self.sent, self.first, self.now_ms, self.parts)
        producer.sink.append_completed(summary.end_offsets[-1])
        if error is None and (not producer.closed or producer.fenced):
            if self.asked is self.sent:
                producer.sink.receipts(producer, self.sent, self.first)
            else:
                ledger_id, entry_id = self.first
                new = {frame: Position(ledger_id, entry_id + index) for index, frame in enumerate(self.sent)}
                publisher.send_receipts(producer, self.asked, self.parts, new)

    def block(self) -> EntryBlock:
        """The block as dispatched to consumers. It pins at most a few times its own size in memory."""
        data, summary = self.data, self.summary
        if whole_bytes(data) > KEPT_SHARE * len(data):
            data = bytes(data)
        messages, end_offsets = summary.message_count, summary.end_offsets
        counts = None if messages == len(end_offsets) else [frame.message_count for frame in self.sent]
        at = self.first
        times = delivery_times(self.sent) if summary.flags & DELAYED else None
        chunked = summary.flags & CHUNK != 0
        return EntryBlock(at.ledger_id, at.entry_id, data, end_offsets, self.now_ms, messages, False, counts, times, chunked)
