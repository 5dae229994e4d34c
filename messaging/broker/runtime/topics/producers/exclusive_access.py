"""Carries out what `ProducerTable` decides about exclusive producers: stores topic epochs, fences producers, promotes those that
wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from messaging.broker.core.producer_table import Admission, Departure
from messaging.broker.core.producers import Producer
from messaging.broker.runtime.topics.producers.publisher import Publisher
from messaging.broker.runtime.topics.services import refusal_of
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.errors import MagnetarError, NotReady, ProducerFenced
from messaging.storage.ledger_store import StoreError


class OwnedTopic(TopicContext, Protocol):
    """The interface of the topic that exclusive access needs."""

    publisher: Publisher

    def detach_producer(self, producer: Producer) -> None: ...


async def confirm_owner(topic: OwnedTopic, producer: Producer) -> None:
    """Returns when a producer that was given the topic may be told: all earlier messages and its topic epoch are durable. On an
    error it is detached. Raises `ProducerFenced` if another took the topic over meanwhile, `NotReady`, `StorageFailed`.
    """
    epoch = producer.topic_epoch
    try:
        stored = await topic.publisher.wait_for_pending()
        if stored and not producer.closed and topic.ledger.record.topic_epoch < epoch:
            await topic.ledger.update(lambda record: replace(record, topic_epoch=max(record.topic_epoch, epoch)))
    except StoreError as error:
        topic.detach_producer(producer)
        raise refusal_of(error, f"the epoch of topic {topic.text} could not be stored") from error
    if producer.fenced:
        raise fenced_out(producer)
    if producer.closed or not stored:
        topic.detach_producer(producer)
        raise topic.closed or NotReady(f"topic {topic.text} was closed meanwhile: open the producer again")


def admitted(topic: OwnedTopic, admission: Admission) -> None:
    """What the admission of a producer means to others."""
    if admission.former is not None:
        admission.former.closed = True
        topic.publisher.drop_parked(admission.former)
    for producer in admission.fenced:
        _fence(topic, producer)
    _refuse(topic, admission.refused)


def departed(topic: OwnedTopic, departure: Departure) -> None:
    _refuse(topic, departure.refused)
    if departure.promoted is not None:
        topic.services.loops.background.spawn(_promote(topic, departure.promoted), "promote a waiting producer")


def _fence(topic: OwnedTopic, producer: Producer) -> None:
    """It publishes nothing from now on, but gets the receipts of what it published."""
    producer.closed = producer.fenced = True
    topic.publisher.drop_parked(producer)
    topic.publisher.run_after_pending(lambda stored: producer.sink.fenced(producer))


def _refuse(topic: OwnedTopic, waited: Iterable[Producer]) -> None:
    for producer in waited:
        producer.closed = True
        with topic.services.loops.dispatching.guard(topic=topic.text, producer=producer.name):
            producer.sink.refused(producer, fenced_out(producer))


async def _promote(topic: OwnedTopic, producer: Producer) -> None:
    try:
        await confirm_owner(topic, producer)
    except MagnetarError as error:
        producer.sink.refused(producer, error)
    else:
        producer.sink.promoted(producer)


def fenced_out(producer: Producer) -> ProducerFenced:
    return ProducerFenced(f"another producer took the topic over from {producer.name!r}: open a new producer")
