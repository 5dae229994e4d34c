"""A non-persistent topic: what is published is sent to the consumers that can take it now, and dropped for the others.

No message outlives the turn in which it came, except while many subscriptions are sent it;
until then it counts as being received, so that its producer is read no faster than its messages go out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from messaging.broker.core.entries import EntryBlock, for_log
from messaging.broker.core.non_persistent import MESSAGE_ID
from messaging.broker.core.producers.producer import Producer
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.dispatch.direct_dispatcher import DirectDispatcher
from messaging.broker.runtime.topics.dispatch.dispatcher import READERS_AT_ONCE
from messaging.broker.runtime.topics.producers.topic_publisher import Act, TopicPublisher
from messaging.broker.runtime.topics.services import TopicServices
from messaging.broker.runtime.topics.subscriptions.acknowledgements import NoAcknowledgements
from messaging.broker.runtime.topics.subscriptions.consumers import TopicConsumers
from messaging.broker.runtime.topics.subscriptions.non_persistent_subscriptions import NonPersistentSubscriptions
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import MagnetarError
from messaging.protocol.frames import REPEATED_ID, message_id_tail
from messaging.protocol.hot import CHUNK, BlockSummary, SendFrame
from messaging.protocol.names import TopicName
from messaging.storage.block_header import Extensions
from messaging.storage.managed.unstored import NoLedger
from messaging.storage.meta_store import TopicRecord


class NonPersistentTopic(Topic):
    __slots__ = ("_direct", "_entries", "_fan_out")
    keeps_messages = False

    def __init__(self, name: TopicName, services: TopicServices, record: TopicRecord) -> None:
        ledger = NoLedger(services.stores.storage, record, {})
        super().__init__(name, services, ledger)
        self.id_tail = REPEATED_ID + message_id_tail(name.partition)
        self.acknowledgements = NoAcknowledgements()
        self.subscriptions = NonPersistentSubscriptions(self)
        self.consumers = TopicConsumers(self, self.subscriptions)
        self.publisher = NonPersistentPublisher(self, ledger)
        self._entries = 0  # published since the topic was loaded
        self._direct: DirectDispatcher | None = None  # the dispatcher with its own type
        self._fan_out: FanOut | None = None  # None while no block waits for subscriptions

    @property
    def messages_dropped(self) -> int:
        """By all subscriptions since the topic was loaded."""
        return 0 if self._direct is None else self._direct.messages_dropped

    @property
    def entries_added(self) -> int:
        return self._entries

    @property
    def dispatcher(self) -> DirectDispatcher:
        if self._direct is None:
            self.started_dispatcher = self._direct = DirectDispatcher(self)
            self._direct.closed = self.closed is not None
        return self._direct

    def hand_out(self, block: EntryBlock, done: Callable[[], None]) -> bool:
        """Sends a block to all subscriptions. Where there are many, this continues in later turns of the event loop, and `done` is
        called in the end. Returns whether it does."""
        self.mark_active()
        self._entries += len(block.end_offsets)
        table = self.subscriptions.table
        if not table:
            return False
        readers = list(table.values())
        if self._fan_out is None:
            for subscription in readers[:READERS_AT_ONCE]:
                self.send(subscription, block)
            readers = readers[READERS_AT_ONCE:]
            if not readers:
                return False
            self._fan_out = FanOut(self)
            self.services.loops.dispatch_turns.wait(self.name.tenant, self._fan_out)
        self._fan_out.add(block, readers, done)
        return True

    def send(self, subscription: Subscription, block: EntryBlock) -> None:
        (self._direct or self.dispatcher).send_now(subscription, block)

    def fan_out_ended(self) -> None:
        """All subscriptions were sent all blocks that waited."""
        self._fan_out = None

    def begin_close(self, why: MagnetarError) -> None:
        super().begin_close(why)
        if self._fan_out is not None:
            self._fan_out.clear()


class NonPersistentPublisher(TopicPublisher):
    """Receipts are sent at once: nothing is waited for."""

    __slots__ = ()
    topic: NonPersistentTopic

    def __init__(self, topic: NonPersistentTopic, ledger: NoLedger) -> None:
        super().__init__(topic, ledger)
        self.follow_policies()

    def publish(
        self, producer: Producer, buf: bytes, sent: list[SendFrame], summary: BlockSummary, extensions: Extensions = ()
    ) -> int:
        """Sends the block to the consumers. What is in flight waits for its turns."""
        if producer.closed:
            return 0
        if self.limits is not None and not self.limits.passing:
            return self.limits.publish(producer, buf, sent, summary, extensions)
        now_ms = self.ledger.stamp()
        messages, end_offsets = summary.message_count, summary.end_offsets
        self.messages_in += messages
        self.bytes_in += summary.payload_bytes
        self.last_published_ms = now_ms
        producer.messages_in += messages
        producer.bytes_in += summary.payload_bytes
        if summary.flags & CHUNK:
            producer.chunks_in += sum(frame.flags & CHUNK != 0 for frame in sent)
            self.chunks_published = True
        producer.sink.receipts_of_unstored(producer, sent, MESSAGE_ID)
        counts = None if messages == len(end_offsets) else [frame.message_count for frame in sent]
        data = for_log(buf, sent, end_offsets)
        block = EntryBlock(*MESSAGE_ID, data, end_offsets, now_ms, messages, counts=counts)
        size = end_offsets[-1]
        return size if self.topic.hand_out(block, lambda: producer.sink.append_completed(size)) else 0

    def run_after_pending(self, act: Act) -> None:
        act(True)


class WaitingBlock(NamedTuple):
    block: EntryBlock
    readers: Sequence[Subscription]
    done: Callable[[], None]


class FanOut:
    """Blocks on their way to more subscriptions than are sent one at once. Each of them gets the blocks in order."""

    def __init__(self, topic: NonPersistentTopic) -> None:
        self._topic = topic
        self._waiting: deque[WaitingBlock] = deque()
        self._sent = 0  # how many readers of the first block were sent it

    def add(self, block: EntryBlock, readers: Sequence[Subscription], done: Callable[[], None]) -> None:
        if self._waiting and self._waiting[-1].readers == readers:  # blocks are small: a list for each would be far larger
            readers = self._waiting[-1].readers
        self._waiting.append(WaitingBlock(block, readers, done))

    def run(self) -> str | None:
        """Sends the first block to some subscriptions. Returns the tenant to queue under for the rest, or None."""
        if self._waiting:
            block, begin = self._waiting[0].block, self._sent
            self._sent += READERS_AT_ONCE
            for subscription in self._waiting[0].readers[begin : self._sent]:
                if self._topic.subscriptions.holds(subscription):
                    self._topic.send(subscription, block)
            if self._sent >= len(self._waiting[0].readers):
                self._sent = 0
                self._waiting.popleft().done()
        if self._waiting:
            return self._topic.name.tenant
        self._topic.fan_out_ended()
        return None

    def clear(self) -> None:
        """The topic is being closed."""
        while self._waiting:
            self._waiting.popleft().done()
