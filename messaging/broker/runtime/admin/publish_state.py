"""What decides whether a topic takes what is published to it, as it is now. Only reads."""

from __future__ import annotations

from messaging.broker.core.diagnosis.publish_steps import PublishState
from messaging.broker.runtime.admin.fewer_copies import degraded_since_ms
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.problems.topic_signs import held_by_quota
from messaging.broker.runtime.topics.producers.publisher import Publisher
from messaging.broker.runtime.topics.topic import Topic

DROPPED_LATELY_MS = 600_000  # a producer that connects again drops what it had sent before; that is over soon


def publish_state(broker: Broker, topic: Topic) -> PublishState:
    """Walks over the topic's producers, and where there is a backlog quota over its subscriptions and ledgers once."""
    publisher, policies = topic.publisher, topic.services.policies
    limits, stored, quota = publisher.limits, publisher.stored_limit, publisher.quota
    refusal = broker.problems.refusals.refusal_of(topic.text)
    failure = topic.ledger.failed
    deduplicated = publisher if isinstance(publisher, Publisher) and publisher.deduplication.state is not None else None
    last_dropped_ms = 0 if deduplicated is None else deduplicated.last_dropped_ms
    return PublishState(
        producers=[producer.name for producer in topic.producers],
        waiting=topic.producers.table.waiting,
        last_published_ms=publisher.last_published_ms,
        closing=topic.closed is not None,
        terminated=topic.ledger.terminated or topic.ledger.ended,
        storage_failure="" if failure is None else str(failure),
        fewer_copies_ms=degraded_since_ms(broker).get(topic.ledger.writing_to),
        spending_stopped=policies.publishing_stopped(topic.name),
        encryption_required=bool(policies.value("encryption_required", topic.name)),
        schema_refused="" if refusal is None else refusal.sentence,
        schema_refused_ms=None if refusal is None else refusal.since_ms,
        message_bytes_max=publisher.message_bytes_max,
        tenant_bytes=0 if stored is None else stored.used,
        tenant_bytes_max=0 if stored is None else stored.limit,
        tenant_full="" if stored is None else stored.refusal(1),
        quota=None if quota is None else quota.quota,
        quota_held=held_by_quota(topic),
        rate_waits=None if limits is None else limits.waits,
        rate_blocked_by=None if limits is None else limits.blocked_by,
        parked=[] if limits is None else [producer.name for producer in topic.producers if limits.parked_bytes(producer)],
        deduplicates=deduplicated is not None,
        dropped_entries=0 if deduplicated is None else deduplicated.dropped_entries,
        last_dropped_ms=last_dropped_ms if broker.now_ms() - last_dropped_ms < DROPPED_LATELY_MS else None,
    )
