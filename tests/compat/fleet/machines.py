"""Brokers of several machines: each a process in a network namespace of its own, with a data directory of its own, as `magnetar
keys make-fleet` and deploy/systemd/fleet.toml have it. PostgreSQL is on a machine too, and so are ZooKeeper and each bookie.

What ends is started again after a moment, as systemd does. The web process runs where the clients are.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.compat.fleet.network import HOST, opened_network
from tests.compat.fleet.platforms import AGAIN_S
from tests.support.bookkeeper.cluster import Cluster, Place, Server, free_port
from tests.support.brokers.standalone import Answer, ask
from tests.support.postgresql_server import PostgresqlServer
from tests.support.waiting import eventually_sync

BOOKIES = 4
RESTART_S = 2.0
WRONG_SETTINGS = 2  # an exit code after which systemd starts nothing again
POSTGRESQL, ZOOKEEPER = "postgresql", "zookeeper"


class Process:
    """One of ours, started again whenever it ends, until it is closed."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str], run_file: Path, log: Path) -> None:
        self.name, self.run_file, self.log = name, run_file, log
        self.faults: list[str] = []
        self._command, self._environment = command, environment
        self._closing = threading.Event()
        self._begin()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def _begin(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, cwd="/", stdout=log, stderr=log, env=self._environment)

    def _keep(self) -> None:
        while not self._closing.is_set():
            code = self.process.wait()
            if self._closing.is_set():
                return
            if code == WRONG_SETTINGS:
                self.faults.append(f"{self.name} says that its settings are wrong: {self.output}")
                return
            self._closing.wait(RESTART_S)
            if not self._closing.is_set():
                self._begin()

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    def ready(self) -> bool:
        assert not self.faults, self.faults
        try:
            return bool(json.loads(self.run_file.read_bytes())["pid"] == self.process.pid)
        except (OSError, ValueError, KeyError):
            return False

    def close(self) -> None:
        self._closing.set()
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._keeper.join(5)


class Machines:
    """`on_bookies`: their messages are on bookies, and only the metadata in PostgreSQL. `earlier`: where an earlier release is
    checked out and installed, of which every other broker is, from the first one on. `settings` are of every broker."""

    shared = True

    def __init__(
        self, folder: Path, brokers: int, *, on_bookies: bool = False, earlier: Path | None = None, **settings: str
    ) -> None:
        self.folder = folder
        self.names = [f"broker-{number}" for number in range(1, brokers + 1)]
        self.cluster: Cluster | None = None
        self.on_bookies, self._settings = on_bookies, settings
        self._programs = dict.fromkeys(self.names[::2], earlier / ".venv" / "bin" / "magnetar") if earlier is not None else {}
        self._ends = ExitStack()
        self._running: dict[str, Process] = {}

    # --- starting

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.network = self._ends.enter_context(opened_network())
            self._make_secrets()
            metadata = self._start_postgresql()
            ledgers = self._start_bookies() if self.on_bookies else metadata
            addresses = {name: self.network.add(name) for name in self.names}
            shared = self._shared_settings(metadata, addresses)
            for name, address in addresses.items():
                own = {"HOST": "0.0.0.0", "ADVERTISED_HOST": address, "BROKER_ID": name, "LEDGER_URL": ledgers}
                own |= {"BROKER_PORT": "6650", "WS_PORT": "8081", "BROKER_RPC_HOST": "0.0.0.0", "BROKER_RPC_PORT": "7650"}
                own |= {"BROKER_INTERNAL_PORT": "7652", "BROKER_OWN_PORT": "0"}
                self._run(name, "broker", shared | own | self._settings)
            port = free_port()
            self._web_url = f"http://127.0.0.1:{port}"
            self._run("web", "web", shared | {"DATABASE_URL": metadata, "WEB_PORT": str(port)}, HOST)
            eventually_sync(lambda: all(process.ready() for process in self._running.values()), AGAIN_S)
        except BaseException:
            self.close()
            raise

    def _make_secrets(self) -> None:
        magnetar = str(Path(sys.executable).with_name("magnetar"))
        subprocess.run([magnetar, "keys", "make-fleet", str(self.folder / "fleet")], check=True, capture_output=True)

    def _start_postgresql(self) -> str:
        # Where the user `postgres` comes to, who has no way into the folder of a test.
        place = Path(tempfile.mkdtemp(prefix="magnetar-pg-"))
        self._ends.callback(shutil.rmtree, place, ignore_errors=True)
        place.chmod(0o755)
        address = self.network.add(POSTGRESQL)
        self.postgresql = PostgresqlServer(place / "server", 5432, address, self.network.command(POSTGRESQL))
        # Where a machine is gone, the server has to learn it, or its transactions keep their locks.
        alive = {"keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3", "user_timeout": "10s"}
        self.postgresql.create("\n".join(f"tcp_{name} = {value}" for name, value in alive.items()))
        self.postgresql.start()
        self._ends.callback(self.postgresql.close)
        return self.postgresql.url

    def _start_bookies(self) -> str:
        def place(name: str) -> Place:
            return Place(self.network.add(name), self.network.command(name))

        self.cluster = Cluster(self.folder / "bookkeeper", BOOKIES, place=place)
        self._ends.callback(self.cluster.kill)
        self.cluster.start()
        self._settings = {"MESSAGE_BYTES_MAX": str(1 << 20)} | self._settings
        return f"bookkeeper://{self.cluster.hosts}/ledgers?store=fleet"

    def _shared_settings(self, metadata: str, addresses: dict[str, str]) -> dict[str, str]:
        tls = self.folder / "fleet" / "tls"
        internal = {f"INTERNAL_TLS_{kind}_FILE": str(tls / f"{{service}}.{end}") for kind, end in (("CERT", "pem"), ("KEY", "key"))}
        here = self.network.addresses[HOST]
        return internal | {
            "INTERNAL_TLS_CA_FILE": str(tls / "authority.pem"),
            "METADATA_URL": metadata,
            "BROKER_RPC_URL": ",".join(f"https://{address}:7650" for address in addresses.values()),
            "WEB_INTERNAL_HOST": here,
            "WEB_INTERNAL_PORT": "7651",
            "WEB_INTERNAL_URL": f"https://{here}:7651",
            "LOG_LEVEL": "info",
        }

    def _run(self, name: str, kind: str, settings: dict[str, str], machine: str = "") -> None:
        data = self.folder / name
        data.mkdir(mode=0o700, exist_ok=True)
        (data / "secrets").symlink_to(self.folder / "fleet" / "secrets")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("MAGNETAR_", "DJANGO_", "PYTEST"))}
        environment = kept | {f"MAGNETAR_{key}": value for key, value in settings.items()} | {"MAGNETAR_DATA_DIR": str(data)}
        program = self._programs.get(name)
        if program is not None:
            environment.pop("PYTHONPATH", None)  # it is to find its own modules
        command = [*self.network.command(machine or name), str(program or Path(sys.executable).with_name("magnetar")), kind]
        self._running[name] = Process(name, command, environment, data / "run" / f"{kind}.json", self.folder / f"{name}.log")

    def close(self) -> None:
        for process in self._running.values():
            process.close()
        self._running.clear()
        self._ends.close()

    # --- what a campaign asks

    @property
    def broker_url(self) -> str:
        return "pulsar://" + ",".join(f"{self.network.addresses[name]}:6650" for name in self.names)

    @property
    def websocket_url(self) -> str:
        return self._web_url.replace("http", "ws", 1)

    @property
    def admin_token(self) -> str:
        return (self.folder / "fleet" / "secrets" / "superuser.token").read_text().strip()

    def http(self, method: str, path: str, body: Any = None) -> Answer:
        return ask(self._web_url + path, method, body, self.admin_token)

    def own_url(self, name: str) -> str:
        return f"pulsar://{self.network.addresses[name]}:6650"

    def pid(self, name: str) -> int:
        return self._running[name].process.pid

    def kill_web(self) -> None:
        web = self._running["web"]
        pid = web.process.pid
        os.kill(pid, signal.SIGKILL)
        eventually_sync(lambda: web.process.pid != pid and web.ready(), AGAIN_S)

    def until_all_run(self) -> None:
        eventually_sync(lambda: all(process.ready() for process in self._running.values()), AGAIN_S)

    # --- what they store in

    @property
    def stores(self) -> dict[str, Server]:
        """ZooKeeper and the bookies, by machine."""
        if self.cluster is None:
            return {}
        bookies = {f"bookie-{number}": bookie for number, bookie in enumerate(self.cluster.bookies)}
        return {ZOOKEEPER: self.cluster.zookeeper} | bookies
