"""One look at one topic, in as many parts as it takes: a topic may have more subscriptions than one turn has room for."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from messaging.broker.core.diagnosis.delivery_health import judge_delivery
from messaging.broker.core.diagnosis.problems import Sign, signs_of_abandoned
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.problems.known import OF_TOPIC_MAX, KnownProblems, TopicProblems
from messaging.broker.runtime.problems.topic_signs import is_calm, problem_of, subscription_signs, topic_signs, with_causes
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.problems.kinds import Kind
from messaging.problems.order import Problem
from messaging.protocol.names import TopicName
from messaging.protocol.system_topics import is_system_topic

# Of one subscription, in units of `core/turns/command_costs.py`; to judge it costs one more for each of its consumers.
GLANCE_COST, JUDGE_COST = 4, 110
FOR_A_WHILE = frozenset({Kind.PUBLISH_THROTTLED, Kind.DISPATCH_THROTTLED})  # reached again and again: reached all the time
FOR_A_WHILE_MS = 30_000

SignKey = tuple[str, str]  # the kind, and the name of the subscription, "" for the topic
ThrottledMs = dict[SignKey, int]  # when a sign was last there, of those that stay for a while


class TopicLook:
    """`throttled_ms` is of the look before, and is replaced at the end."""

    def __init__(self, topic: Topic, known: KnownProblems, throttled_ms: ThrottledMs, now_ms: Callable[[], int]) -> None:
        self.topic = topic
        self.ended = is_system_topic(topic.name)
        self.most_urgent = TopicProblems()
        self.throttled_ms: ThrottledMs = {}
        self._subscriptions: list[Subscription] = [] if self.ended else list(topic.subscriptions.table.values())
        self._subscriptions.reverse()
        self._before = {(problem.kind, problem.subscription): problem for problem in known.of_topic(topic.text)}
        self._knew_all = not known.left_out_of_topic(topic.text)
        self._throttled_before = throttled_ms
        self._still_throttled = set[SignKey]()
        self._now_ms = now_ms

    async def go_on(self, slices: TurnSlices, room: int) -> int:
        """Looks further, for about `room` units of cost. Returns what was spent. `ended`: that was all."""
        topic, spent = self.topic, 0
        while not self.ended and topic.closed is None and spent < room:
            if not self._subscriptions:
                cost = self._cost_of_topic()
                await slices.spend(cost)
                self._look_at_topic()
                self.ended = True
            else:
                subscription = self._subscriptions.pop()
                calm = is_calm(subscription)
                cost = GLANCE_COST + (0 if calm else JUDGE_COST + len(subscription.consumers))
                await slices.spend(cost)
                # It may have been deleted since the look began.
                if not calm and topic.closed is None and topic.subscriptions.table.get(subscription.key) is subscription:
                    self._judge(subscription)
            spent += cost
        return spent

    def _judge(self, subscription: Subscription) -> None:
        state = self.topic.consumers.delivery_state(subscription)
        for sign in subscription_signs(self.topic, subscription, state, judge_delivery(subscription, state)):
            self._add(sign, subscription.name)

    def _cost_of_topic(self) -> int:
        """The backlog quota walks over subscriptions once, and over ledgers once."""
        topic = self.topic
        if topic.publisher.quota is None or len(topic.producers):
            return GLANCE_COST
        return GLANCE_COST + len(topic.subscriptions.table) + len(topic.ledger_list.ids)

    def _look_at_topic(self) -> None:
        if self.topic.closed is not None:
            return
        now_ms = self._now_ms()
        for sign in topic_signs(self.topic, now_ms):
            self._add(sign, "")
        for key, last_ms in self._throttled_before.items():
            before = self._before.get(key)
            if key not in self._still_throttled and before is not None and now_ms - last_ms < FOR_A_WHILE_MS:
                self.throttled_ms[key] = last_ms
                self.most_urgent.add(before)
        self.most_urgent.problems[:] = with_causes(self.most_urgent.problems)
        throttled = [(problem.kind, problem.subscription) for problem in self.most_urgent.problems if problem.kind in FOR_A_WHILE]
        self.throttled_ms = {key: self.throttled_ms.get(key, now_ms) for key in throttled}

    def _add(self, sign: Sign, subscription: str) -> None:
        key, since_ms = (sign.kind, subscription), sign.since_ms
        if since_ms is None:
            before = self._before.get(key)
            # One that was not kept before may have been there all the time.
            since_ms = before.since_ms if before is not None else self._now_ms() if self._knew_all else None
        if key in self._throttled_before:
            self._still_throttled.add(key)
        self.most_urgent.add(problem_of(self.topic.name, subscription, sign, since_ms))


def abandoned_of(topic: Topic, now_ms: int) -> TopicProblems:
    """What a topic that is unloaded leaves without a consumer. Nobody is connected once it is unloaded: whoever is now, leaves now.
    Sentences are made for the most urgent only."""
    most_urgent = TopicProblems()
    if not topic.keeps_messages:
        return most_urgent
    waiting = [
        (-backlog, now_ms if subscription.consumers else topic.idle.subscription_ms(subscription.name), subscription.name)
        for subscription in topic.subscriptions.table.values()
        if subscription.durable and (backlog := subscription.backlog_entries)
    ]
    for backlog, idle_ms, name in heapq.nsmallest(OF_TOPIC_MAX, waiting):
        for sign in signs_of_abandoned(-backlog, idle_ms, 1 << 62):
            most_urgent.add(problem_of(topic.name, name, sign, idle_ms))
    most_urgent.left_out = max(0, len(waiting) - OF_TOPIC_MAX)
    return most_urgent


def stored_problem(name: TopicName, subscription: str, since_ms: int | None) -> Problem:
    """Of a topic that is not loaded: how much waits there only loading it tells."""
    sentence = "No consumer is connected, and messages wait; how many is not known, as nobody has used the topic since the start."
    (sign,) = signs_of_abandoned(1, since_ms, 1 << 62)
    return problem_of(name, subscription, sign._replace(sentence=sentence, waiting=0), since_ms)
