"""What is wrong with a topic or a subscription at this moment: one answer for lists of problems, marks, stats and explanations."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from messaging.broker.core.diagnosis.delivery_health import Verdict
from messaging.broker.core.diagnosis.explain import DeliveryState
from messaging.broker.core.diagnosis.problems import ABANDONED_MS, Sign, is_quiet, signs_of_subscription, signs_of_topic
from messaging.broker.core.non_persistent import NonPersistentSubscription
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.topics.topic_rates import QUIET
from messaging.problems.kinds import Kind
from messaging.problems.order import Problem
from messaging.protocol.names import TopicName
from messaging.protocol.system_topics import is_system_topic

SENTENCE_LENGTH_MAX = 500
AT_LIMIT = "raise the rate limit that delivery has reached, or publish less: more consumers do not help"


def subscription_signs(topic: Topic, subscription: Subscription, state: DeliveryState, verdict: Verdict) -> list[Sign]:
    """`verdict`: of `judge_delivery` in this state."""
    if is_system_topic(topic.name) or is_calm(subscription):
        return []
    grows = (topic.rates or QUIET).members.grows(subscription)
    idle_since_ms = topic.idle.subscription_ms(subscription.name)
    return signs_of_subscription(subscription, state, verdict, grows=grows, idle_since_ms=idle_since_ms)


def is_calm(subscription: Subscription) -> bool:
    """Whether nothing can be wrong with it, at a glance."""
    return not isinstance(subscription, NonPersistentSubscription) and is_quiet(subscription)


def topic_signs(topic: Topic, now_ms: int) -> list[Sign]:
    """Of the topic itself. Where there is a backlog quota and no producer, it walks over subscriptions and over ledgers once."""
    if is_system_topic(topic.name):
        return []
    limits = topic.publisher.limits
    return signs_of_topic(
        held=held_by_quota(topic),
        throttled_by=None if limits is None else limits.blocked_by,
        name=topic.name.base.local,
        last_published_ms=topic.publisher.last_published_ms,
        producers=len(topic.producers),
        unread=topic.keeps_messages and not topic.subscriptions.table and not _retains(topic),
        now_ms=now_ms,
    )


def with_causes(problems: Iterable[Problem]) -> list[Problem]:
    """Of one topic, in the same order: what falls behind because of a rate limit is not helped by more consumers."""
    found = list(problems)
    throttled = {each.subscription for each in found if each.kind == Kind.DISPATCH_THROTTLED}
    return [
        replace(each, remedy=AT_LIMIT) if each.kind == Kind.FALLING_BEHIND and each.subscription in throttled else each
        for each in found
    ]


def may_pass(problem: Problem, now_ms: int) -> bool:
    """A topic that is unloaded lets go of its consumers, which are back elsewhere by then: as of one that is loaded, nobody is told
    at once."""
    return problem.kind == Kind.NO_CONSUMER and problem.since_ms is not None and 0 <= now_ms - problem.since_ms < ABANDONED_MS


def held_by_quota(topic: Topic) -> str:
    """Why producers are refused; "" if they are not. One that is connected may publish, and is closed by what reaches the quota."""
    quota = topic.publisher.quota
    return "" if quota is None or len(topic.producers) else quota.held()


def problem_of(name: TopicName, subscription: str, sign: Sign, since_ms: int | None) -> Problem:
    return Problem(
        kind=sign.kind,
        sentence=sign.sentence[:SENTENCE_LENGTH_MAX],
        remedy=sign.remedy,
        since_ms=since_ms,
        tenant=name.tenant,
        namespace=str(name.namespace),
        topic=str(name),
        subscription=subscription,
        waiting=sign.waiting,
        target=sign.target,
    )


def _retains(topic: Topic) -> bool:
    policies, name = topic.services.policies, topic.name
    return all(int(policies.value(policy, name)) for policy in ("retention_time_min", "retention_size_mb"))
