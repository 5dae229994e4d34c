"""Grafana's dashboard: every metric of the registry is in a panel. Those that are worth a look every day come first; the others are
in rows by what they are about, folded, one panel each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from messaging.metrics import METRICS, Metric

UID = "magnetar"
SCHEMA_VERSION = 36  # of Grafana 9 and newer, which read older ones too
DATA = {"type": "prometheus", "uid": "${data}"}
WIDTH, HEIGHT, PANEL_WIDTH = 24, 8, 8
_UNITS = {"bytes": "bytes", "s": "s", "": "none"}
# Rows of metrics by the beginning of their names; the first that fits counts.
ROWS = {
    "Topics": ("magnetar_topic", "magnetar_subscription"),
    "HTTP and WebSockets": ("magnetar_http", "magnetar_websocket", "magnetar_web_"),
    "Memory": ("magnetar_memory", "magnetar_resident", "magnetar_sources", "magnetar_throttled"),
    "Storage": (
        "magnetar_log",
        "magnetar_storage",
        "magnetar_metadata",
        "magnetar_catch_up",
        "magnetar_cursors",
        "magnetar_last_backup",
    ),
    "Connections": ("magnetar_connections", "magnetar_requests", "magnetar_producers", "magnetar_consumers"),
    "Everything else": ("magnetar_",),
}


class Graph(NamedTuple):
    """`queries`: expression and legend of each."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str
    description: str


def _by_instance(title: str, expression: str, unit: str, description: str) -> Graph:
    return Graph(title, ((expression, "{{instance}}"),), unit, description)


_RANGE = "[$__rate_interval]"
FIRST: tuple[Graph, ...] = (
    Graph(
        "Messages a second",
        (
            (f"sum(rate(magnetar_messages_in_total{_RANGE}))", "in"),
            (f"sum(rate(magnetar_messages_out_total{_RANGE}))", "out"),
            (f"sum(rate(magnetar_acknowledgements_total{_RANGE}))", "acknowledged"),
        ),
        "cps",
        "Stored, sent to consumers (redeliveries included) and acknowledged, over all brokers.",
    ),
    Graph(
        "Bytes a second",
        ((f"sum(rate(magnetar_bytes_in_total{_RANGE}))", "in"), (f"sum(rate(magnetar_bytes_out_total{_RANGE}))", "out")),
        "Bps",
        "Of messages, as producers sent them.",
    ),
    _by_instance(
        "A sync of the log",
        f"rate(magnetar_log_sync_seconds_total{_RANGE}) / rate(magnetar_log_syncs_total{_RANGE})",
        "s",
        "Mean. Every receipt waits for one; the figure is empty while nothing is written.",
    ),
    _by_instance("Brokers that are ready", "magnetar_ready", "none", "1: accepts traffic."),
    _by_instance(
        "Memory budget in use",
        "magnetar_memory_budget_used_bytes / magnetar_memory_budget_bytes",
        "percentunit",
        "Near 1 producers are slowed down.",
    ),
    Graph(
        "Refused",
        (
            (f"sum by (code) (rate(magnetar_publish_errors_total{_RANGE}))", "message: {{code}}"),
            (f"sum by (reason) (rate(magnetar_connections_refused_total{_RANGE}))", "connection: {{reason}}"),
            (f"sum by (listener) (rate(magnetar_http_requests_turned_away_total{_RANGE}))", "request: {{listener}}"),
        ),
        "cps",
        "Messages, connections and requests a second, by reason.",
    ),
)


def dashboard() -> str:
    """As Grafana imports it. Which source of data it asks, and which instances, is chosen at its top."""
    panels, place = list[dict[str, Any]](), _Places()
    panels += [place.of(_graph(graph, number + 1), PANEL_WIDTH) for number, graph in enumerate(FIRST)]
    for row, metrics in by_row().items():
        place.new_row()
        panels.append(_folded(row, metrics, len(FIRST) + 1 + 1000 * len(panels), place))
    return (
        json.dumps(
            {
                "uid": UID,
                "title": "Magnetar",
                "description": "Generated from docs/monitoring/ by `make docs`: every metric of messaging/metrics.py.",
                "tags": ["magnetar"],
                "schemaVersion": SCHEMA_VERSION,
                "version": 1,
                "editable": True,
                "refresh": "30s",
                "time": {"from": "now-3h", "to": "now"},
                "timezone": "browser",
                "annotations": {"list": [_alerts_annotation()]},
                "templating": {"list": list(_variables())},
                "panels": panels,
            },
            indent=2,
            ensure_ascii=False,
        )
        + "\n"
    )


def by_row() -> dict[str, list[Metric]]:
    rows: dict[str, list[Metric]] = {row: [] for row in ROWS}
    for metric in METRICS.values():
        row = next(row for row, beginnings in ROWS.items() if metric.name.startswith(beginnings))
        rows[row].append(metric)
    return rows


def expression(metric: Metric) -> str:
    """What a metric's own panel asks for: a counter by its rate, by all labels."""
    selected = f'{metric.name}{{instance=~"$instance"}}'
    by = ", ".join(("instance", *metric.labels))
    return f"sum by ({by}) (rate({selected}{_RANGE}))" if metric.kind == "counter" else f"sum by ({by}) ({selected})"


def unit(metric: Metric) -> str:
    """In Grafana's words."""
    if metric.kind == "counter":
        return {"bytes": "Bps", "s": "percentunit"}.get(metric.unit, "cps")
    if metric.unit == "s":
        return "dateTimeFromNow" if metric.name.endswith("_seconds") else "s"
    return _UNITS.get(metric.unit, "short")


class _Places:
    """Where panels are, from left to right and from top to bottom."""

    def __init__(self) -> None:
        self._left = self._top = 0

    def of(self, panel: dict[str, Any], width: int, height: int = HEIGHT) -> dict[str, Any]:
        if self._left + width > WIDTH:
            self._left, self._top = 0, self._top + height
        panel["gridPos"] = {"x": self._left, "y": self._top, "w": width, "h": height}
        self._left += width
        return panel

    def new_row(self) -> None:
        if self._left:
            self._left, self._top = 0, self._top + HEIGHT


def _folded(title: str, metrics: Iterable[Metric], first_id: int, place: _Places) -> dict[str, Any]:
    row = place.of({"id": first_id, "type": "row", "title": title, "collapsed": True}, WIDTH, 1)
    inside = _Places()
    row["panels"] = [inside.of(_graph(_own(metric), first_id + 1 + number), PANEL_WIDTH) for number, metric in enumerate(metrics)]
    for panel in row["panels"]:
        panel["gridPos"]["y"] += row["gridPos"]["y"] + 1
    return row


def _own(metric: Metric) -> Graph:
    legend = " ".join(f"{{{{{label}}}}}" for label in ("instance", *metric.labels))
    more = " Only superusers see it: Prometheus needs their token." if metric.private else ""
    return Graph(metric.name, ((expression(metric), legend),), unit(metric), metric.meaning + more)


def _graph(graph: Graph, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": graph.title,
        "description": graph.description,
        "datasource": DATA,
        "fieldConfig": {
            "defaults": {"unit": graph.unit, "min": 0, "custom": {"fillOpacity": 8, "showPoints": "never"}},
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": asked, "legendFormat": legend, "datasource": DATA}
            for index, (asked, legend) in enumerate(graph.queries)
        ],
    }


def _alerts_annotation() -> dict[str, Any]:
    return {
        "name": "Alerts",
        "datasource": DATA,
        "enable": True,
        "iconColor": "red",
        "expr": 'ALERTS{alertname=~"Magnetar.*", alertstate="firing"}',
        "titleFormat": "{{alertname}}",
        "step": "60s",
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "data", "type": "datasource", "query": "prometheus", "label": "Data source", "hide": 0, "refresh": 1}
    yield {
        "name": "instance",
        "type": "query",
        "label": "Instance",
        "datasource": DATA,
        "query": {"query": "label_values(magnetar_resident_bytes, instance)", "refId": "instances"},
        "definition": "label_values(magnetar_resident_bytes, instance)",
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
    }
