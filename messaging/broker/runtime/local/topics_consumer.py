"""A consumer of several topics, over the consumer of each. What was asked for comes from all of them together, and the end is the
end of all. The ledger in the id of a message says which topic it is of: ledgers of persistent topics are numbered together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.broker.runtime.detach import DetachAll
from messaging.broker.runtime.local.messages import DeliveredMessage, InitialPosition, MessagePosition, TopicListener
from messaging.broker.runtime.local.shared_permits import SharedPermits
from messaging.broker.runtime.local.topic_consumer import OPEN_COST, TopicConsumer, all_stored
from messaging.broker.runtime.turn_slices import TurnSlices, all_in_slices
from messaging.errors import MagnetarError, NotReady
from messaging.protocol.names import TopicName

TOPICS_MAX = 1_000  # of one consumer
TOPIC_BYTES = 8 << 10  # what the consumer of one topic takes, as a part of several, beside those of its partitions


class ConsumerOpening(NamedTuple):
    """`open` opens what `consumer` then is; where it raises, nothing is open."""

    consumer: TopicConsumer
    open: Callable[[], Awaitable[None]]


class OpenTopicConsumer(Protocol):
    """The consumer of one of the topics, which is not open yet."""

    def __call__(
        self, topic: TopicName, initial: InitialPosition, sink: TopicListener, shared: SharedPermits
    ) -> ConsumerOpening: ...


class TopicSource:
    """One of the topics: a `TopicListener`."""

    def __init__(self, whole: TopicsConsumer, topic: TopicName, initial: InitialPosition) -> None:
        self._whole = whole
        self.topic = topic
        self.name = str(topic)
        self.initial: InitialPosition = initial
        self.consumer: TopicConsumer | None = None
        self.ended = False
        self.ledgers: set[int] = set()
        self.back_off_s = 0.0

    def deliver(self, messages: Sequence[DeliveredMessage]) -> None:
        for message in messages:
            message.topic = self.name
            if message.position.ledger_id not in self.ledgers and self.topic.persistent:
                self._whole.learn_ledgers(self, message.position.ledger_id)
        self._whole.deliver(messages)

    def withdraw(self, partition: int, topic: str = "") -> int:
        return self._whole.withdraw(partition, self.name)

    def topic_added(self) -> None:
        """It is one topic."""

    def end_of_topic(self) -> None:
        if not self.ended:
            self.ended = True
            self._whole.tell_end()

    def closed(self, error: MagnetarError | None) -> None:
        self._whole.source_closed(self, error)


class TopicsConsumer:
    """A `TopicsHandle`. It ends where one of its topics does. `slices`: new ones, for one task."""

    def __init__(
        self,
        tenant: str,
        sink: TopicListener,
        make: OpenTopicConsumer,
        *,
        memory: MemoryAccount,
        slices: Callable[[], TurnSlices],
        detach: DetachAll,
    ) -> None:
        self.tenant = tenant
        self._sink = sink
        self._make = make
        self._memory = memory
        self._slices = slices
        self._detach = detach
        self._asked_for = SharedPermits()
        self._sources: dict[str, TopicSource] = {}
        self._source_of_ledger: dict[int, TopicSource] = {}
        self._opened = False
        self._closed = False

    @property
    def topics(self) -> list[str]:
        return list(self._sources)

    # --- opening

    async def open(self, topics: Sequence[TopicName], initial: InitialPosition) -> None:
        """Raises what opening one of them raises; then none is open."""
        try:
            sources = [self.add_source(topic, initial) for topic in topics]
            await all_in_slices(self._slices(), sources, OPEN_COST, self.open_source)
            self._opened = True
            self.tell_end()
        except BaseException:
            self.close()
            raise

    def add_source(self, topic: TopicName, initial: InitialPosition) -> TopicSource:
        """Raises `NotReady` where the tenant has no memory left."""
        if not self._memory.allows(self.tenant, TOPIC_BYTES):
            raise NotReady("no memory is left for consumers of this tenant: close others, or name fewer topics")
        self._memory.take(self.tenant, TOPIC_BYTES)
        source = self._sources[str(topic)] = TopicSource(self, topic, initial)
        return source

    async def open_source(self, source: TopicSource) -> None:
        if self._closed or self._sources.get(source.name) is not source:
            return
        source.consumer, opens = self._make(source.topic, source.initial, source, self._asked_for)
        try:
            await opens()
        except BaseException:
            source.consumer = None
            raise
        if self._closed or self._sources.get(source.name) is not source:
            source.consumer.close()
            return
        source.back_off_s = 0.0
        self.learn_ledgers(source)

    # --- from the topics

    def deliver(self, messages: Sequence[DeliveredMessage]) -> None:
        if not self._closed:
            self._sink.deliver(messages)

    def withdraw(self, partition: int, topic: str) -> int:
        return 0 if self._closed else self._sink.withdraw(partition, topic)

    def learn_ledgers(self, source: TopicSource, *ledger_ids: int) -> None:
        """`ledger_ids`: where a message came from. Ledgers that are acknowledged as a whole are forgotten with this."""
        for ledger_id in source.ledgers:
            self._source_of_ledger.pop(ledger_id, None)
        source.ledgers = {*ledger_ids, *(source.consumer.unacknowledged_ledgers() if source.consumer is not None else ())}
        self._source_of_ledger.update(dict.fromkeys(source.ledgers, source))

    def tell_end(self) -> None:
        if self._opened and not self._closed and all(source.ended for source in self._sources.values()):
            self._sink.end_of_topic()

    def source_closed(self, source: TopicSource, error: MagnetarError | None) -> None:
        """The broker closed it for good."""
        self.end(error)

    def end(self, error: MagnetarError | None) -> None:
        if not self._closed:
            self.close()
            self._sink.closed(error)

    def drop(self, source: TopicSource) -> None:
        """The others go on. What its client was not given of it is not given any more."""
        if self._sources.get(source.name) is not source:
            return
        del self._sources[source.name]
        for ledger_id in source.ledgers:
            self._source_of_ledger.pop(ledger_id, None)
        self._memory.give(self.tenant, TOPIC_BYTES)
        if source.consumer is not None:
            partitions = source.consumer.partitions
            source.consumer.close()
            self._asked_for.ask(sum(self._sink.withdraw(number, source.name) for number in partitions))
        self.tell_end()

    # --- as a handle

    def flow(self, permits: int) -> None:
        if not self._closed:
            self._asked_for.ask(permits)

    def ack(self, positions: Sequence[MessagePosition]) -> Awaitable[None]:
        """An acknowledgement of a message that none of the topics has changes nothing, as in Pulsar."""
        stored = [consumer.ack(its) for consumer, its in self._by_consumer(positions)]
        return stored[0] if len(stored) == 1 else all_stored(stored)

    def nack(self, positions: Sequence[MessagePosition]) -> None:
        for consumer, its in self._by_consumer(positions):
            consumer.nack(its)

    def _by_consumer(self, positions: Sequence[MessagePosition]) -> list[tuple[TopicConsumer, list[MessagePosition]]]:
        by_source: dict[TopicSource, list[MessagePosition]] = {}
        for position in positions:
            source = self._source_of_ledger.get(position.ledger_id)
            if source is not None:
                by_source.setdefault(source, []).append(position)
        return [(source.consumer, its) for source, its in by_source.items() if source.consumer is not None]

    async def unsubscribe(self) -> None:
        """Deletes the subscription of each topic, or of none. Raises `PreconditionFailed` while others are attached."""
        if self._closed or any(source.consumer is None for source in self._sources.values()):
            raise NotReady("the consumer is closed, or opens a topic at present: try again")
        consumers = [source.consumer for source in self._sources.values() if source.consumer is not None]
        for consumer in consumers:
            consumer.check_alone()
        self._stop()
        try:
            await all_in_slices(self._slices(), consumers, OPEN_COST, lambda consumer: consumer.unsubscribe())
        finally:
            self._leave()

    def close(self) -> None:
        self._stop()
        self._leave()

    def _stop(self) -> None:
        self._closed = True

    def _leave(self) -> None:
        sources, self._sources = self._sources, {}
        self._source_of_ledger.clear()
        detaches = [detach for source in sources.values() if source.consumer is not None for detach in source.consumer.leave()]
        if sources:
            self._detach([*detaches, partial(self._memory.give, self.tenant, TOPIC_BYTES * len(sources))])
