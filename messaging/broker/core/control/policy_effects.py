"""What a change of policies would do now to what is connected and stored. Pure: the facts are measured before.

A policy that is not in `EFFECTS` changes only what comes later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from messaging.broker.core.backlog.quota import EVICTED_TO, QuotaAction
from messaging.policies.texts import counted, singular, size_text

Values = Mapping[str, Any]  # policy -> the value that would be in force


class SubscriptionFacts(NamedTuple):
    """`unacked_by_consumer`: for each consumer, how many messages it has not acknowledged. `expired_entries`: how many the TTL that
    would be in force would acknowledge now."""

    name: str
    kind: str
    durable: bool
    unacked_by_consumer: Sequence[int]
    unacked_messages: int
    backlog_bytes: int
    delayed_entries: int
    expired_entries: int = 0


class TopicFacts(NamedTuple):
    """`trimmed_bytes`: what retention would delete now, more than it deletes anyway. `oldest_age_s`: of the oldest unacknowledged
    message; 0: there is none. Rates are of messages a second."""

    topic: str
    producers: int
    unencrypted_producers: int
    subscriptions: Sequence[SubscriptionFacts]
    trimmed_bytes: int = 0
    stored_bytes: int = 0
    oldest_age_s: int = 0
    publish_rate: float = 0.0
    dispatch_rate: float = 0.0


class PolicyEffect(NamedTuple):
    """`affected`: how many things or bytes, as the sentence says; `subscription` "": the whole topic."""

    policy: str
    topic: str
    subscription: str
    affected: int
    sentence: str


class SharedFacts(NamedTuple):
    """What a namespace, or a tenant, has in all: `held`, of each of `SHARED`, or `OF_TENANTS`. `scope`: "namespace" or "tenant"."""

    scope: str
    name: str
    held: Mapping[str, int]


SHARED = ("producers", "consumers", "subscriptions", "topics")
DELAYED = "delayed_messages"
OF_TENANTS = (*SHARED, "namespaces", "partitions", "schemas", "connections", DELAYED)


def shared_policies(scope: str) -> dict[str, str]:
    """policy -> what it limits."""
    return {f"max_{things}_per_{scope}": things for things in (OF_TENANTS if scope == "tenant" else SHARED)}


def shared_effects(facts: SharedFacts, before: Values, after: Values) -> list[PolicyEffect]:
    shared = []
    for policy, things in shared_policies(facts.scope).items():
        count, limit = facts.held[things], after[policy]
        if before[policy] == limit or not limit or count < limit + (things != DELAYED):
            continue
        noun, level, name = things.replace("_", " "), facts.scope, facts.name
        counted_all = counted(count, singular(noun))
        if things == DELAYED:
            sentence = f"{counted_all} of {level} {name} would stay, and another would be refused when it is published"
        elif things in ("producers", "consumers", "connections"):
            over = count - limit
            sentence = f"{over:,} of {counted_all} of {level} {name} would be refused when connecting again"
        else:
            sentence = f"{counted_all} of {level} {name} would stay, and no other could be created"
        shared.append(PolicyEffect(policy, "", "", count - limit, sentence))
    return shared


Found = Iterator[tuple[str, int, str]]  # subscription, count, sentence


def effects(facts: TopicFacts, before: Values, after: Values) -> list[PolicyEffect]:
    """Of the policies whose values differ. Both hold every policy of `EFFECTS`."""
    policies: dict[tuple[str, int, str], str] = {}  # two policies may have one effect: it is told of the first
    for policy, effect in EFFECTS.items():
        if before[policy] != after[policy]:
            for told in effect(facts, before, after):
                policies.setdefault(told, policy)
    return [PolicyEffect(policy, facts.topic, *told) for told, policy in policies.items()]


def _too_many(count: int, limit: int, noun: str, subscription: str = "") -> tuple[int, str] | None:
    if not limit or count <= limit:
        return None
    over = count - limit
    refused = f"{counted(over, noun)} of {count:,} would be refused when connecting again"
    return over, f"{refused} to subscription {subscription}" if subscription else refused


def _producers(facts: TopicFacts, before: Values, after: Values) -> Found:
    if refused := _too_many(facts.producers, after["max_producers_per_topic"], "producer"):
        yield ("", *refused)


def _consumers(facts: TopicFacts, before: Values, after: Values) -> Found:
    consumers = sum(len(subscription.unacked_by_consumer) for subscription in facts.subscriptions)
    if refused := _too_many(consumers, after["max_consumers_per_topic"], "consumer"):
        yield ("", *refused)


def _consumers_of_each(facts: TopicFacts, before: Values, after: Values) -> Found:
    for subscription in facts.subscriptions:
        limit = after["max_consumers_per_subscription"]
        if refused := _too_many(len(subscription.unacked_by_consumer), limit, "consumer", subscription.name):
            yield (subscription.name, *refused)


def _subscriptions(facts: TopicFacts, before: Values, after: Values) -> Found:
    limit, durable = after["max_subscriptions_per_topic"], sum(subscription.durable for subscription in facts.subscriptions)
    if limit and durable > limit:
        yield "", durable - limit, f"{counted(durable, 'subscription')} would stay, and no other could be created"


def _types(facts: TopicFacts, before: Values, after: Values) -> Found:
    allowed = after["subscription_types"]
    for subscription in facts.subscriptions:
        connected = len(subscription.unacked_by_consumer)
        if allowed and subscription.kind not in allowed and connected:
            of_kind = counted(connected, " ".join((subscription.kind, "consumer")))
            yield (
                subscription.name,
                connected,
                f"{of_kind} of subscription {subscription.name} would be refused when connecting again",
            )


def _encryption(facts: TopicFacts, before: Values, after: Values) -> Found:
    count = facts.unencrypted_producers
    if after["encryption_required"] and count:
        yield "", count, f"{counted(count, 'producer')} that do not encrypt would be closed and refused"


def _unacked_of_consumer(facts: TopicFacts, before: Values, after: Values) -> Found:
    limit = after["max_unacked_per_consumer"]
    for subscription in facts.subscriptions:
        consumers = (
            sum(count >= limit for count in subscription.unacked_by_consumer) if limit and subscription.kind in _LIMITED else 0
        )
        if consumers:
            yield (
                subscription.name,
                consumers,
                f"{counted(consumers, 'consumer')} of subscription {subscription.name} would be sent nothing until they "
                "acknowledge",
            )


def _unacked_of_subscription(facts: TopicFacts, before: Values, after: Values) -> Found:
    limit = after["max_unacked_per_subscription"]
    for subscription in facts.subscriptions:
        if limit and subscription.kind in _LIMITED and subscription.unacked_messages >= limit:
            yield (
                subscription.name,
                subscription.unacked_messages,
                f"subscription {subscription.name} has {counted(subscription.unacked_messages, 'unacknowledged message')} and "
                "would be sent nothing more",
            )


def _quota_bytes(facts: TopicFacts, before: Values, after: Values) -> Found:
    limit = after["backlog_quota_bytes"]
    if QuotaAction(after["backlog_quota_bytes_policy"]) is QuotaAction.EVICT:
        for subscription in facts.subscriptions:
            if subscription.durable and 0 <= limit <= subscription.backlog_bytes > 0:
                evicted = subscription.backlog_bytes - int(limit * EVICTED_TO)
                yield (
                    subscription.name,
                    evicted,
                    f"about {_size(evicted)} of the backlog of subscription {subscription.name} would be evicted",
                )
    yield from _publishing(facts, before, after)


def _quota_age(facts: TopicFacts, before: Values, after: Values) -> Found:
    limit = after["backlog_quota_age_s"]
    if QuotaAction(after["backlog_quota_age_policy"]) is QuotaAction.EVICT and 0 <= limit <= facts.oldest_age_s > 0:
        yield "", 1, f"unacknowledged messages older than {limit:,} s would be evicted; the oldest is {facts.oldest_age_s:,} s old"
    yield from _publishing(facts, before, after)


def _publishing(facts: TopicFacts, before: Values, after: Values) -> Found:
    """Either quota refuses it, also one that stays as it is."""
    if why := _why_refused(facts, after):
        yield "", facts.producers, _refused(facts, why)
    elif _why_refused(facts, before):
        yield "", 0, "publishing, which is refused now, would be accepted again"


def _why_refused(facts: TopicFacts, values: Values) -> str:
    """Why nothing can be published under these quotas: a backlog that has reached one, as the broker has it. "": it can."""
    backlog = max((subscription.backlog_bytes for subscription in facts.subscriptions if subscription.durable), default=0)
    if _refuses(values, "backlog_quota_bytes", backlog):
        return f"the backlog is {_size(backlog)}"
    if _refuses(values, "backlog_quota_age_s", facts.oldest_age_s):
        return f"the oldest unacknowledged message is {facts.oldest_age_s:,} s old"
    return ""


def _refuses(values: Values, quota: str, held: int) -> bool:
    action = QuotaAction(values[f"{quota.removesuffix('_s')}_policy"])
    return action is not QuotaAction.EVICT and 0 <= values[quota] <= held > 0


def _refused(facts: TopicFacts, why: str) -> str:
    if not facts.producers:
        return f"publishing would be refused: {why}"
    return f"publishing would be refused: {why}; {counted(facts.producers, 'connected producer')} would be closed"


def _ttl(facts: TopicFacts, before: Values, after: Values) -> Found:
    for subscription in facts.subscriptions:
        if subscription.expired_entries:
            count = subscription.expired_entries
            expired = counted(count, "unacknowledged entry")
            yield subscription.name, count, f"{expired} of subscription {subscription.name} would expire"


def _retention(facts: TopicFacts, before: Values, after: Values) -> Found:
    if facts.trimmed_bytes:
        deleted = _size(facts.trimmed_bytes)
        if facts.stored_bytes:
            deleted = f"{deleted} of the {_size(facts.stored_bytes)} stored"
        yield "", facts.trimmed_bytes, f"{deleted}, acknowledged by all, would be deleted at the next retention run"


def _delays(facts: TopicFacts, before: Values, after: Values) -> Found:
    for subscription in facts.subscriptions:
        if not after["delayed_delivery"] and subscription.delayed_entries:
            yield (
                subscription.name,
                subscription.delayed_entries,
                f"{counted(subscription.delayed_entries, 'delayed message')} of {subscription.name} would be sent now",
            )


def _given_delay(policy: str, without: str) -> Callable[[TopicFacts, Values, Values], Found]:
    def effect(facts: TopicFacts, before: Values, after: Values) -> Found:
        if facts.producers and after["delayed_delivery"] and (policy == _FIXED or not after[_FIXED]):
            outcome = f"wait {after[policy]:,} ms" if after[policy] else without
            what = f"what {counted(facts.producers, 'connected producer')} would publish"
            if policy != _FIXED:
                what = f"{what} without a delivery time"
            yield "", facts.producers, f"{what} would {outcome}; what is stored keeps its time"

    return effect


def _deduplication(facts: TopicFacts, before: Values, after: Values) -> Found:
    if not after["deduplication"]:
        yield "", 1, "what is known of sequence ids would be forgotten: messages sent again would be stored again"


def _slower(policy: str, what: str) -> Callable[[TopicFacts, Values, Values], Found]:
    def effect(facts: TopicFacts, before: Values, after: Values) -> Found:
        limit = after[policy] / after.get(policy.replace("_messages", "_period_s"), 1)
        rate = facts.publish_rate if policy.startswith("publish") else facts.dispatch_rate
        if 0 < limit < rate:
            yield "", int(rate - limit), f"{counted(round(rate), 'message')} a second {what} now; {limit:,.0f} would be"

    return effect


def _size(size_bytes: int) -> str:
    """Rounded to a tenth of its unit."""
    for name, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return size_text(size_bytes)


QUOTAS = ("backlog_quota_bytes", "backlog_quota_bytes_policy", "backlog_quota_age_s", "backlog_quota_age_policy")
_LIMITED = ("Shared", "Key_Shared")
_FIXED = "delayed_delivery_fixed_ms"
EFFECTS: Mapping[str, Callable[[TopicFacts, Values, Values], Found]] = {
    "max_producers_per_topic": _producers,
    "max_consumers_per_topic": _consumers,
    "max_consumers_per_subscription": _consumers_of_each,
    "max_subscriptions_per_topic": _subscriptions,
    "subscription_types": _types,
    "encryption_required": _encryption,
    "max_unacked_per_consumer": _unacked_of_consumer,
    "max_unacked_per_subscription": _unacked_of_subscription,
    "backlog_quota_bytes": _quota_bytes,
    "backlog_quota_bytes_policy": _quota_bytes,
    "backlog_quota_age_s": _quota_age,
    "backlog_quota_age_policy": _quota_age,
    "message_ttl_s": _ttl,
    "retention_time_min": _retention,
    "retention_size_mb": _retention,
    "delayed_delivery": _delays,
    _FIXED: _given_delay(_FIXED, "be delivered when it asks for it"),
    "delayed_delivery_default_ms": _given_delay("delayed_delivery_default_ms", "be delivered at once"),
    "deduplication": _deduplication,
    "publish_rate_messages": _slower("publish_rate_messages", "are published"),
    "dispatch_rate_messages": _slower("dispatch_rate_messages", "are delivered"),
}
