"""The chart: rendered by helm, valid for Kubernetes, and what it says is what the platform understands."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from messaging.settings import Settings, load
from tests.deploy.installed import HELM, installed

LEAST = (
    "image.repository=registry.example.com/magnetar",
    "secretName=fleet",
    "urlsSecretName=urls",
    "sharedStorage.existingClaim=shared",
)
VERSIONS = ("1.27", "1.37")  # the oldest that the chart allows, and the newest whose schemas there are
UNKNOWN_KINDS = ("ServiceMonitor",)


@pytest.fixture(scope="module")
def chart(repository: Path) -> Path:
    return repository / "deploy" / "helm" / "magnetar"


def rendered(chart: Path, *arguments: str, version: str = "1.33.0") -> dict[tuple[str, str], dict[str, Any]]:
    """Kind and name -> the object."""
    command = [installed(HELM), "template", "prod", str(chart), "--namespace", "messaging", "--kube-version", version, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    objects = [value for value in yaml.safe_load_all(done.stdout) if value]
    return {(value["kind"], value["metadata"]["name"]): value for value in objects}


def full(chart: Path) -> list[str]:
    return ["--values", str(chart / "ci" / "values.yaml")]


def least() -> list[str]:
    return [part for value in LEAST for part in ("--set", value)]


def pods(objects: dict[tuple[str, str], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Part of the fleet -> the template of its pods."""
    found = {name.rpartition("-")[2]: value for (kind, name), value in objects.items() if kind in ("StatefulSet", "Deployment")}
    return {name: value["spec"]["template"]["spec"] for name, value in found.items()}


def settings_of(pod: dict[str, Any]) -> Settings:
    """As the process reads them; raises `ConfigError`. A Secret's values and what Kubernetes fills in are put in here."""
    given = {"database-url": "postgresql://d", "metadata-url": "postgresql://m", "ledger-url": "postgresql://l"}
    environment: dict[str, str] = {"POD_NAME": "prod-magnetar-broker-1"}
    for entry in pod["containers"][0]["env"]:
        secret = entry.get("valueFrom", {}).get("secretKeyRef")
        text = given.get(secret["key"], "redis://r") if secret else entry.get("value", environment.get(entry["name"], ""))
        environment[entry["name"]] = text.replace("$(POD_NAME)", environment["POD_NAME"])
    return load({name: text for name, text in environment.items() if name != "POD_NAME"})


def test_helm_finds_nothing_to_complain_about(chart: Path) -> None:
    for arguments in (full(chart), least()):
        command = [installed(HELM), "lint", "--strict", "--kube-version", "1.33.0", str(chart), *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 and "1 chart(s) linted, 0 chart(s) failed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_what_it_renders_is_valid_for_kubernetes(chart: Path, version: str) -> None:
    for arguments in (full(chart), least()):
        objects = rendered(chart, *arguments, version=f"{version}.0")
        checked = [value for (kind, _), value in objects.items() if kind not in UNKNOWN_KINDS]
        for value in checked:
            kubernetes_validate.validate(value, version, strict=True)
        assert len(checked) >= 12
    broken = next(value for (kind, _), value in objects.items() if kind == "StatefulSet")
    broken["spec"]["replicaz"] = 3
    with pytest.raises(kubernetes_validate.ValidationError, match="replicaz"):
        kubernetes_validate.validate(broken, version, strict=True)


def test_settings_are_those_that_the_platform_knows(chart: Path) -> None:
    parts = pods(rendered(chart, *full(chart)))
    assert set(parts) == {"broker", "web", "worker"}
    broker, web, worker = (settings_of(parts[name]) for name in ("broker", "web", "worker"))
    assert broker.broker_id == "prod-magnetar-broker-1" and broker.shared_storage and not broker.anonymous_public
    assert broker.client_host == "prod-magnetar-broker-1.prod-magnetar-brokers.messaging.svc.cluster.local"
    assert f"https://{broker.client_host}:7650" in broker.broker_rpc_urls and len(broker.broker_rpc_urls) == 3
    assert web.broker_rpc_url == worker.broker_rpc_url == broker.broker_rpc_url
    assert web.client_host == "console.example.com" and web.trusted_proxies == ("10.0.0.0/8",)
    assert broker.message_ttl_s == 3600 and broker.superuser_roles == ("admin", "ops")
    assert broker.tls == "files" and broker.internal_tls


def test_names_between_processes_are_services_of_the_chart(chart: Path) -> None:
    objects = rendered(chart, *least())
    services = {name: value["spec"] for (kind, name), value in objects.items() if kind == "Service"}
    ports = {name: {port["port"] for port in spec["ports"]} for name, spec in services.items()}
    assert ports["prod-magnetar-web-internal"] == {7651} and 7650 in ports["prod-magnetar-brokers"]
    settings = settings_of(pods(objects)["worker"])
    assert settings.web_internal_url == "https://prod-magnetar-web-internal.messaging.svc.cluster.local:7651"
    assert services["prod-magnetar-brokers"]["publishNotReadyAddresses"], "brokers ask each other before they are ready"
    for spec in services.values():
        selected = [value for value in objects.values() if value["kind"] in ("StatefulSet", "Deployment")]
        labels = [value["spec"]["template"]["metadata"]["labels"] for value in selected]
        assert sum(spec["selector"].items() <= label.items() for label in labels) == 1


def test_brokers_are_probed_and_drained(chart: Path) -> None:
    parts = pods(rendered(chart, *full(chart)))
    broker = parts["broker"]["containers"][0]
    assert broker["livenessProbe"]["httpGet"]["path"] == "/healthz" and broker["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert broker["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert broker["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]
    stopping_s = parts["broker"]["terminationGracePeriodSeconds"]
    assert stopping_s >= 5 + 8 + 5, "the pause, the time that a broker takes to stop, and some more"
    budgets = [value for (kind, _), value in rendered(chart, *full(chart)).items() if kind == "PodDisruptionBudget"]
    assert {value["spec"]["maxUnavailable"] for value in budgets} == {1}


def test_processes_may_do_nothing_that_they_need_not(chart: Path) -> None:
    for pod in pods(rendered(chart, *full(chart))).values():
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 6650
        assert not pod["automountServiceAccountToken"] and not pod["enableServiceLinks"]
        for container in (*pod["initContainers"], *pod["containers"]):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]


def test_only_our_processes_reach_internal_ports(chart: Path) -> None:
    objects = rendered(chart, *full(chart))
    rules = {
        name.rpartition("-")[2]: value["spec"]["ingress"] for (kind, name), value in objects.items() if kind == "NetworkPolicy"
    }
    for part, port in (("broker", 7650), ("web", 7651)):
        rule = next(rule for rule in rules[part] if rule["ports"][0]["port"] == port)
        assert [list(peer) for peer in rule["from"]] == [["podSelector"]]
        assert rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "prod"
    assert rules["worker"] == []


@pytest.mark.parametrize("missing", [value.partition("=")[0] for value in LEAST])
def test_what_has_to_be_set_is_named(chart: Path, missing: str) -> None:
    given = [part for value in LEAST if not value.startswith(missing) for part in ("--set", value)]
    command = [installed(HELM), "template", "prod", str(chart), "--kube-version", "1.33.0", *given]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and f"{missing} " in done.stderr and "needed" in done.stderr


def test_its_version_is_that_of_the_platform(chart: Path, repository: Path) -> None:
    value = yaml.safe_load((chart / "Chart.yaml").read_text())
    version = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["version"]
    assert value["version"] == value["appVersion"] == version
