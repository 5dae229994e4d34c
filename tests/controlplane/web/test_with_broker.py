"""Web process and broker together: what the REST API promises, a broker holds by the time of the answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from messaging.identity import create_secrets, read_secret
from messaging.settings import Settings
from tests.support.waiting import eventually_sync

Call = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Call]:
    """HTTP as the superuser, against a web process and a broker on free ports."""
    path: Path = tmp_path_factory.mktemp("pair")
    settings = Settings(data_dir=str(path))
    create_secrets(settings)
    (path / "run").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAGNETAR_", "DJANGO_"))}
    environment |= {"MAGNETAR_DATA_DIR": str(path)}
    environment |= {f"MAGNETAR_{name}_PORT": "0" for name in ("WEB", "BROKER", "WS")}
    modules = {"broker": "messaging.broker", "web": "controlplane.web"}
    processes = {
        name: subprocess.Popen([sys.executable, "-P", "-m", module], env=environment, stderr=subprocess.DEVNULL)
        for name, module in modules.items()
    }
    try:
        for name, process in processes.items():
            announcement = path / "run" / f"{name}.json"
            eventually_sync(partial(_there_or_ended, announcement, process), 60)
            assert process.poll() is None, f"{name} ended with {process.returncode}"
        url = json.loads((path / "run" / "web.json").read_text())["web_url"]
        token = read_secret(settings, "superuser.token")

        def make(method: str, target: str, body: Any = None) -> tuple[int, Any]:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(url + target, method=method, data=data, headers=headers)
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    content = response.read()
                    return response.status, json.loads(content) if content[:1] in b"{[" and content else content
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.loads(error.read())

        yield make
    finally:
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        codes = {name: process.wait(20) for name, process in processes.items()}
    assert codes == {"broker": 0, "web": 0}


def test_from_tenant_to_topic_and_back(call: Call) -> None:
    topic = "/admin/v2/persistent/acme/orders"
    assert call("PUT", "/admin/v2/tenants/acme", {"allowedClusters": ["standalone"]})[0] == 204
    assert call("PUT", "/admin/v2/namespaces/acme/orders")[0] == 204
    assert call("POST", "/admin/v2/namespaces/acme/orders/messageTTL", 60)[0] == 204
    assert call("PUT", f"{topic}/t")[0] == 204
    assert call("PUT", f"{topic}/t")[0] == 409
    assert call("PUT", f"{topic}/p/partitions", 3)[0] == 204
    assert call("GET", f"{topic}/p/partitions")[1]["partitions"] == 3
    assert call("GET", f"{topic}/partitioned") == (200, ["persistent://acme/orders/p"])
    assert len(call("GET", topic)[1]) == 4
    listed = call("GET", "/api/v1/tenants/acme/namespaces/orders/topics")[1]["items"]
    assert [(row["topic"], row["partitions"]) for row in listed] == [
        ("persistent://acme/orders/p", 3),
        ("persistent://acme/orders/t", 0),
    ]
    assert call("GET", f"{topic}/t/stats")[1]["msgInCounter"] == 0
    assert call("PUT", f"{topic}/t/subscription/s")[0] == 204
    assert call("GET", f"{topic}/t/subscriptions") == (200, ["s"])
    assert call("DELETE", f"{topic}/t/subscription/s")[0] == 204
    assert call("PUT", f"{topic}/t/subscription/other")[0] == 204
    assert call("DELETE", f"{topic}/t")[0] == 204, "with its subscription, which has no consumers"
    assert call("GET", f"{topic}/t/stats")[0] == 404
    assert call("DELETE", "/admin/v2/namespaces/acme/orders")[0] == 409
    assert call("DELETE", "/admin/v2/namespaces/acme/orders?force=true")[0] == 204
    assert call("DELETE", "/admin/v2/tenants/acme")[0] == 204


def test_auto_creation_is_off_when_the_call_that_turns_it_off_answers(call: Call) -> None:
    new = "/admin/v2/persistent/public/default/new/partitions?checkAllowAutoCreation=true"
    at = "/admin/v2/namespaces/public/default/autoTopicCreation"
    for _ in range(3):
        assert call("GET", new)[0] == 200
        assert call("POST", at, {"allowAutoTopicCreation": False})[0] == 204
        assert call("GET", new)[0] == 404
        assert call("DELETE", at)[0] == 204


def test_the_broker_is_healthy(call: Call) -> None:
    assert call("GET", "/admin/v2/brokers/health") == (200, b"ok")


def _there_or_ended(file: Path, process: subprocess.Popen[bytes]) -> bool:
    return file.exists() or process.poll() is not None
