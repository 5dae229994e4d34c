"""The alerts: an expression over metrics of `messaging/metrics.py`, for how long it has to hold, how much hurry there is.

`page`: somebody is to look now, since clients notice or will soon. `ticket`: somebody is to look in working hours. What a tenant
wants to know of its own topics is no alert of the platform: tenants have rules of their own (docs/api.md).
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

GUIDE = "docs/operators-guide.md"
_METRIC = re.compile(r"\bmagnetar_[a-z0-9_]+")


class Example(NamedTuple):
    """A case in which an alert fires: `series` has what Prometheus calls input series, at every minute. `at`: when it has fired.
    `labels` and `says`: of the alert. `well`: the series of a platform that is well, at which nothing fires."""

    series: dict[str, str]
    well: dict[str, str]
    at: str
    labels: dict[str, str]
    says: str


class Alert(NamedTuple):
    name: str
    severity: Literal["page", "ticket"]
    expression: str
    lasting: str  # as Prometheus writes durations
    summary: str  # may have {{ $labels.x }} and {{ $value }}
    example: Example

    @property
    def metrics(self) -> set[str]:
        return set(_METRIC.findall(self.expression))

    @property
    def anchor(self) -> str:
        """Of its section in the guide."""
        return self.name.lower()


_UP = {"instance": "b:8081", "job": "magnetar-broker"}
_WEB = {"instance": "w:8080", "job": "magnetar-web"}


def _of(name: str, **labels: str) -> str:
    selected = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{selected}}}"


ALERTS: tuple[Alert, ...] = (
    Alert(
        "MagnetarBrokerDown",
        "page",
        'up{job="magnetar-broker"} == 0',
        "1m",
        "{{ $labels.instance }} does not answer Prometheus",
        Example({_of("up", **_UP): "1 0x10"}, {_of("up", **_UP): "1x10"}, "5m", _UP, "b:8081 does not answer Prometheus"),
    ),
    Alert(
        "MagnetarBrokerNotReady",
        "page",
        "magnetar_ready == 0",
        "2m",
        "{{ $labels.instance }} runs and does not accept traffic",
        Example(
            {_of("magnetar_ready", **_UP): "1 0x10"},
            {_of("magnetar_ready", **_UP): "1x10"},
            "6m",
            _UP,
            "b:8081 runs and does not accept traffic",
        ),
    ),
    Alert(
        "MagnetarWebDown",
        "page",
        'up{job="magnetar-web"} == 0',
        "2m",
        "{{ $labels.instance }} does not answer: no console, REST or new keys; messaging goes on",
        Example(
            {_of("up", **_WEB): "1 0x10"},
            {_of("up", **_WEB): "1x10"},
            "6m",
            _WEB,
            "w:8080 does not answer: no console, REST or new keys; messaging goes on",
        ),
    ),
    Alert(
        "MagnetarProcessDown",
        "page",
        "magnetar_child_up == 0",
        "2m",
        "the supervisor of {{ $labels.instance }} has no process {{ $labels.child }} that is ready",
        Example(
            {_of("magnetar_child_up", child="worker", **_WEB): "1 0x10"},
            {_of("magnetar_child_up", child="worker", **_WEB): "1x10"},
            "6m",
            _WEB | {"child": "worker"},
            "the supervisor of w:8080 has no process worker that is ready",
        ),
    ),
    Alert(
        "MagnetarProcessRestarts",
        "ticket",
        "increase(magnetar_child_restarts_total[30m]) > 2",
        "0m",
        "{{ $labels.child }} of {{ $labels.instance }} was restarted {{ $value | humanize }} times in half an hour",
        Example(
            {_of("magnetar_child_restarts_total", child="broker", **_WEB): "0x5 1 2 3 4x30"},
            {_of("magnetar_child_restarts_total", child="broker", **_WEB): "0x5 1x40"},
            "15m",
            _WEB | {"child": "broker"},
            "broker of w:8080 was restarted 4 times in half an hour",
        ),
    ),
    Alert(
        "MagnetarDiskFull",
        "page",
        "magnetar_metadata_reserve_missing_bytes > 0",
        "1m",
        "the disk of {{ $labels.instance }} is full: producers are refused, consumers live on the reserve",
        Example(
            {_of("magnetar_metadata_reserve_missing_bytes", **_UP): "0 4096x10"},
            {_of("magnetar_metadata_reserve_missing_bytes", **_UP): "0x10"},
            "5m",
            _UP,
            "the disk of b:8081 is full: producers are refused, consumers live on the reserve",
        ),
    ),
    Alert(
        "MagnetarTooFewBookies",
        "ticket",
        "magnetar_log_degraded_ledgers > 0",
        "5m",
        "{{ $labels.instance }} writes {{ $value }} ledgers with fewer copies than they should have: too few bookies answer it",
        Example(
            {_of("magnetar_log_degraded_ledgers", **_UP): "0 3x20"},
            {_of("magnetar_log_degraded_ledgers", **_UP): "0 3x3 0x16"},
            "15m",
            _UP,
            "b:8081 writes 3 ledgers with fewer copies than they should have: too few bookies answer it",
        ),
    ),
    Alert(
        "MagnetarStorageDamage",
        "page",
        "increase(magnetar_storage_damage_total[15m]) > 0",
        "0m",
        "{{ $labels.instance }} could not read stored data that {{ $labels.during }} needed, and skipped it",
        Example(
            {_of("magnetar_storage_damage_total", during="delivery", **_UP): "0x3 1x20"},
            {_of("magnetar_storage_damage_total", during="delivery", **_UP): "3x20"},
            "6m",
            _UP | {"during": "delivery"},
            "b:8081 could not read stored data that delivery needed, and skipped it",
        ),
    ),
    Alert(
        "MagnetarSlowDisk",
        "ticket",
        "rate(magnetar_log_sync_seconds_total[10m]) / rate(magnetar_log_syncs_total[10m]) > 0.05",
        "10m",
        "a sync of the log of {{ $labels.instance }} takes {{ $value | humanizeDuration }} on average: every receipt waits for one",
        Example(
            {_of("magnetar_log_sync_seconds_total", **_UP): "0+6x40", _of("magnetar_log_syncs_total", **_UP): "0+60x40"},
            {_of("magnetar_log_sync_seconds_total", **_UP): "0+1x40", _of("magnetar_log_syncs_total", **_UP): "0+600x40"},
            "30m",
            _UP,
            "a sync of the log of b:8081 takes 100ms on average: every receipt waits for one",
        ),
    ),
    Alert(
        "MagnetarMemoryBudgetUsed",
        "ticket",
        "magnetar_memory_budget_used_bytes / magnetar_memory_budget_bytes > 0.9",
        "10m",
        "{{ $labels.instance }} uses {{ $value | humanizePercentage }} of its memory budget: producers are being slowed down",
        Example(
            {_of("magnetar_memory_budget_used_bytes", **_UP): "95x30", _of("magnetar_memory_budget_bytes", **_UP): "100x30"},
            {_of("magnetar_memory_budget_used_bytes", **_UP): "50x30", _of("magnetar_memory_budget_bytes", **_UP): "100x30"},
            "20m",
            _UP,
            "b:8081 uses 95% of its memory budget: producers are being slowed down",
        ),
    ),
    Alert(
        "MagnetarPublishErrors",
        "ticket",
        "sum by (instance, job, code) (rate(magnetar_publish_errors_total[5m])) > 1",
        "5m",
        "{{ $labels.instance }} refuses {{ $value | humanize }} messages a second: {{ $labels.code }}",
        Example(
            {_of("magnetar_publish_errors_total", code="quota_exceeded", **_UP): "0+600x30"},
            {_of("magnetar_publish_errors_total", code="quota_exceeded", **_UP): "0+6x30"},
            "15m",
            _UP | {"code": "quota_exceeded"},
            "b:8081 refuses 10 messages a second: quota_exceeded",
        ),
    ),
    Alert(
        "MagnetarConnectionsRefused",
        "ticket",
        "sum by (instance, job, reason) (rate(magnetar_connections_refused_total[5m])) > 1",
        "10m",
        "{{ $labels.instance }} closes {{ $value | humanize }} connections a second: {{ $labels.reason }}",
        Example(
            {_of("magnetar_connections_refused_total", reason="too many connections", **_UP): "0+600x40"},
            {_of("magnetar_connections_refused_total", reason="too many connections", **_UP): "0+6x40"},
            "25m",
            _UP | {"reason": "too many connections"},
            "b:8081 closes 10 connections a second: too many connections",
        ),
    ),
    Alert(
        "MagnetarBackgroundFailing",
        "ticket",
        "magnetar_background_failing == 1",
        "10m",
        "the background loop {{ $labels.loop }} of {{ $labels.instance }} fails again and again",
        Example(
            {_of("magnetar_background_failing", loop="pull_feed", **_UP): "1x30"},
            {_of("magnetar_background_failing", loop="pull_feed", **_UP): "0x30"},
            "15m",
            _UP | {"loop": "pull_feed"},
            "the background loop pull_feed of b:8081 fails again and again",
        ),
    ),
    Alert(
        "MagnetarFeedBehind",
        "page",
        # What was the newest five minutes ago: a broker that keeps up with many changes is always some behind.
        "scalar(max(magnetar_web_feed_version offset 5m)) - magnetar_feed_version > 0",
        "1m",
        "{{ $labels.instance }} lacks {{ $value }} changes of keys and policies of five minutes ago: a revoked key may still work",
        Example(
            {_of("magnetar_web_feed_version", **_WEB): "10x30", _of("magnetar_feed_version", **_UP): "8x30"},
            {_of("magnetar_web_feed_version", **_WEB): "0+1x30", _of("magnetar_feed_version", **_UP): "0+1x30"},
            "10m",
            _UP,
            "b:8081 lacks 2 changes of keys and policies of five minutes ago: a revoked key may still work",
        ),
    ),
    Alert(
        "MagnetarBrokerUnrecovered",
        "page",
        "magnetar_brokers_unrecovered > 0",
        "2m",
        "{{ $labels.instance }} cannot take over from {{ $value }} brokers that are gone: nobody serves their topics",
        Example(
            {_of("magnetar_brokers_unrecovered", **_UP): "1x30"},
            {_of("magnetar_brokers_unrecovered", **_UP): "0x30"},
            "10m",
            _UP,
            "b:8081 cannot take over from 1 brokers that are gone: nobody serves their topics",
        ),
    ),
    Alert(
        "MagnetarCursorsUnsaved",
        "ticket",
        "magnetar_cursors_unsaved > 0",
        "1h",
        "cursors of {{ $value }} subscriptions of {{ $labels.instance }} could not be saved for an hour",
        Example(
            {_of("magnetar_cursors_unsaved", **_UP): "5x90"},
            {_of("magnetar_cursors_unsaved", **_UP): "0x90"},
            "80m",
            _UP,
            "cursors of 5 subscriptions of b:8081 could not be saved for an hour",
        ),
    ),
    Alert(
        "MagnetarAuditRecordsLost",
        "page",
        "increase(magnetar_web_audit_failures_total[15m]) > 0",
        "0m",
        "{{ $labels.instance }} could not write records to the audit log",
        Example(
            {_of("magnetar_web_audit_failures_total", **_WEB): "0x3 2x20"},
            {_of("magnetar_web_audit_failures_total", **_WEB): "2x20"},
            "6m",
            _WEB,
            "w:8080 could not write records to the audit log",
        ),
    ),
    Alert(
        "MagnetarRequestsTurnedAway",
        "ticket",
        "sum by (instance, job, listener) (rate(magnetar_http_requests_turned_away_total[5m])) > 0.1",
        "10m",
        "{{ $labels.instance }} refuses HTTP requests, because too many wait ({{ $labels.listener }})",
        Example(
            {_of("magnetar_http_requests_turned_away_total", listener="web", lane="people", **_WEB): "0+60x40"},
            {_of("magnetar_http_requests_turned_away_total", listener="web", lane="people", **_WEB): "0x40"},
            "25m",
            _WEB | {"listener": "web"},
            "w:8080 refuses HTTP requests, because too many wait (web)",
        ),
    ),
    Alert(
        "MagnetarBackupOld",
        "ticket",
        "time() - magnetar_last_backup_seconds > 172800",
        "10m",
        "the last backup of {{ $labels.instance }} is {{ $value | humanizeDuration }} old",
        Example(
            {_of("magnetar_last_backup_seconds", **_WEB): "-200000x30"},
            {_of("magnetar_last_backup_seconds", **_WEB): "-100000x30"},
            "20m",
            _WEB,
            "the last backup of w:8080 is 2d 7h 53m 20s old",
        ),
    ),
    Alert(
        "MagnetarBackupUnknown",
        "ticket",
        'up{job="magnetar-web"} == 1 unless on (instance, job) magnetar_last_backup_seconds',
        "1d",
        "no backup of {{ $labels.instance }} is known of",
        Example(
            {_of("up", **_WEB): "1x1500"},
            {_of("up", **_WEB): "1x1500", _of("magnetar_last_backup_seconds", **_WEB): "0+60x1500"},
            "1450m",
            _WEB,
            "no backup of w:8080 is known of",
        ),
    ),
    Alert(
        "MagnetarTopicsNotShown",
        "ticket",
        "magnetar_topics_left_out > 0",
        "1h",
        "{{ $value }} topics of {{ $labels.instance }} have no series of their own",
        Example(
            {_of("magnetar_topics_left_out", **_UP): "5x90"},
            {_of("magnetar_topics_left_out", **_UP): "0x90"},
            "80m",
            _UP,
            "5 topics of b:8081 have no series of their own",
        ),
    ),
)
