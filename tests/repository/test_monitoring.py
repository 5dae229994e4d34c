"""What Prometheus and Grafana are given is made from the registry of metrics, complete, and each alert leads to its runbook."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from docs.generate import MONITORING
from docs.monitoring.alerts import ALERTS, GUIDE, Alert
from docs.monitoring.dashboard import DATA, FIRST, WIDTH, dashboard
from messaging.metrics import METRICS

_NAME = re.compile(r"\bmagnetar_[a-z0-9_]+")
_OVER_TIME = re.compile(r"(?:rate|increase)\((magnetar_[a-z0-9_]+)")


@pytest.mark.parametrize("name", MONITORING)
def test_files_made_from_the_sources_are_up_to_date(repository: Path, name: str) -> None:
    assert (repository / "deploy" / "monitoring" / name).read_text() == MONITORING[name](), "run make docs"


def test_alerts_and_panels_name_only_metrics_that_exist() -> None:
    named = {alert.name: alert.metrics for alert in ALERTS}
    named |= {f"example of {alert.name}": set(_NAME.findall(str(alert.example[:2]))) for alert in ALERTS}
    named |= {graph.title: {name for query, _ in graph.queries for name in _NAME.findall(query)} for graph in FIRST}
    assert {title: names - METRICS.keys() for title, names in named.items() if names - METRICS.keys()} == {}
    assert all(alert.metrics or "up{" in alert.expression for alert in ALERTS)


@pytest.mark.parametrize("text", [*(alert.expression for alert in ALERTS), dashboard()])
def test_only_counters_are_asked_for_their_increase_and_always(text: str) -> None:
    over_time = set(_OVER_TIME.findall(text))
    assert {name for name in over_time if METRICS[name].kind != "counter"} == set()
    counters = {name for name in _NAME.findall(text) if name in METRICS and METRICS[name].kind == "counter"}
    assert counters <= over_time


def panels() -> list[dict[str, Any]]:
    """Rows are among them, and what is in these."""
    outer = json.loads(dashboard())["panels"]
    return [panel for each in outer for panel in (each, *each.get("panels", ()))]


def test_every_metric_has_a_panel() -> None:
    shown = {name for panel in panels() for target in panel.get("targets", ()) for name in _NAME.findall(target["expr"])}
    assert shown == METRICS.keys()


def test_the_dashboard_has_the_form_that_grafana_reads() -> None:
    whole, all_panels = json.loads(dashboard()), panels()
    assert {"uid", "title", "schemaVersion", "panels", "templating", "time", "annotations"} <= whole.keys()
    numbers = [panel["id"] for panel in all_panels]
    assert len(numbers) == len(set(numbers))
    for panel in all_panels:
        place = panel["gridPos"]
        assert place.keys() == {"x", "y", "w", "h"} and place["x"] + place["w"] <= WIDTH
        assert panel["type"] in ("row", "timeseries") and panel["title"]
        if panel["type"] == "timeseries":
            assert panel["datasource"] == DATA and panel["description"] and panel["fieldConfig"]["defaults"]["unit"]
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
    taken: set[tuple[int, int, int]] = set()
    for row, inside in enumerate([whole["panels"], *(each.get("panels", []) for each in whole["panels"])]):
        for panel in inside:
            place = panel["gridPos"]
            cells = {
                (row, x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken, f"{panel['title']} lies on another one"
            taken |= cells
    assert {variable["name"] for variable in whole["templating"]["list"]} == {"data", "instance"}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_a_runbook(repository: Path, alert: Alert) -> None:
    sections = re.split(r"^### ", (repository / GUIDE).read_text(), flags=re.MULTILINE)[1:]
    (section,) = [section for section in sections if section.partition("\n")[0] == alert.name]
    assert len(section.split()) > 25
    assert alert.lasting and alert.summary and alert.severity in ("page", "ticket")


def test_every_runbook_is_of_an_alert(repository: Path) -> None:
    headings = set(re.findall(r"^### (Magnetar\w+)$", (repository / GUIDE).read_text(), flags=re.MULTILINE))
    assert headings == {alert.name for alert in ALERTS}


def test_prometheus_takes_the_files_and_each_alert_fires_where_it_should(repository: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool: apt-get install prometheus")
    folder = repository / "deploy" / "monitoring"
    for command in (
        ["check", "rules", "magnetar.rules.yml"],
        ["test", "rules", "magnetar.rules.test.yml"],
        ["check", "config", "prometheus.yml"],
    ):
        done = subprocess.run(["promtool", *command], cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
