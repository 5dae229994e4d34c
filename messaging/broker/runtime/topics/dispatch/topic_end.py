"""Tells consumers of a terminated topic that nothing follows."""

from __future__ import annotations

from itertools import takewhile

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription import Subscription


def send_end_of_topic(subscription: Subscription) -> None:
    """Tells consumers, once each, that everything was acknowledged and nothing follows. Consumers are told in the order in which
    they subscribed, so if the last one knows, all do: a repeated dispatch checks one consumer only.
    """
    if subscription.backlog_entries:
        return
    for consumer in reversed(list(takewhile(_not_told, reversed(subscription.consumers)))):
        consumer.end_told = True
        consumer.sink.end_of_topic(consumer)


def _not_told(consumer: Consumer) -> bool:
    return not consumer.end_told
