"""Whose part of a topic's messages it was: totals of clients by key, kept of those that left. Pure.

Counting costs nothing here: producers and consumers count what they carry anyway. When one leaves, its totals are added to those
of its key; whoever wants the totals of now adds those of the members that are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from messaging.broker.core.clients.open_sessions import OpenSession
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.producers.producer import Producer

KEYS_MAX = 1_000  # of one topic or subscription; what further ones carried is nobody's in particular
Totals = dict[str, list[int]]  # by key


def key_of(session: OpenSession | None) -> str:
    """The id of the key under which it was opened; where there is none, the role; "": the broker's own."""
    return "" if session is None else session.principal.key_id or session.principal.role


def with_producer(totals: Totals | None, producer: Producer) -> Totals | None:
    """Values: messages and bytes in."""
    return _added(totals, key_of(producer.session), (producer.messages_in, producer.bytes_in))


def with_consumer(totals: Totals | None, consumer: Consumer) -> Totals | None:
    """Values: messages and bytes out, and messages that were sent again."""
    return _added(totals, key_of(consumer.session), (consumer.messages_out, consumer.bytes_out, consumer.messages_redelivered))


def produced(departed: Totals | None, producers: Iterable[Producer]) -> Totals:
    totals = _copy(departed)
    for producer in producers:
        totals = with_producer(totals, producer) or totals
    return totals


def consumed(departed: Totals | None, consumers: Iterable[Consumer]) -> Totals:
    totals = _copy(departed)
    for consumer in consumers:
        totals = with_consumer(totals, consumer) or totals
    return totals


class DepartedSubscriptions:
    """The totals of subscriptions that are gone, by name; of those that are not durable together, under no name: a reader's is a
    new one each time."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[str, Totals] = {}

    def add(self, name: str, totals: Totals) -> None:
        name = name if name in self._of or len(self._of) < KEYS_MAX else ""
        kept = self._of.setdefault(name, {})
        for key, values in totals.items():
            _added(kept, key, values)

    def __iter__(self) -> Iterator[tuple[str, Totals]]:
        return iter(self._of.items())


def _copy(totals: Totals | None) -> Totals:
    return {key: list(values) for key, values in totals.items()} if totals else {}


def _added(totals: Totals | None, key: str, values: Iterable[int]) -> Totals | None:
    values = tuple(values)
    if not any(values):
        return totals
    if totals is None:
        totals = {}
    if key not in totals and len(totals) >= KEYS_MAX:
        return totals
    sums = totals.setdefault(key, [0] * len(values))
    for index, value in enumerate(values):
        sums[index] += value
    return totals
