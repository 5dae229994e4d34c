"""Prometheus's files, as YAML: the rules, their tests for `promtool test rules`, and a configuration that scrapes the platform."""

from __future__ import annotations

from typing import Any

import yaml

from docs.monitoring.alerts import ALERTS, GUIDE, Alert, Example

NOTE = "# Generated from docs/monitoring/ by `make docs`. Edit the source, not this file.\n"
RUNBOOKS = "/docs/operators-guide"  # served by the platform itself
_EVERY = "1m"
_MORE = """# A job for the brokers (each one's WebSocket port) and one for the web process; the alerts know them by these names.
# Series of topics and subscriptions are only for superusers. To have them, add to the first job:
#   authorization: {credentials_file: /etc/prometheus/magnetar.token}
"""


def rules() -> str:
    """For `rule_files` of Prometheus."""
    return NOTE + _yaml({"groups": [{"name": "magnetar", "rules": [_rule(alert) for alert in ALERTS]}]})


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": _annotations(alert, alert.summary),
    }


def _annotations(alert: Alert, summary: str) -> dict[str, str]:
    return {"summary": summary, "runbook": f"{GUIDE}#{alert.anchor}", "runbook_path": f"{RUNBOOKS}#{alert.anchor}"}


def tests() -> str:
    """Each alert fires in its example, and not where all is well."""
    cases = [case for alert in ALERTS for case in (_case(alert, fires=True), _case(alert, fires=False))]
    return NOTE + _yaml({"rule_files": ["magnetar.rules.yml"], "evaluation_interval": _EVERY, "tests": cases})


def _case(alert: Alert, *, fires: bool) -> dict[str, Any]:
    example: Example = alert.example
    series = example.series if fires else example.well
    fired = {"exp_labels": {"severity": alert.severity, **example.labels}, "exp_annotations": _annotations(alert, example.says)}
    return {
        "name": f"{alert.name} {'fires' if fires else 'does not fire'}",
        "interval": _EVERY,
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": example.at, "alertname": alert.name, "exp_alerts": [fired] if fires else []}],
    }


def scraping() -> str:
    """A configuration of Prometheus to begin with: one machine with the ports of a platform that has no settings."""
    return (
        NOTE
        + _MORE
        + _yaml(
            {
                "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
                "rule_files": ["magnetar.rules.yml"],
                "scrape_configs": [
                    {"job_name": "magnetar-broker", "static_configs": [{"targets": ["127.0.0.1:8081"]}]},
                    {"job_name": "magnetar-web", "static_configs": [{"targets": ["127.0.0.1:8080"]}]},
                ],
            }
        )
    )


def _yaml(content: Any) -> str:
    return yaml.safe_dump(content, sort_keys=False, width=132, allow_unicode=True)
