"""Rates of a topic's producers, subscriptions and consumers, sampled from their counters while the topic is active."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from messaging.broker.core.backlog.trend import BacklogTrend
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.producers.producer import Producer
from messaging.broker.core.rates import Rates
from messaging.broker.core.subscription import Subscription

Member = Producer | Subscription | tuple[Subscription, Consumer]


# The counters of each member; the rates derived from them have the same names.
class ProducerTotals(NamedTuple):
    messages_in: float
    bytes_in: float
    chunks_in: float


class ConsumerTotals(NamedTuple):
    messages_out: float
    bytes_out: float
    messages_redelivered: float
    messages_acknowledged: float
    chunks_out: float


class SubscriptionTotals(NamedTuple):
    messages_out: float
    bytes_out: float
    entries_expired: float
    messages_dropped: float


NOTHING = Rates()  # used for members not sampled yet; never sampled itself


class MemberRates:
    __slots__ = ("_next", "_rates", "_trends")

    def __init__(self) -> None:
        self._rates: dict[object, Rates] = {}
        self._trends: dict[Subscription, BacklogTrend] = {}
        self._next = 0  # where the next slice of members begins

    def sample(self, producers: Iterable[Producer], subscriptions: Iterable[Subscription], now_ms: int, most: int) -> None:
        """Samples at most `most` members. The others follow on later calls; their rates are then averages over a longer time."""
        members = list(_members(producers, subscriptions))
        stop = self._next + most
        for member in members[self._next : stop]:
            if isinstance(member, Producer):
                self.record(member, now_ms, ProducerTotals(member.messages_in, member.bytes_in, member.chunks_in))
            elif isinstance(member, Subscription):
                sent = member.messages_out, member.bytes_out
                self.record(member, now_ms, SubscriptionTotals(*sent, member.entries_expired, member.messages_dropped))
                self._trends.setdefault(member, BacklogTrend()).sample(now_ms, member.backlog_entries)
            else:
                self.record(member[1], now_ms, _consumed(*member))
        self._next = stop if stop < len(members) else 0
        if not self._next:  # a full round is complete: forget members that left
            present = {member[1] if isinstance(member, tuple) else member for member in members}
            self._rates = {member: rates for member, rates in self._rates.items() if member in present}
            self._trends = {member: trend for member, trend in self._trends.items() if member in present}

    def record(self, member: object, now_ms: int, totals: tuple[float, ...]) -> None:
        rates = self._rates.get(member)
        if rates is None:
            rates = self._rates[member] = Rates()
        rates.sample(now_ms, totals)

    def _of(self, member: object) -> Rates:
        return self._rates.get(member, NOTHING)

    def of_producer(self, producer: Producer) -> ProducerTotals:
        """The producer's rates, per second like all others."""
        return ProducerTotals(*self._of(producer).all(len(ProducerTotals._fields)))

    def of_subscription(self, subscription: Subscription) -> SubscriptionTotals:
        return SubscriptionTotals(*self._of(subscription).all(len(SubscriptionTotals._fields)))

    def of_consumer(self, consumer: Consumer) -> ConsumerTotals:
        return ConsumerTotals(*self._of(consumer).all(len(ConsumerTotals._fields)))

    def grows(self, subscription: Subscription) -> bool:
        """Whether the subscription's backlog grew over the last minute."""
        trend = self._trends.get(subscription)
        return trend is not None and trend.grows

    @property
    def quiet(self) -> bool:
        return all(rates.quiet for rates in self._rates.values())


def _members(producers: Iterable[Producer], subscriptions: Iterable[Subscription]) -> Iterator[Member]:
    yield from producers
    for subscription in subscriptions:
        yield subscription
        for consumer in subscription.consumers:
            yield subscription, consumer


def _consumed(subscription: Subscription, consumer: Consumer) -> ConsumerTotals:
    acknowledged = subscription.acknowledged_messages(consumer)
    sent = consumer.messages_out, consumer.bytes_out, consumer.messages_redelivered
    return ConsumerTotals(*sent, acknowledged, consumer.chunks_out)
