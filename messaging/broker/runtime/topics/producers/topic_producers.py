"""The producers of a topic: who may be one, and exclusive access.

Carries out what `ProducerTable` decides: stores topic epochs, fences producers, promotes those that wait. Nothing is awaited
between check and attach, so that nothing is attached to a topic that closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Protocol

from messaging.broker.core.producers.access_modes import AccessMode
from messaging.broker.core.producers.producer import Producer
from messaging.broker.core.producers.producer_table import Admission, ProducerTable
from messaging.broker.runtime.topics.limits.admission import check_encryption, check_producer
from messaging.broker.runtime.topics.limits.shared_limits import check_another_producer
from messaging.broker.runtime.topics.moving import Moving
from messaging.broker.runtime.topics.producers.topic_publisher import TopicPublisher
from messaging.broker.runtime.topics.services import refusal_of
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.errors import EncryptionRequired, MagnetarError, NotReady, ProducerFenced
from messaging.storage.ledger_store import StoreError


class ProducersTopic(TopicContext, Protocol):
    """The interface of the topic that the admission of producers needs."""

    @property
    def publisher(self) -> TopicPublisher: ...

    def check_writable(self) -> None:
        """Raises `NotReady` or `TopicTerminated` if the topic accepts no messages."""


class TopicProducers:
    __slots__ = ("_topic", "table")

    def __init__(self, topic: ProducersTopic) -> None:
        self._topic = topic
        self.table = ProducerTable(topic.ledger.record.topic_epoch)

    def __len__(self) -> int:
        """Without those that wait."""
        return len(self.table)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self.table)

    def attach(self, producer: Producer) -> Admission:
        """Closes a producer of the same name if it may be replaced, and those that it fences. A producer that owns the topic now
        must not publish before `confirm_owner` has returned; to one that waits, its sink tells what became of it.

        Raises `NotReady`, `TopicTerminated`, `ProducerBusy`, `ProducerFenced`, and whatever `PermissionChecks.admit` raises if the
        permission was withdrawn meanwhile.
        """
        topic = self._topic
        topic.check_writable()
        check_encryption(topic.services.policies.value, topic, producer)
        if producer.access is AccessMode.SHARED:  # an exclusive one is alone
            check_producer(topic, producer.name)
        check_another_producer(topic, producer.name)
        if producer.session is not None:
            topic.services.admit(producer.session)
        admission = self.table.attach(producer)
        self._count()
        if admission.former is not None:
            admission.former.closed = True
            topic.publisher.drop_parked(admission.former)
        for fenced in admission.fenced:
            self._fence(fenced)
        self._refuse(admission.refused)
        return admission

    async def confirm_owner(self, producer: Producer) -> None:
        """Returns when a producer that was given the topic may be told: all earlier messages and its topic epoch are durable. On an
        error it is detached. Raises `ProducerFenced` if another took the topic over meanwhile, `NotReady`, `StorageFailed`.
        """
        topic, epoch = self._topic, producer.topic_epoch
        try:
            stored = await topic.publisher.wait_for_pending()
            if stored and not producer.closed and topic.ledger.record.topic_epoch < epoch:
                await topic.ledger.update(lambda record: replace(record, topic_epoch=max(record.topic_epoch, epoch)))
        except StoreError as error:
            self.detach(producer)
            raise refusal_of(error, f"the epoch of topic {topic.text} could not be stored") from error
        if producer.fenced:
            raise fenced_out(producer)
        if producer.closed or not stored:
            self.detach(producer)
            raise topic.closed or NotReady(f"topic {topic.text} was closed meanwhile: open the producer again")

    def detach(self, producer: Producer) -> None:
        """Removes a producer that publishes nothing more, or that waits; the next that waits may get the topic. Idempotent."""
        topic = self._topic
        producer.closed = True
        topic.publisher.drop_parked(producer)
        topic.idle.topic_ms = topic.ledger.stamp()
        departure = self.table.detach(producer)
        self._count()
        if departure is not None:
            self._refuse(departure.refused)
            if departure.promoted is not None:
                topic.services.loops.background.spawn(self._promote(departure.promoted), "promote a waiting producer")

    def close_all(self) -> None:
        """Those that wait, too. They connect again, unless the topic refuses them then."""
        topic = self._topic
        members, waiting = self.table.clear()
        self._count()
        if members:
            topic.idle.topic_ms = topic.ledger.stamp()
        for producer in (*members, *waiting):
            producer.closed = True
            topic.publisher.drop_parked(producer)
            self._tell_closed(producer)

    def close_unencrypted(self) -> None:
        """Policies have changed: closes the producers that may not publish any more."""
        for producer in self.table:
            try:
                check_encryption(self._topic.services.policies.value, self._topic, producer)
            except EncryptionRequired:
                self.disconnect(producer)

    def disconnect(self, producer: Producer) -> None:
        """It connects again, unless the topic refuses it then, and sends again what has no receipt."""
        self.detach(producer)
        self._tell_closed(producer)

    def _tell_closed(self, producer: Producer) -> None:
        why = self._topic.closed
        if isinstance(why, Moving):
            why.when_told(partial(self._say_closed, producer))
        else:
            self._say_closed(producer)

    def _say_closed(self, producer: Producer) -> None:
        with self._topic.services.loops.dispatching.guard(topic=self._topic.text, producer=producer.name):
            producer.sink.closed(producer)

    def _count(self) -> None:
        self._topic.services.limits.producers.now(self._topic.name, self._topic.text, len(self.table))

    def _fence(self, producer: Producer) -> None:
        """It publishes nothing from now on, but gets the receipts of what it published."""
        producer.closed = producer.fenced = True
        self._topic.publisher.drop_parked(producer)
        self._topic.publisher.run_after_pending(lambda stored: producer.sink.fenced(producer))

    def _refuse(self, waited: Iterable[Producer]) -> None:
        for producer in waited:
            producer.closed = True
            with self._topic.services.loops.dispatching.guard(topic=self._topic.text, producer=producer.name):
                producer.sink.refused(producer, fenced_out(producer))

    async def _promote(self, producer: Producer) -> None:
        try:
            await self.confirm_owner(producer)
        except MagnetarError as error:
            producer.sink.refused(producer, error)
        else:
            producer.sink.promoted(producer)


def fenced_out(producer: Producer) -> ProducerFenced:
    return ProducerFenced(f"another producer took the topic over from {producer.name!r}: open a new producer")
