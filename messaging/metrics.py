"""Every metric of the platform, once: its kind, unit, labels and meaning. `docs/metrics.md` is made from this table.

Counters are plain integers on the objects that count; a process gives them out as `Sample`s, and `exposition` makes Prometheus's
text of them. A sample whose name is not in the table is an error. Metrics with a label that names something of a tenant are
*private*: only a superuser sees them.
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
    """`name` is what a scrape shows; a counter's ends in ``_total``. `process` is who gives it out."""

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
    Metric("magnetar_build_info", "gauge", "", ("version", "hot_loops"), "Always 1; which version runs, and whether compiled."),
    Metric("magnetar_ready", "gauge", "", (), "1 if the broker takes traffic, else 0."),
    Metric("magnetar_start_time_seconds", "gauge", "s", (), "When the broker started, in seconds since 1970."),
    Metric("magnetar_feed_version", "gauge", "", (), "Version of the control plane's snapshot that the broker holds."),
    Metric(
        "magnetar_feed_changes_ignored_total",
        "counter",
        "changes",
        (),
        "Changes of the control plane of a kind that this release does not know.",
    ),
    Metric(
        "magnetar_feed_pages_refused_total", "counter", "pages", (), "Malformed pages of the control plane's changes, not taken."
    ),
    Metric("magnetar_resident_bytes", "gauge", "bytes", (), "Resident memory of the process."),
    Metric("magnetar_memory_budget_bytes", "gauge", "bytes", (), "What buffers, caches and queues may use together."),
    Metric("magnetar_memory_budget_used_bytes", "gauge", "bytes", (), "What of that they use."),
    Metric(
        "magnetar_memory_account_bytes",
        "gauge",
        "bytes",
        ("account",),
        "What one use of memory holds: ingress (not durable), egress (not read by peers), catch_up (read for them), "
        "sessions (names, properties and requests of clients), cursors (acknowledged out of order), "
        "records (deduplication and audit events), tail.",
    ),
    Metric("magnetar_memory_account_limit_bytes", "gauge", "bytes", ("account",), "The most that it may hold."),
    Metric("magnetar_sources_paused", "gauge", "connections", (), "Connections and WebSockets that wait before they are read."),
    Metric("magnetar_catch_up_reads_total", "counter", "reads", (), "Reads of the log for consumers that are behind."),
    Metric("magnetar_catch_up_reads_shared_total", "counter", "reads", (), "Times one of them found what was read for another."),
    Metric("magnetar_catch_up_reads_waiting", "gauge", "reads", (), "Reads that wait for memory or for their turn."),
    # What the broker does by itself
    Metric(
        "magnetar_background_failures_total",
        "counter",
        "failures",
        ("loop",),
        "Times that a background loop met what it did not expect; it goes on, and the log has the traceback.",
    ),
    Metric("magnetar_background_failing", "gauge", "", ("loop",), "1 if the loop has failed and not succeeded since, else 0."),
    Metric(
        "magnetar_background_last_success_seconds",
        "gauge",
        "s",
        ("loop",),
        "When the loop last did all its work, in seconds since 1970; 0 where it had nothing to do since the start.",
    ),
    # Connections of the binary protocol
    Metric("magnetar_connections", "gauge", "connections", (), "Open connections of the binary protocol."),
    Metric("magnetar_connections_opened_total", "counter", "connections", (), "Connections accepted since the start."),
    Metric(
        "magnetar_connections_refused_total", "counter", "connections", ("reason",), "Connections ended by the broker, by reason."
    ),
    Metric("magnetar_connections_unauthenticated", "gauge", "connections", (), "Those of all kinds that have not signed in yet."),
    Metric(
        "magnetar_connections_deferred_total",
        "counter",
        "times",
        (),
        "Times that a connection had more to do than a turn of the loop allows, and waited for another.",
    ),
    Metric("magnetar_requests_pending", "gauge", "requests", (), "Requests of the binary protocol that are not answered yet."),
    Metric("magnetar_requests_pending_bytes", "gauge", "bytes", (), "What they hold."),
    # Topics and traffic
    Metric("magnetar_topics_loaded", "gauge", "topics", (), "Topics held in memory."),
    Metric("magnetar_producers", "gauge", "producers", (), "Attached producers."),
    Metric("magnetar_consumers", "gauge", "consumers", (), "Attached consumers."),
    Metric("magnetar_messages_in_total", "counter", "messages", (), "Messages stored and receipted."),
    Metric("magnetar_bytes_in_total", "counter", "bytes", (), "Bytes of them, as sent by the producers."),
    Metric("magnetar_messages_out_total", "counter", "messages", (), "Messages handed to consumers, redeliveries included."),
    Metric("magnetar_bytes_out_total", "counter", "bytes", (), "Bytes of them."),
    Metric("magnetar_acknowledgements_total", "counter", "messages", (), "Messages acknowledged."),
    Metric("magnetar_publish_errors_total", "counter", "messages", ("code",), "Messages refused, by the code of the error."),
    # The audit log
    Metric(
        "magnetar_audit_events_total",
        "counter",
        "events",
        (),
        "Refusals of clients, and what clients did to subscriptions, for the audit log.",
    ),
    Metric("magnetar_audit_events_further_total", "counter", "events", (), "Those of them that were only counted: too many came."),
    Metric(
        "magnetar_audit_events_pending", "gauge", "events", (), "Those not in the audit log yet: a broker that stops loses them."
    ),
    # Storage
    Metric(
        "magnetar_cursors_unsaved",
        "gauge",
        "subscriptions",
        (),
        "Subscriptions whose acknowledgements are durable in the cursor log only, because the last saving of their cursor failed.",
    ),
    Metric("magnetar_log_syncs_total", "counter", "syncs", (), "Times that commits of the log were forced to disk."),
    Metric(
        "magnetar_log_sync_seconds_total",
        "counter",
        "s",
        (),
        "Time that took, with the writing before it: over the number of times, what a commit waits for the disk.",
    ),
    Metric("magnetar_log_written_bytes_total", "counter", "bytes", (), "Bytes of commits written to the log, overhead included."),
    Metric("magnetar_log_segments", "gauge", "files", (), "Segment files of the log."),
    Metric("magnetar_log_bytes", "gauge", "bytes", (), "Size of them: what lives, and what was not reclaimed yet."),
    Metric(
        "magnetar_metadata_reserve_missing_bytes",
        "gauge",
        "bytes",
        (),
        "What is missing of the disk space kept for metadata: above 0 the disk is full, or was a moment ago or at the start.",
    ),
    Metric(
        "magnetar_storage_damage_total",
        "counter",
        "",
        ("during",),
        "Times that something stored could not be read and was passed over, by what needed it: delivery (a message is not "
        "delivered), deduplication (a message sent again may be stored again), ledger (all messages in it are lost), "
        "cursor (what was acknowledged is delivered again), segment (a part of the log was damaged when it was opened).",
    ),
    # HTTP and WebSocket listeners of the broker
    Metric(
        "magnetar_http_requests_total", "counter", "requests", ("path", "status"), "HTTP requests answered, by route and status."
    ),
    # HTTP listeners of the broker (public, rpc) and of the web process (web, web-internal)
    Metric("magnetar_http_connections", "gauge", "connections", _LISTENER, "Open connections, WebSockets included."),
    Metric("magnetar_http_connections_made_room_total", "counter", "connections", _LISTENER, "Closed while at rest, for others."),
    Metric("magnetar_http_connections_turned_away_total", "counter", "connections", _LISTENER, "Closed at once: all were at work."),
    Metric("magnetar_http_connections_unread_total", "counter", "connections", _LISTENER, "Cut off with answers not read."),
    Metric("magnetar_http_unread_bytes", "gauge", "bytes", _LISTENER, "What waits for peers that are slow to read answers."),
    Metric("magnetar_http_requests_running", "gauge", "requests", _LANE, "Requests worked on, until they are answered."),
    Metric("magnetar_http_requests_waiting", "gauge", "requests", _LANE, "Requests that wait for their turn."),
    Metric("magnetar_http_requests_turned_away_total", "counter", "requests", _LANE, "Told to come again: too many wait."),
    Metric("magnetar_http_bodies_waiting_bytes", "gauge", "bytes", _LISTENER, "Bodies of requests that wait for their turn."),
    Metric("magnetar_http_bodies_turned_away_total", "counter", "requests", _LISTENER, "Told to come again: no memory."),
    Metric("magnetar_websocket_connections", "gauge", "connections", ("endpoint",), "Open connections of the WebSocket API."),
    Metric("magnetar_websocket_opened_total", "counter", "connections", ("endpoint",), "WebSocket connections accepted."),
    Metric(
        "magnetar_websocket_refused_total", "counter", "connections", ("endpoint", "status"), "Upgrades refused, by HTTP status."
    ),
    Metric("magnetar_websocket_messages_in_total", "counter", "messages", (), "Messages received from WebSocket producers."),
    Metric(
        "magnetar_websocket_messages_out_total", "counter", "messages", (), "Messages pushed to WebSocket consumers and readers."
    ),
    # One series a topic, for superusers
    Metric("magnetar_topic_messages_in_total", "counter", "messages", _OF_A_TOPIC, "Messages stored in the topic."),
    Metric("magnetar_topic_bytes_in_total", "counter", "bytes", _OF_A_TOPIC, "Bytes of them."),
    Metric("magnetar_topic_messages_out_total", "counter", "messages", _OF_A_TOPIC, "Messages handed to the topic's consumers."),
    Metric("magnetar_topic_bytes_out_total", "counter", "bytes", _OF_A_TOPIC, "Bytes of them."),
    Metric("magnetar_topic_storage_bytes", "gauge", "bytes", _OF_A_TOPIC, "Stored bytes of the topic."),
    Metric(
        "magnetar_topics_left_out", "gauge", "topics", (), "Loaded topics that have no series of their own, for being too many."
    ),
    Metric("magnetar_topic_producers", "gauge", "producers", _OF_A_TOPIC, "Producers attached to the topic."),
    Metric("magnetar_topic_consumers", "gauge", "consumers", _OF_A_TOPIC, "Consumers attached to the topic."),
    Metric(
        "magnetar_subscription_backlog_entries",
        "gauge",
        "entries",
        (*_OF_A_TOPIC, "subscription"),
        "Entries of the topic that the subscription has not acknowledged.",
    ),
    # The web process
    Metric("magnetar_web_requests_total", "counter", "requests", ("status",), "HTTP requests answered, by status.", "web"),
    Metric("magnetar_web_audit_failures_total", "counter", "records", (), "Records that the audit log did not take.", "web"),
    Metric("magnetar_web_live_connections", "gauge", "connections", (), "Open live views of the console.", "web"),
    Metric("magnetar_web_feed_version", "gauge", "", (), "Newest version of the control plane's feed.", "web"),
    Metric("magnetar_web_feed_confirmed_version", "gauge", "", (), "Version of it that the broker confirmed last.", "web"),
    # The processes under one supervisor, as it reports them; nothing where there is none
    Metric("magnetar_child_up", "gauge", "", ("child",), "1 if the process serves, else 0.", "web"),
    Metric("magnetar_child_restarts_total", "counter", "restarts", ("child",), "Times the process was started again.", "web"),
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
    def __init__(self, found: list[Family]) -> None:
        self._found = found

    def collect(self) -> Iterable[Family]:
        return self._found


def exposition(samples: Iterable[Sample], *, private: bool) -> bytes:
    """Prometheus's text format, UTF-8; its content type is `CONTENT_TYPE`."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(list(families(samples, private=private))))
    return generate_latest(registry)


def render_markdown() -> str:
    """The table as the page `docs/metrics.md`."""
    lines = [
        "# Metrics",
        "",
        "`GET /metrics` on the broker (its WebSocket port) and on the web process answers in Prometheus's text format.",
        "Metrics marked *private* name tenants' things: they are only in the answer if the request carries a superuser token",
        "(`Authorization: Bearer ...`).",
    ]
    for process, title in (("broker", "Broker"), ("web", "Web process")):
        lines += ["", f"## {title}", "", "| metric | kind | unit | labels | meaning |", "| --- | --- | --- | --- | --- |"]
        for metric in _TABLE:
            if metric.process == process:
                labels = ", ".join(metric.labels) + (" (*private*)" if metric.private else "")
                lines.append(f"| `{metric.name}` | {metric.kind} | {metric.unit} | {labels} | {metric.meaning} |")
    return "\n".join(lines) + "\n"
