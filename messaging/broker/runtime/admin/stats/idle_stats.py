"""What alerts read of topics: a few figures of each subscription. Of topics that are not loaded those that they had when they were
unloaded, so that no look loads a topic."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from messaging.broker.core.diagnosis.delivery_health import DeliveryHealth, health_without_consumers, judge_delivery
from messaging.broker.runtime.admin.stats.internal_stats import shown_subscriptions
from messaging.broker.runtime.admin.stats.stats import backlog_bytes
from messaging.broker.runtime.topics.backlog.age import UNKNOWN
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.errors import TopicNotFound

TOPICS_MAX = 20_000  # that are looked at; the one that was not for longest is forgotten, and loaded at the next look
SUBSCRIPTIONS_MAX = 1_000  # of one topic; with more it is loaded at each look
FIGURES_COST = 100  # of one subscription, in units of `core/turns/command_costs.py`


class IdleSubscription(NamedTuple):
    """`oldest_ms`: when the first message was stored that is not acknowledged; `UNKNOWN`: there is none."""

    backlog_entries: int
    backlog_bytes: int
    oldest_ms: int
    durable: bool

    def figures(self, now_ms: int, health: DeliveryHealth) -> dict[str, Any]:
        return {
            "msgBacklog": self.backlog_entries,
            "backlogSize": self.backlog_bytes,
            "oldestBacklogMessageAgeSeconds": UNKNOWN if self.oldest_ms < 0 else max(0, now_ms - self.oldest_ms) // 1000,
            "durable": self.durable,
            "deliveryHealth": health,
        }


class IdleTopic(NamedTuple):
    messages_in: int
    publish_waits: int
    subscriptions: Mapping[str, IdleSubscription]

    def stats(self, now_ms: int) -> dict[str, Any]:
        """In the spelling of a topic's stats; nobody is connected."""
        subscriptions = {
            name: subscription.figures(now_ms, health_without_consumers(subscription.backlog_entries))
            for name, subscription in self.subscriptions.items()
        }
        return _figures(self.messages_in, self.publish_waits, subscriptions)


def _figures(messages_in: int, publish_waits: int, subscriptions: dict[str, Any]) -> dict[str, Any]:
    return {"msgInCounter": messages_in, "publishRateLimitedTimes": publish_waits, "subscriptions": subscriptions}


async def alert_figures(topic: Topic, oldest_ms: Mapping[str, int], now_ms: int, slices: TurnSlices) -> dict[str, Any]:
    """The same of a loaded topic, in slices of turns."""
    subscriptions = {}
    for name, subscription in list(shown_subscriptions(topic)):
        await slices.spend(FIGURES_COST)
        backlog = subscription.backlog_entries
        look = IdleSubscription(
            backlog, backlog_bytes(topic, backlog), oldest_ms.get(subscription.key, UNKNOWN), subscription.durable
        )
        health, _ = judge_delivery(subscription, topic.consumers.delivery_state(subscription))
        subscriptions[name] = look.figures(now_ms, health)
    return _figures(topic.publisher.messages_in, _publish_waits(topic), subscriptions)


def _publish_waits(topic: Topic) -> int:
    return 0 if topic.publisher.limits is None else topic.publisher.limits.waits


class IdleStats:
    """Of the topics that somebody looks at. Whatever changes a topic loads it first, which makes what is held here void."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, IdleTopic | None] = OrderedDict()  # None: it is loaded, or was not since the start

    def look(self, topic: str) -> IdleTopic | None:
        """From now on the topic is one that somebody looks at. None: only the topic itself tells."""
        known = self._held.pop(topic, None)
        self._held[topic] = known
        while len(self._held) > TOPICS_MAX:
            self._held.popitem(last=False)
        return known

    def loaded(self, topic: Topic) -> None:
        if topic.text in self._held:
            self._held[topic.text] = None

    def unloaded(self, topic: Topic, oldest_ms: Mapping[str, int]) -> None:
        """`oldest_ms`: of each subscription with a backlog, as far as it is known."""
        if topic.text in self._held:
            self._held[topic.text] = None if isinstance(topic.closed, TopicNotFound) else _at_rest(topic, oldest_ms)

    def deleted(self, topic: str) -> None:
        self._held.pop(topic, None)


def _at_rest(topic: Topic, oldest_ms: Mapping[str, int]) -> IdleTopic | None:
    # Those that are not durable end with their consumers.
    durable = {name: subscription for name, subscription in shown_subscriptions(topic) if subscription.durable}
    with_backlog = [subscription for subscription in durable.values() if subscription.backlog_entries]
    if len(durable) > SUBSCRIPTIONS_MAX or any(subscription.key not in oldest_ms for subscription in with_backlog):
        return None
    subscriptions = {
        name: IdleSubscription(
            subscription.backlog_entries,
            backlog_bytes(topic, subscription.backlog_entries),
            oldest_ms.get(subscription.key, UNKNOWN),
            subscription.durable,
        )
        for name, subscription in durable.items()
    }
    return IdleTopic(topic.publisher.messages_in, _publish_waits(topic), subscriptions)
