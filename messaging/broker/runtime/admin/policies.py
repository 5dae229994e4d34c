"""Admin RPC: what a change of policies would do now. Only reads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from messaging.adminrpc.methods import POLICIES_PREVIEW
from messaging.adminrpc.policies import EFFECTS_MAX, PolicyEffectFound, PolicyPreview, PolicyPreviewAnswer
from messaging.broker.core.backlog.quota import bytes_after
from messaging.broker.core.control.policy_effects import (
    EFFECTS,
    QUOTAS,
    PolicyEffect,
    SharedFacts,
    SubscriptionFacts,
    TopicFacts,
    effects,
    shared_effects,
    shared_policies,
)
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import TYPE_NAMES
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.ceilings import counts_of_tenant
from messaging.broker.runtime.admin.reclaim import consumed_ledgers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.backlog.sizes import first_unacknowledged, ledger_sizes
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.broker.runtime.topics.topic import Topic
from messaging.policies.model import Level
from messaging.policies.resolution import resolve_policy
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.managed.maintenance_due import MaintenancePolicies
from messaging.storage.managed.retention import droppable

TOPICS_MAX = 500  # of one preview
NAMESPACES_MAX = 1_000


class PolicyHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(POLICIES_PREVIEW)
    async def preview(self, request: PolicyPreview) -> PolicyPreviewAnswer:
        level = _level(request)
        topics, left_out = await self._topics(request)
        changed = await self._shared(request, level)
        for topic in topics:
            before, after = self._values(topic.name, request, level)
            if any(before[name] != after[name] for name in EFFECTS):
                facts = await self._facts(topic, before, after, request.subscription)
                changed += effects(facts, before, after)
            await asyncio.sleep(0)
        return PolicyPreviewAnswer(
            effects=[_shown(effect) for effect in changed[:EFFECTS_MAX]],
            effects_count=len(changed),
            topics_looked_at=len(topics),
            topics_left_out=left_out,
        )

    async def _topics(self, request: PolicyPreview) -> tuple[list[Topic], int]:
        """Those to look at, and how many there are besides."""
        if request.topic:
            loaded = self._broker.topics.loaded_with_policies_of(request.topic)
            name = parse_topic(request.topic)
            partitioned = await self._broker.topics.partitioned.get(name)
            if partitioned is None and not loaded:
                loaded = [await self._broker.topics.get(name, create=False)]
            total = partitioned.partitions if partitioned is not None else 1
        else:
            namespaces = [request.namespace] if request.namespace else self._namespaces(request.tenant)
            loaded = [topic for namespace in namespaces for topic in self._broker.topics.loaded_of(namespace)]
            stored = await self._broker.storage.meta.count_topics(_tenant(request))
            total = sum(stored.get(namespace, 0) for namespace in namespaces)
        looked_at = loaded[:TOPICS_MAX]
        return looked_at, max(0, total - len(looked_at))

    def _namespaces(self, tenant: str) -> list[str]:
        return [namespace for namespace in self._broker.access.view.namespaces if namespace.startswith(f"{tenant}/")]

    async def _shared(self, request: PolicyPreview, level: Level) -> list[PolicyEffect]:
        """On limits of what all topics of a namespace or tenant have together."""
        names = {scope: shared_policies(scope) for scope in ("namespace", "tenant")}
        if level not in (Level.NAMESPACE, Level.TENANT) or not set(request.policies) & {*names["namespace"], *names["tenant"]}:
            return []
        view, tenant, limits = self._broker.access.view, _tenant(request), self._broker.topics.services.limits
        meta, broker = self._broker.storage.meta, self._broker.access.view.defaults
        topics, subscriptions = await meta.count_topics(tenant), await meta.count_subscriptions(tenant)
        places = [
            ("namespace", namespace) for namespace in ([request.namespace] if request.namespace else self._namespaces(tenant))
        ]
        shown = []
        for scope, name in [*places[:NAMESPACES_MAX], *([("tenant", tenant)] if level is Level.TENANT else [])]:
            counts = {
                "producers": limits.producers.of(name),
                "consumers": limits.consumers.of(name),
                "subscriptions": subscriptions.get(name, 0),
                "topics": topics.get(name, 0),
            }
            if scope == "tenant":
                of_tenant = await counts_of_tenant(self._broker, tenant)
                of_tenant["max_namespaces_per_tenant"] = len(self._namespaces(tenant))
                counts = {things: of_tenant[policy] for policy, things in names["tenant"].items()}
            levels = view.levels_of_namespace(name if scope == "namespace" else f"{tenant}/")
            after = {**levels, level: _with_changes(levels[level], request)}
            values = [{policy: resolve_policy(policy, each, broker).value for policy in names[scope]} for each in (levels, after)]
            shown += shared_effects(SharedFacts(scope, name, counts), *values)
        return shown

    def _values(self, name: TopicName, request: PolicyPreview, level: Level) -> tuple[dict[str, Any], dict[str, Any]]:
        levels = self._broker.access.view.levels_of(name, request.subscription)
        changed = _with_changes(levels[level], request)
        broker = self._broker.access.view.defaults
        names = {*EFFECTS, "dispatch_rate_period_s"}
        before = {policy: resolve_policy(policy, levels, broker).value for policy in names}
        return before, {policy: resolve_policy(policy, {**levels, level: changed}, broker).value for policy in names}

    # --- measuring

    async def _facts(self, topic: Topic, before: Mapping[str, Any], after: Mapping[str, Any], only: str) -> TopicFacts:
        """`only`: of this subscription; "": of all."""
        now_ms = self._broker.storage.safe_expiry_ms()
        expires = None
        if after["message_ttl_s"] and after["message_ttl_s"] != before["message_ttl_s"]:
            expires = await topic.entries.mark_delete_before_broker_time(now_ms - after["message_ttl_s"] * 1000)
        subscriptions = []
        for subscription in list(topic.subscriptions.table.values()):
            if only in ("", subscription.name):
                subscriptions.append(
                    _subscription(
                        topic,
                        subscription,
                        subscription.cursor.backlog_up_to(expires, subscription.ledger_list) if expires is not None else 0,
                    )
                )
        rates = topic.rates
        return TopicFacts(
            topic=topic.text,
            producers=len(topic.producers),
            unencrypted_producers=sum(not producer.encrypted for producer in topic.producers),
            subscriptions=subscriptions,
            trimmed_bytes=self._trimmed(topic, before, after, now_ms),
            stored_bytes=topic.ledger.stored_bytes if isinstance(topic, PersistentTopic) else 0,
            oldest_age_s=await self._oldest_age_s(topic, before, after),
            publish_rate=rates.messages_in.a_second if rates is not None else 0.0,
            dispatch_rate=rates.messages_out.a_second if rates is not None else 0.0,
        )

    def _trimmed(self, topic: Topic, before: Mapping[str, Any], after: Mapping[str, Any], now_ms: int) -> int:
        """What retention would delete, beyond what it deletes as it is."""
        if not isinstance(topic, PersistentTopic):
            return 0
        acknowledged = min(
            (subscription.cursor.mark_delete for subscription in topic.subscriptions.table.values() if subscription.durable),
            default=topic.ledger_list.last,
        )

        beyond = consumed_ledgers(self._broker, topic)

        def dropped(values: Mapping[str, Any]) -> int:
            policies = MaintenancePolicies(0, values["retention_time_min"], values["retention_size_mb"])
            ledgers, retention = topic.ledger.record.ledgers, policies.retention(now_ms)
            return sum(ledger.length_bytes for ledger in droppable(ledgers, acknowledged, retention, beyond))

        return max(0, dropped(after) - dropped(before))

    async def _oldest_age_s(self, topic: Topic, before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
        if all(before[name] == after[name] for name in QUOTAS):
            return 0
        first = first_unacknowledged(topic.subscriptions.table, topic.ledger_list)
        stored_ms = await topic.entries.broker_time(first) if first is not None else 0
        return max(0, self._broker.now_ms() - stored_ms) // 1000 if stored_ms else 0


def _level(request: PolicyPreview) -> Level:
    if request.subscription:
        return Level.SUBSCRIPTION
    return Level.TOPIC if request.topic else Level.NAMESPACE if request.namespace else Level.TENANT


def _with_changes(values: Mapping[str, Any] | None, request: PolicyPreview) -> dict[str, Any]:
    return {policy: value for policy, value in {**(values or {}), **request.policies}.items() if value is not None}


def _tenant(request: PolicyPreview) -> str:
    return request.tenant or request.namespace.partition("/")[0]


def _subscription(topic: Topic, subscription: Subscription, expired: int) -> SubscriptionFacts:
    return SubscriptionFacts(
        name=subscription.name,
        kind=TYPE_NAMES[subscription.kind],
        durable=subscription.durable,
        unacked_by_consumer=[consumer.unacked_messages for consumer in subscription.consumers],
        unacked_messages=subscription.unacked_messages,
        backlog_bytes=bytes_after(ledger_sizes(topic.ledger), subscription.cursor.mark_delete) if subscription.durable else 0,
        delayed_entries=subscription.delayed_entries,
        expired_entries=expired,
    )


def _shown(effect: PolicyEffect) -> PolicyEffectFound:
    return PolicyEffectFound(
        policy=effect.policy,
        topic=effect.topic,
        subscription=effect.subscription,
        affected=effect.affected,
        sentence=effect.sentence,
    )
