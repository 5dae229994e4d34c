"""The producer by which the broker itself publishes to a topic."""

from __future__ import annotations

import asyncio

from messaging.broker.core.producers.producer import Producer
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.broker.runtime.topics.producers.topic_producers import fenced_out
from messaging.errors import MagnetarError, NotReady, StorageFailed
from messaging.permissions.model import Action, Principal, Resource
from messaging.protocol import hot
from messaging.protocol.hot import SendFrame
from messaging.storage.block_header import Extensions
from messaging.storage.ledger_store import Position, StoreError


class BrokerProducer:
    """A `ProducerSink` to the topic, on behalf of `owner`; unless that is the broker itself an `OpenSession` to the permission
    checks, too. Raises what `TopicProducers.attach` raises."""

    action = Action.PRODUCE

    def __init__(self, topic: PersistentTopic, name: str, owner: Principal, now_ms: int) -> None:
        self.topic = topic
        self.principal = owner
        self.open = True
        self._producer = Producer(0, name, self, now_ms=now_ms)
        self._producer.session = None if owner.service else self
        self._due: asyncio.Future[None] | None = None
        self._receipts_due = 0
        topic.producers.attach(self._producer)

    @property
    def resource(self) -> Resource:
        return self.topic.resource()

    async def publish_block(self, frames: list[bytes], extensions: Extensions = ()) -> None:
        """Returns when they are durable, as one block. `extensions`: of its header. Raises a `MagnetarError` if it is not known
        whether they are stored."""
        if not self.open:
            raise NotReady(f"topic {self.topic.text} was closed: try again")
        buf = b"".join(frames)
        sent: list[SendFrame] = []
        hot.scan(buf, 0, len(buf), sent)
        self._due, self._receipts_due = asyncio.get_running_loop().create_future(), len(sent)
        try:
            self.topic.publisher.publish(self._producer, buf, sent, hot.summarize(sent), extensions)
        except StoreError as error:
            raise StorageFailed(f"topic {self.topic.text} accepts no messages: {error}") from error
        await self._due

    def receipts(self, producer: Producer, sent: list[SendFrame], first: Position) -> None:
        self._receipts_due -= len(sent)
        if self._due is not None and not self._due.done() and self._receipts_due <= 0:
            self._due.set_result(None)

    def receipts_of_unstored(self, producer: Producer, sent: list[SendFrame], position: Position) -> None:
        """It never is: the topic keeps its messages."""

    def append_completed(self, size: int) -> None:
        pass

    def parked(self, size: int) -> None:
        pass

    def unparked(self, size: int) -> None:
        pass

    def unpublished(self, producer: Producer, sent: list[SendFrame]) -> None:
        """`fenced` tells."""

    def fenced(self, producer: Producer) -> None:
        self.end(fenced_out(producer))

    def promoted(self, producer: Producer) -> None:
        """It never waits: it shares the topic."""

    def refused(self, producer: Producer, error: MagnetarError) -> None:
        """See `promoted`."""

    def alive(self) -> bool:
        return self.open

    def closed(self, producer: Producer) -> None:
        self.end(self.topic.closed or NotReady(f"topic {self.topic.text} was closed: try again"))

    def end(self, error: MagnetarError) -> None:
        """By the topic, or because the owner's permission ended."""
        self.close()
        if self._due is not None and not self._due.done():
            self._due.set_exception(error)

    def close(self) -> None:
        if self.open:
            self.open = False
            self.topic.producers.detach(self._producer)
