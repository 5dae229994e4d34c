"""All metrics of the platform with their kind, unit, labels and meaning. `docs/metrics.md` is generated from this table.

Counters are plain integers on the objects that count. A process exports them as `Sample`s, and `exposition` turns these into
Prometheus's text format. A sample whose name is not in the table is an error. Metrics with a label that names something of a tenant
are *private*: only superusers see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
PRIVATE_LABELS = frozenset({"tenant", "namespace", "topic", "subscription"})
_OF_A_TOPIC = ("tenant", "namespace", "topic")
_LISTENER, _LANE = ("listener",), ("listener", "lane")


class Metric(NamedTuple):
    """`name` is the exported name; a counter's ends in ``_total``. `process` is the process that exports it."""

    name: str
    kind: Literal["counter", "gauge"]
    unit: str
    labels: tuple[str, ...]
    meaning: str
    process: Literal["broker", "web"] = "broker"

    @property
    def private(self) -> bool:
        return not PRIVATE_LABELS.isdisjoint(self.labels)


class Sample(NamedTuple):
    """One value; `labels` in the order of the metric's labels."""

    name: str
    value: float
    labels: tuple[str, ...] = ()


_TABLE = (
    # The broker as a whole
    Metric(
        "magnetar_build_info",
        "gauge",
        "",
        ("version", "hot_loops"),
        "Always 1; the labels give the version and whether the hot loops are compiled.",
    ),
    Metric("magnetar_ready", "gauge", "", (), "1 if the broker accepts traffic, else 0."),
    Metric("magnetar_start_time_seconds", "gauge", "s", (), "Start time of the broker, in seconds since 1970."),
    Metric("magnetar_feed_version", "gauge", "", (), "Version of the control-plane snapshot that the broker holds."),
    Metric(
        "magnetar_feed_changes_ignored_total",
        "counter",
        "changes",
        (),
        "Control-plane changes of a kind that this release does not know.",
    ),
    Metric(
        "magnetar_feed_pages_refused_total", "counter", "pages", (), "Malformed pages of control-plane changes that were refused."
    ),
    Metric("magnetar_resident_bytes", "gauge", "bytes", (), "Resident memory of the process."),
    Metric("magnetar_memory_budget_bytes", "gauge", "bytes", (), "Budget for all buffers, caches and queues."),
    Metric("magnetar_memory_budget_used_bytes", "gauge", "bytes", (), "Used part of that budget."),
    Metric(
        "magnetar_memory_account_bytes",
        "gauge",
        "bytes",
        ("account",),
        "Memory per purpose: ingress (not durable yet), egress (not read by clients yet), catch_up (backlog reads), "
        "sessions (names, properties and requests of clients), cursors (individual acknowledgements), "
        "records (deduplication, audit events, delayed messages), tail (the entry cache, blocks that are kept of bookies).",
    ),
    Metric("magnetar_memory_account_limit_bytes", "gauge", "bytes", ("account",), "Limit of that memory."),
    Metric(
        "magnetar_sources_paused",
        "gauge",
        "connections",
        (),
        "Connections and WebSockets whose reading is paused by the publish limits.",
    ),
    Metric("magnetar_throttled_bytes", "gauge", "bytes", (), "Accepted messages that wait for publish rates."),
    Metric("magnetar_sources_throttled", "gauge", "connections", (), "Connections not read, as too much waits for publish rates."),
    Metric("magnetar_catch_up_reads_total", "counter", "reads", (), "Reads of the log for consumers with a backlog."),
    Metric(
        "magnetar_catch_up_reads_shared_total",
        "counter",
        "reads",
        (),
        "Backlog reads that were served from another subscription's read.",
    ),
    Metric("magnetar_catch_up_reads_waiting", "gauge", "reads", (), "Backlog reads that wait for memory or for their turn."),
    # Background work
    Metric(
        "magnetar_background_failures_total",
        "counter",
        "failures",
        ("loop",),
        "Failures of a background loop. The loop continues, and the log has the traceback.",
    ),
    Metric("magnetar_background_failing", "gauge", "", ("loop",), "1 if the loop's last run failed, else 0."),
    Metric(
        "magnetar_background_last_success_seconds",
        "gauge",
        "s",
        ("loop",),
        "Time of the loop's last success, in seconds since 1970; 0 if there was none since the start.",
    ),
    # Connections of the binary protocol
    Metric("magnetar_connections", "gauge", "connections", (), "Open connections of the binary protocol."),
    Metric("magnetar_connections_opened_total", "counter", "connections", (), "Accepted connections since the start."),
    Metric(
        "magnetar_connections_refused_total", "counter", "connections", ("reason",), "Connections closed by the broker, by reason."
    ),
    Metric(
        "magnetar_connections_unauthenticated",
        "gauge",
        "connections",
        (),
        "Connections and WebSockets that have not authenticated yet.",
    ),
    Metric(
        "magnetar_connections_deferred_total",
        "counter",
        "times",
        (),
        "Times that a connection used up its share of a turn of the event loop and had to wait for another.",
    ),
    Metric("magnetar_requests_pending", "gauge", "requests", (), "Unanswered requests of the binary protocol."),
    Metric("magnetar_requests_pending_bytes", "gauge", "bytes", (), "Memory of unanswered requests."),
    # Topics and traffic
    Metric("magnetar_topics_loaded", "gauge", "topics", (), "Topics loaded in memory."),
    Metric("magnetar_producers", "gauge", "producers", (), "Connected producers."),
    Metric("magnetar_consumers", "gauge", "consumers", (), "Connected consumers."),
    Metric("magnetar_delayed_messages", "gauge", "entries", (), "Delayed messages of loaded topics that wait for their time."),
    Metric("magnetar_messages_in_total", "counter", "messages", (), "Messages stored."),
    Metric("magnetar_bytes_in_total", "counter", "bytes", (), "Bytes of the stored messages, as sent by producers."),
    Metric("magnetar_messages_out_total", "counter", "messages", (), "Messages sent to consumers, including redeliveries."),
    Metric("magnetar_bytes_out_total", "counter", "bytes", (), "Bytes sent to consumers."),
    Metric("magnetar_acknowledgements_total", "counter", "messages", (), "Messages acknowledged."),
    Metric(
        "magnetar_redeliveries_uncounted_total",
        "counter",
        "entries",
        (),
        "Rejected entries that were sent again without a higher redelivery count, because their tenant has no memory left for it.",
    ),
    Metric("magnetar_publish_errors_total", "counter", "messages", ("code",), "Refused messages, by error code."),
    # The audit log
    Metric(
        "magnetar_audit_events_total",
        "counter",
        "events",
        (),
        "Audit events: refused requests of clients and changes that clients made to subscriptions.",
    ),
    Metric(
        "magnetar_audit_events_further_total",
        "counter",
        "events",
        (),
        "Audit events that were only counted, because there were too many.",
    ),
    Metric(
        "magnetar_audit_events_pending",
        "gauge",
        "events",
        (),
        "Audit events that are not in the audit log yet; they are lost if the broker stops.",
    ),
    # Storage
    Metric(
        "magnetar_brokers_unrecovered",
        "gauge",
        "brokers",
        (),
        "Brokers that are gone, and that this one could not take over from: nobody serves their topics.",
    ),
    Metric(
        "magnetar_cursors_unsaved",
        "gauge",
        "subscriptions",
        (),
        "Subscriptions whose acknowledgements are only in the cursor log, because their last cursor snapshot failed.",
    ),
    Metric("magnetar_log_syncs_total", "counter", "syncs", (), "Syncs of the log to disk."),
    Metric(
        "magnetar_log_sync_seconds_total",
        "counter",
        "s",
        (),
        "Time spent writing and syncing the log. Divided by the number of syncs: the disk latency of a commit.",
    ),
    Metric("magnetar_log_written_bytes_total", "counter", "bytes", (), "Bytes written to the log, including overhead."),
    Metric(
        "magnetar_log_degraded_ledgers",
        "gauge",
        "ledgers",
        (),
        "Ledgers on bookies that are written with fewer copies than they should have, as too few bookies answer. 0 elsewhere.",
    ),
    Metric("magnetar_log_segments", "gauge", "files", (), "Segment files of the log."),
    Metric("magnetar_log_bytes", "gauge", "bytes", (), "Size of the segment files, including space that is not reclaimed yet."),
    Metric(
        "magnetar_metadata_reserve_missing_bytes",
        "gauge",
        "bytes",
        (),
        "Missing part of the disk space reserved for metadata; above 0, the disk is full or was full recently or at the start.",
    ),
    Metric(
        "magnetar_storage_damage_total",
        "counter",
        "",
        ("during",),
        "Stored data that could not be read and was skipped, by what needed it: delivery (a message is not delivered), "
        "deduplication (a message sent again may be stored twice), ledger (all its messages are lost), cursor (acknowledged "
        "messages are redelivered), segment (part of the log was damaged when it was opened), "
        "delayed (part of the index of delayed messages is made again from the log).",
    ),
    # HTTP and WebSocket listeners of the broker
    Metric("magnetar_http_requests_total", "counter", "requests", ("path", "status"), "HTTP requests, by route and status."),
    # HTTP listeners of the broker (public, rpc) and of the web process (web, web-internal)
    Metric("magnetar_http_connections", "gauge", "connections", _LISTENER, "Open connections, including WebSockets."),
    Metric(
        "magnetar_http_connections_made_room_total", "counter", "connections", _LISTENER, "Idle connections closed to make room."
    ),
    Metric("magnetar_http_connections_turned_away_total", "counter", "connections", _LISTENER, "Refused because all were busy."),
    Metric("magnetar_http_connections_unread_total", "counter", "connections", _LISTENER, "Closed with unread responses."),
    Metric(
        "magnetar_http_tunnels", "gauge", "connections", _LISTENER, "WebSockets of clients that the web process passes on.", "web"
    ),
    Metric(
        "magnetar_http_tunnels_opened_total", "counter", "connections", _LISTENER, "WebSockets that it began to pass on.", "web"
    ),
    Metric(
        "magnetar_http_tunnels_refused_total", "counter", "connections", _LISTENER, "Refused because too many were open.", "web"
    ),
    Metric("magnetar_http_unread_bytes", "gauge", "bytes", _LISTENER, "Responses that slow peers have not read."),
    Metric("magnetar_http_requests_running", "gauge", "requests", _LANE, "Requests in progress."),
    Metric("magnetar_http_requests_waiting", "gauge", "requests", _LANE, "Waiting requests."),
    Metric("magnetar_http_requests_turned_away_total", "counter", "requests", _LANE, "Refused because too many wait."),
    Metric("magnetar_http_bodies_waiting_bytes", "gauge", "bytes", _LISTENER, "Bodies of waiting requests."),
    Metric("magnetar_http_bodies_turned_away_total", "counter", "requests", _LISTENER, "Refused for lack of memory."),
    Metric("magnetar_websocket_connections", "gauge", "connections", ("endpoint",), "Open connections of the WebSocket API."),
    Metric("magnetar_websocket_opened_total", "counter", "connections", ("endpoint",), "Accepted WebSocket connections."),
    Metric(
        "magnetar_websocket_refused_total", "counter", "connections", ("endpoint", "status"), "Refused upgrades, by HTTP status."
    ),
    Metric("magnetar_websocket_messages_in_total", "counter", "messages", (), "Messages received from WebSocket producers."),
    Metric(
        "magnetar_websocket_messages_out_total", "counter", "messages", (), "Messages pushed to WebSocket consumers and readers."
    ),
    # One series per topic, for superusers
    Metric("magnetar_topic_messages_in_total", "counter", "messages", _OF_A_TOPIC, "Messages stored in the topic."),
    Metric("magnetar_topic_bytes_in_total", "counter", "bytes", _OF_A_TOPIC, "Bytes stored in the topic."),
    Metric("magnetar_topic_messages_out_total", "counter", "messages", _OF_A_TOPIC, "Messages sent to the topic's consumers."),
    Metric("magnetar_topic_bytes_out_total", "counter", "bytes", _OF_A_TOPIC, "Bytes sent to the topic's consumers."),
    Metric("magnetar_topic_messages_dropped_total", "counter", "messages", _OF_A_TOPIC, "Messages that no consumer could take."),
    Metric("magnetar_topic_storage_bytes", "gauge", "bytes", _OF_A_TOPIC, "Bytes that the topic occupies in storage."),
    Metric(
        "magnetar_topics_left_out", "gauge", "topics", (), "Loaded topics without their own series, because there are too many."
    ),
    Metric("magnetar_topic_producers", "gauge", "producers", _OF_A_TOPIC, "Connected producers of the topic."),
    Metric("magnetar_topic_consumers", "gauge", "consumers", _OF_A_TOPIC, "Connected consumers of the topic."),
    Metric(
        "magnetar_subscription_backlog_entries",
        "gauge",
        "entries",
        (*_OF_A_TOPIC, "subscription"),
        "Entries of the topic that the subscription has not acknowledged.",
    ),
    # The web process
    Metric("magnetar_web_requests_total", "counter", "requests", ("status",), "HTTP requests, by status.", "web"),
    Metric("magnetar_web_audit_failures_total", "counter", "records", (), "Audit records that could not be written.", "web"),
    Metric("magnetar_web_live_connections", "gauge", "connections", (), "Open live views of the console.", "web"),
    Metric("magnetar_web_feed_version", "gauge", "", (), "Newest version of the control-plane feed.", "web"),
    # Processes as the supervisor reports them; absent without a supervisor
    Metric("magnetar_child_up", "gauge", "", ("child",), "1 if the process is ready, else 0.", "web"),
    Metric("magnetar_child_restarts_total", "counter", "restarts", ("child",), "Restarts of the process.", "web"),
    Metric(
        "magnetar_last_backup_seconds",
        "gauge",
        "s",
        (),
        "Moment of the last backup of this data directory, in seconds since 1970; absent if none is known of.",
        "web",
    ),
)
METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}


def families(samples: Iterable[Sample], *, private: bool) -> Iterator[Family]:
    """The samples by metric, in the order of the table; private metrics only if `private`. Raises `KeyError` for unknown names,
    `ValueError` where labels are missing or too many."""
    grouped: dict[str, list[Sample]] = {}
    for sample in samples:
        grouped.setdefault(sample.name, []).append(sample)
    unknown = grouped.keys() - METRICS.keys()
    if unknown:
        raise KeyError(f"not in messaging.metrics.METRICS: {sorted(unknown)}")
    for metric in _TABLE:
        if metric.name in grouped and (private or not metric.private):
            yield _family(metric, grouped[metric.name])


def _family(metric: Metric, samples: list[Sample]) -> Family:
    counter = metric.kind == "counter"
    make = CounterMetricFamily if counter else GaugeMetricFamily
    family = make(metric.name.removesuffix("_total") if counter else metric.name, metric.meaning, labels=metric.labels)
    for sample in samples:
        if len(sample.labels) != len(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.labels}, not {sample.labels}")
        family.add_metric(sample.labels, sample.value)
    return family


class _Samples(Collector):
    def __init__(self, families: list[Family]) -> None:
        self._found = families

    def collect(self) -> Iterable[Family]:
        return self._found


def exposition(samples: Iterable[Sample], *, private: bool) -> bytes:
    """Prometheus's text format, UTF-8; its content type is `CONTENT_TYPE`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(list(families(samples, private=private))))
    return generate_latest(registry)
