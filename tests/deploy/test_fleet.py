"""The fleet of the compose file, as processes of this machine: what its settings say is a fleet that starts and serves.

Names of containers become addresses and ports here; everything else is as the file says. The processes begin all at once, on empty
databases; none of them may give up because of another one that begins.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.deploy.installed import COMPOSE, installed
from tests.support.databases import other_database
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.slow, pytest.mark.standalone]

PROCESSES = ("broker-1", "broker-2", "web", "worker")
TOPICS, MESSAGES = 6, 40


def free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class Fleet:
    def __init__(self, folder: Path, services: dict[str, Any], database: str, redis: str) -> None:
        self.folder = folder
        self.services = services
        self.rpc_1, self.rpc_2, self.internal, self.web, *rest = free_ports(8)
        self.brokers = {"broker-1": rest[0], "broker-2": rest[1]}
        self.ws = {"broker-1": rest[2], "broker-2": rest[3]}
        self.replaced = {
            "https://broker-1:7650": f"https://127.0.0.1:{self.rpc_1}",
            "https://broker-2:7650": f"https://127.0.0.1:{self.rpc_2}",
            "https://web:7651": f"https://127.0.0.1:{self.internal}",
            "postgresql://magnetar:secret@postgres/magnetar": database,
            "redis://:secret@redis:6379/0": redis,
        }
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def settings(self, name: str) -> dict[str, str]:
        data = str(self.folder / name)
        made = {}
        for key, text in self.services[name]["environment"].items():
            for former, here in (self.replaced | {"/var/lib/magnetar": data}).items():
                text = text.replace(former, here)
            made[key] = text
        if name == "web":
            ports = {"WEB_PORT": self.web, "WEB_INTERNAL_PORT": self.internal}
        elif name in self.brokers:
            rpc = self.rpc_1 if name == "broker-1" else self.rpc_2
            ports = {"BROKER_PORT": self.brokers[name], "BROKER_RPC_PORT": rpc, "WS_PORT": self.ws[name]}
        else:
            ports = {}
        made |= {f"MAGNETAR_{key}": str(port) for key, port in ports.items()}
        return made | {"MAGNETAR_DATA_DIR": data, "MAGNETAR_HOST": "127.0.0.1", "MAGNETAR_ADVERTISED_HOST": "127.0.0.1"}

    def start(self, name: str) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("MAGNETAR_", "DJANGO_", "PYTEST"))}
        data = self.folder / name
        for mount in self.services[name]["volumes"]:
            where = mount["target"].removeprefix("/var/lib/magnetar").strip("/")
            if where and not (data / where).exists():
                data.mkdir(exist_ok=True)
                shared = self.folder / "shared" / mount["source"]
                shared.mkdir(parents=True, exist_ok=True)
                (data / where).symlink_to(shared)
        command = [str(Path(sys.executable).with_name("magnetar")), *self.services[name]["command"]]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, cwd="/", stdout=log, stderr=log, env=kept | self.settings(name))

    def output(self) -> str:
        return "\n".join(f"{name}: {(self.folder / f'{name}.log').read_text()[-1500:]}" for name in PROCESSES)

    def ready(self) -> bool:
        for name, process in self.running.items():
            assert process.poll() is None, f"{name} ended with code {process.returncode}"
        urls = [f"http://127.0.0.1:{port}/readyz" for port in (self.web, *self.ws.values())]
        return all(_answers(url) for url in urls) and (self.folder / "worker" / "run" / "worker.json").exists()

    def close(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (OSError, urllib.error.URLError):
        return False


@pytest.fixture
def fleet(repository: Path, tmp_path: Path, postgresql: str, redis_server: str) -> Iterator[Fleet]:
    text = (repository / "deploy" / "compose" / "compose.yaml").read_text().replace(":?set it in .env", ":-secret")
    (tmp_path / "compose.yaml").write_text(text)
    read = [installed(COMPOSE), "-format", "json", str(tmp_path / "compose.yaml")]
    services = json.loads(subprocess.run(read, capture_output=True, text=True, check=True).stdout)["services"]
    shared = tmp_path / "shared"
    shared.mkdir()
    command = services["secrets"]["command"][0].replace("/var/lib/magnetar", str(shared)).partition("|| ")[2].split()
    subprocess.run([str(Path(sys.executable).with_name(command[0])), *command[1:]], check=True, capture_output=True)
    with other_database(postgresql) as database:
        fleet = Fleet(tmp_path, services, database, redis_server)
        try:
            for name in PROCESSES:
                fleet.start(name)
            try:
                eventually_sync(fleet.ready, 90)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{fleet.output()}") from None
            yield fleet
        finally:
            fleet.close()


def test_it_serves_stock_clients_while_a_broker_is_stopped(fleet: Fleet) -> None:
    token = (fleet.folder / "shared" / "secrets" / "superuser.token").read_text().strip()
    urls = ",".join(f"127.0.0.1:{port}" for port in fleet.brokers.values())
    log = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(f"pulsar://{urls}", authentication=pulsar.AuthenticationToken(token), logger=log)
    try:
        stopped = fleet.running["broker-1"]
        topics = [f"public/default/deployed-{number}" for number in range(TOPICS)]
        consumers = [client.subscribe(topic, "s") for topic in topics]
        producers = [client.create_producer(topic) for topic in topics]
        for number in range(MESSAGES):
            if number == MESSAGES // 2:  # as an engine does; half of the topics are there
                stopped.send_signal(signal.SIGTERM)
            for producer in producers:
                producer.send(str(number).encode())
        for consumer in consumers:
            seen: set[bytes] = set()
            while len(seen) < MESSAGES:
                message = consumer.receive(60_000)
                seen.add(message.data())
                consumer.acknowledge(message)
            assert seen == {str(number).encode() for number in range(MESSAGES)}
    finally:
        client.close()
    assert stopped.wait(20) == 0, "it drained within the time that the file gives it"
