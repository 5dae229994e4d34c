"""A real Prometheus scrapes a real platform: it takes the rules, every expression of the dashboard, and an alert fires and ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.monitoring.alerts import ALERTS
from docs.monitoring.dashboard import dashboard
from tests.compat.stock import Stock, receive
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("platforms"), pytest.mark.standalone]
BROKERS = 2


class Prometheus:
    def __init__(self, folder: Path, configuration: Any, rules: Path) -> None:
        folder.mkdir()
        shutil.copy(rules, folder / rules.name)
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
        self._output = (folder / "output").open("wb")
        self.process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self._output, stderr=self._output
        )

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer. Raises `OSError` while it is starting, and for an expression that it refuses."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as response:
            return json.loads(response.read())["data"]

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        self._output.close()


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Standalone]:
    made = Standalone(tmp_path / "data", "--brokers", str(BROKERS))
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def prometheus(tmp_path: Path, platform: Standalone, repository: Path) -> Iterator[Prometheus]:
    """Of the configuration that is delivered, with this platform's ports, a scrape every second, and rules that do not wait."""
    if shutil.which("prometheus") is None:
        pytest.skip("no Prometheus: apt-get install prometheus")
    folder = repository / "deploy" / "monitoring"
    configuration = yaml.safe_load((folder / "prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    brokers, web = configuration["scrape_configs"]
    files = [platform.folder / "run" / ("broker.json" if number == 1 else f"broker-{number}.json") for number in (1, BROKERS)]
    brokers["static_configs"] = [{"targets": [_target(json.loads(file.read_text())["ws_url"]) for file in files]}]
    brokers["authorization"] = {"credentials_file": str(platform.folder / "secrets" / "superuser.token")}
    web["static_configs"] = [{"targets": [_target(platform.ready["web_url"])]}]
    rules = tmp_path / "magnetar.rules.yml"
    rules.write_text((folder / rules.name).read_text().replace("for: 1m", "for: 1s").replace("for: 2m", "for: 1s"))
    made = Prometheus(tmp_path / "prometheus", configuration, rules)
    try:
        yield made
    finally:
        made.close()


def _target(url: str) -> str:
    return urllib.parse.urlsplit(url).netloc


def _asked(make: Any) -> Any:
    """What `make` returns, once Prometheus answers."""
    try:
        return make()
    except (OSError, urllib.error.URLError):
        return None


@pytest.mark.timeout(180)
def test_it_scrapes_shows_and_alerts(platform: Standalone, prometheus: Prometheus, tmp_path: Path) -> None:
    stock = Stock(platform.ready["broker_url"], tmp_path / "client.log")
    try:
        client = stock.client()
        consumer = client.subscribe("persistent://public/default/watched", "sub")
        producer = client.create_producer("persistent://public/default/watched")
        for number in range(50):
            producer.send(b"%d" % number)
        receive(consumer, 50)
    finally:
        stock.close()
    targets = lambda: {each["labels"]["instance"]: each["health"] for each in prometheus.ask("targets")["activeTargets"]}  # noqa: E731
    eventually_sync(lambda: list((_asked(targets) or {}).values()) == ["up"] * (BROKERS + 1), 60)
    eventually_sync(lambda: prometheus.ask("query", query="sum(magnetar_messages_in_total) >= 50")["result"], 30)
    (group,) = prometheus.ask("rules")["groups"]
    assert [rule["name"] for rule in group["rules"]] == [alert.name for alert in ALERTS]
    eventually_sync(lambda: all(rule["health"] == "ok" for rule in prometheus.ask("rules")["groups"][0]["rules"]), 30)

    def empty() -> list[str]:
        return [name for name, expression in _expressions() if not prometheus.ask("query", query=expression)["result"]]

    # What counts something that has not happened, is not known, or is of brokers over shared storage alone, has no series here.
    eventually_sync(lambda: not [name for name in empty() if not name.endswith("_total") and name not in NOT_YET], 30)

    broker = platform.child(f"broker-{BROKERS}")
    for name in ("MagnetarBrokerDown", "MagnetarBrokerNotReady"):
        assert not prometheus.ask("query", query=f'ALERTS{{alertname="{name}", alertstate="firing"}}')["result"]

    os.kill(broker["pid"], signal.SIGSTOP)  # the supervisor does not notice, Prometheus does
    try:
        firing = 'ALERTS{alertname="MagnetarBrokerDown", alertstate="firing"}'
        (alert,) = eventually_sync(lambda: prometheus.ask("query", query=firing)["result"], 60)
        assert alert["metric"]["severity"] == "page"
    finally:
        os.kill(broker["pid"], signal.SIGCONT)
    eventually_sync(lambda: not prometheus.ask("query", query=firing)["result"], 60)


NOT_YET = {"magnetar_brokers_unrecovered", "magnetar_last_backup_seconds", "magnetar_websocket_connections", "Refused"}


def _expressions() -> Iterator[tuple[str, str]]:
    """Of each panel, as Grafana would ask."""
    for outer in json.loads(dashboard())["panels"]:
        for panel in (outer, *outer.get("panels", ())):
            for target in panel.get("targets", ()):
                yield panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")
