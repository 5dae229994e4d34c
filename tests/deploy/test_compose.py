"""The compose file: valid, and what it says is what the platform understands."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.release.archives import version
from messaging.settings import load
from tests.deploy.installed import COMPOSE, installed


@pytest.fixture(scope="module")
def model(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """As engines see it: checked against the schema of compose files and for names that are nowhere."""
    text = (repository / "deploy" / "compose" / "compose.yaml").read_text().replace(":?set it in .env", ":-secret")
    place = tmp_path_factory.mktemp("compose") / "compose.yaml"
    place.write_text(text)
    done = subprocess.run([installed(COMPOSE), "-format", "json", str(place)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def test_what_is_not_valid_is_refused(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {a: {image: b, portz: []}}")
    done = subprocess.run([installed(COMPOSE), str(tmp_path / "compose.yaml")], capture_output=True, text=True)
    assert done.returncode != 0 and "portz" in done.stderr


def test_passwords_have_to_be_set(repository: Path) -> None:
    path = repository / "deploy" / "compose" / "compose.yaml"
    done = subprocess.run([installed(COMPOSE), str(path)], capture_output=True, text=True)
    assert done.returncode != 0 and "required variable POSTGRES_PASSWORD is missing a value: set it in .env" in done.stderr
    example = (path.parent / "example.env").read_text().splitlines()
    assert {"POSTGRES_PASSWORD=", "REDIS_PASSWORD="} <= set(example)


def test_settings_are_those_that_the_platform_knows(model: dict[str, Any]) -> None:
    processes = {name: value for name, value in model["services"].items() if value["image"].startswith("magnetar:")}
    assert set(processes) == {"secrets", "broker-1", "broker-2", "web", "worker"}
    for name in ("broker-1", "broker-2", "web", "worker"):
        settings = load(processes[name]["environment"])
        assert settings.shared_storage and settings.internal_tls and not settings.anonymous_public
        assert settings.broker_rpc_urls == ("https://broker-1:7650", "https://broker-2:7650")
    brokers = {name: load(processes[name]["environment"]) for name in ("broker-1", "broker-2")}
    assert {settings.broker_id for settings in brokers.values()} == set(brokers)
    for name, settings in brokers.items():
        published = {int(port["published"]): port["target"] for port in processes[name]["ports"]}
        assert published[settings.broker_port] == settings.broker_port, "clients are sent to this port from wherever they are"
        assert settings.client_host == name == processes[name]["hostname"]


def test_processes_share_what_they_have_to_and_nothing_else(model: dict[str, Any]) -> None:
    mounts = {
        name: {mount["target"].removeprefix("/var/lib/magnetar"): mount["source"] for mount in service.get("volumes", ())}
        for name, service in model["services"].items()
    }
    for name in ("broker-1", "broker-2", "web", "worker"):
        assert mounts[name][""] == name, "a data directory of its own"
        assert (mounts[name]["/secrets"], mounts[name]["/tls"]) == ("secrets", "tls")
        assert model["services"][name]["depends_on"]["secrets"]["condition"] == "service_completed_successfully"
        assert ("/usage" in mounts[name]) == (name in ("web", "worker")), "workers take the usage of brokers over the admin RPC"
    assert mounts["web"]["/usage"] == mounts["worker"]["/usage"] == "usage"
    assert mounts["web"]["/reports"] == mounts["worker"]["/reports"] == "reports"


def test_processes_may_do_nothing_that_they_need_not(model: dict[str, Any]) -> None:
    for name in ("broker-1", "broker-2", "web", "worker", "secrets"):
        service = model["services"][name]
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and "no-new-privileges:true" in service["security_opt"]
        assert service["image"] == f"magnetar:{version()}"


def test_bookies_are_started_on_request(model: dict[str, Any]) -> None:
    asked_for = {name for name, service in model["services"].items() if service.get("profiles") == ["bookkeeper"]}
    assert asked_for == {"zookeeper", "bookie-1", "bookie-2", "bookie-3"}
    assert model["services"]["broker-1"].get("profiles") is None
