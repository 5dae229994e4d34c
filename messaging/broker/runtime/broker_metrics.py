"""What the broker counts, as samples of `messaging.metrics`."""

from __future__ import annotations

from collections.abc import Iterator

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.metering.metering import TOTALS
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.broker.runtime.process import resident_bytes
from messaging.broker.runtime.topics.non_persistent import NonPersistentTopic
from messaging.broker.runtime.topics.topic import Topic
from messaging.metrics import Sample
from messaging.protocol import hot
from messaging.version import VERSION

TOPICS_MAX = 10_000  # series of single topics: a scrape of more would hold the broker up for seconds


def broker_samples(service: Broker, *, private: bool) -> Iterator[Sample]:
    """`private` adds the series that name tenants' topics."""
    topics = list(service.topics)
    yield Sample("magnetar_build_info", 1, (VERSION, "compiled" if hot.COMPILED else "python"))
    yield Sample("magnetar_ready", int(service.ready()[0]))
    yield Sample("magnetar_start_time_seconds", service.started_ms / 1000)
    yield Sample("magnetar_feed_changes_ignored_total", service.access.feed.ignored_changes)
    yield Sample("magnetar_feed_pages_refused_total", service.access.feed.refused_pages)
    yield Sample("magnetar_feed_version", service.access.view.version)
    yield Sample("magnetar_resident_bytes", resident_bytes())
    yield Sample("magnetar_memory_budget_bytes", service.settings.memory_budget_bytes)
    yield Sample("magnetar_memory_budget_used_bytes", service.memory_limiter.used_bytes)
    for account in service.memory_limiter.accounts:
        yield Sample("magnetar_memory_account_bytes", account.used_bytes, (account.name,))
        yield Sample("magnetar_memory_account_limit_bytes", account.limit_bytes, (account.name,))
    yield Sample("magnetar_sources_paused", service.ingress_limiter.paused)
    yield Sample("magnetar_throttled_bytes", service.ingress_limiter.parked_bytes)
    yield Sample("magnetar_sources_throttled", service.ingress_limiter.parked_too_much)
    yield Sample("magnetar_catch_up_reads_total", service.backlog_scheduler.reads)
    yield Sample("magnetar_catch_up_reads_shared_total", service.backlog_scheduler.reads_joined)
    yield Sample("magnetar_catch_up_reads_waiting", service.backlog_scheduler.reads_waiting)
    yield Sample("magnetar_connections", len(service.peers.connections))
    yield Sample("magnetar_connections_opened_total", service.peers.opened)
    for reason, count in service.peers.refused.items():
        yield Sample("magnetar_connections_refused_total", count, (reason,))
    for loop in service.background.loops.values():
        yield Sample("magnetar_background_failures_total", loop.failures, (loop.name,))
        yield Sample("magnetar_background_failing", int(loop.failing), (loop.name,))
        yield Sample("magnetar_background_last_success_seconds", loop.last_success_ms / 1000, (loop.name,))
    if isinstance(service.owners, SharedMember):
        yield Sample("magnetar_brokers_unrecovered", len(service.owners.still_unrecovered()))
    yield Sample("magnetar_cursors_unsaved", len(service.cursors.states.unsaved))
    yield Sample("magnetar_connections_unauthenticated", service.peers.shares.unauthenticated)
    yield Sample("magnetar_connections_deferred_total", service.peers.turn_loop.turns.deferred)
    yield Sample("magnetar_requests_pending", sum(peer.requests.count for peer in service.peers.connections))
    yield Sample("magnetar_requests_pending_bytes", sum(peer.requests.size_bytes for peer in service.peers.connections))
    yield from _of_the_log(service)
    yield from _of_all_topics(service, topics)
    yield Sample("magnetar_acknowledgements_total", service.acknowledgements)
    yield Sample("magnetar_redeliveries_uncounted_total", service.cursor_memory.uncounted_redeliveries)
    yield Sample("magnetar_audit_events_total", service.audit.events.recorded)
    yield Sample("magnetar_audit_events_further_total", service.audit.events.further)
    yield Sample("magnetar_audit_events_pending", service.audit.events.pending)
    for code, count in service.publish_errors.items():
        yield Sample("magnetar_publish_errors_total", count, (code,))
    if private:
        for topic in topics[:TOPICS_MAX]:
            yield from _of_a_topic(topic)
        yield Sample("magnetar_topics_left_out", max(0, len(topics) - TOPICS_MAX))


def _of_the_log(service: Broker) -> Iterator[Sample]:
    log = service.storage.ledgers.statistics()
    yield Sample("magnetar_log_syncs_total", log.syncs)
    yield Sample("magnetar_log_sync_seconds_total", log.sync_s)
    yield Sample("magnetar_log_written_bytes_total", log.written_bytes)
    yield Sample("magnetar_log_degraded_ledgers", log.degraded_ledgers)
    if log.files is not None and log.stored_bytes is not None:  # what nobody knows is left out
        yield Sample("magnetar_log_segments", log.files)
        yield Sample("magnetar_log_bytes", log.stored_bytes)
    reserve = service.storage.reserve
    yield Sample("magnetar_metadata_reserve_missing_bytes", max(0, reserve.size_bytes - reserve.held_bytes))
    for during, count in service.storage.damage.items():
        yield Sample("magnetar_storage_damage_total", count, (during,))


def _of_all_topics(service: Broker, topics: list[Topic]) -> Iterator[Sample]:
    """One walk over them: there may be 100,000."""
    producers = consumers = 0
    sums = [service.metering.retired[name] for name in TOTALS]  # topics unloaded since the start: a counter never falls
    for topic in topics:
        producers += len(topic.producers)
        for subscription in topic.subscriptions.table.values():
            consumers += len(subscription.consumers)
        for index, total in enumerate(topic.totals):
            sums[index] += total
    yield Sample("magnetar_topics_loaded", len(topics))
    yield Sample("magnetar_producers", producers)
    yield Sample("magnetar_consumers", consumers)
    yield Sample(
        "magnetar_delayed_messages", sum(delays.waiting_entries for delays in service.topics.services.loops.delay_timers.topics)
    )
    for name, total in zip(TOTALS, sums, strict=True):
        yield Sample(f"magnetar_{name}_total", total)


def _of_a_topic(topic: Topic) -> Iterator[Sample]:
    labels = (topic.name.tenant, str(topic.name.namespace), topic.text)
    for name, total in zip(TOTALS, topic.totals, strict=True):
        yield Sample(f"magnetar_topic_{name}_total", total, labels)
    yield Sample("magnetar_topic_storage_bytes", topic.ledger.stored_bytes, labels)
    if isinstance(topic, NonPersistentTopic):
        yield Sample("magnetar_topic_messages_dropped_total", topic.messages_dropped, labels)
    yield Sample("magnetar_topic_producers", len(topic.producers), labels)
    yield Sample(
        "magnetar_topic_consumers", sum(len(subscription.consumers) for subscription in topic.subscriptions.table.values()), labels
    )
    for subscription in topic.subscriptions.table.values():
        if subscription.durable:
            yield Sample("magnetar_subscription_backlog_entries", subscription.backlog_entries, (*labels, subscription.name))
