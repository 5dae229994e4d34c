"""The campaign of backups: a fleet of two machines under stock clients; what takes or restores a backup is killed at any moment.

    python -m tests.compat.fleet.backup_campaign --postgresql postgresql://user@host/postgres --kills 3 --seed 7

Two data directories with a broker each, which speak mutual TLS with each other. Their messages are on real bookies, in the database
of their metadata, or in another one (`LAYOUTS`). `magnetar backup take` is killed, then a broker in the middle of it; then one is
taken to its end. Its restore is killed as well, and asked for again. What comes back is compared with the platform: every message,
every position (`backup_world.py`).
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pulsar

from controlplane.backup.drafts import UNFINISHED
from controlplane.datadir import RESTORING
from tests.compat.backup_course import magnetar
from tests.compat.backup_world import NAMESPACE, Traffic, World, compare_busy
from tests.compat.fleet.machines import Process
from tests.support.bookkeeper import install
from tests.support.bookkeeper.cluster import Cluster, free_port, running_cluster
from tests.support.brokers.standalone import Standalone
from tests.support.databases import other_database
from tests.support.waiting import eventually_sync

LAYOUTS = ("bookies", "postgresql", "databases")
BALLAST = f"persistent://{NAMESPACE}/ballast"
BALLAST_COUNT, BALLAST_BYTES = 160, 100_000
AGAIN_S = 150.0  # brokers wait two minutes for a backup that was killed
MIB_PER_S = "4"


class Fleet(Standalone):
    """A platform with one broker, and a second broker on another machine, as far as a data directory of its own makes it one.
    `tls`: what `magnetar keys make-fleet` made."""

    def __init__(self, folder: Path, tls: Path, **stores: str) -> None:
        self._ports = [free_port() for _ in range(5)]
        shared = {
            f"MAGNETAR_INTERNAL_TLS_{kind}_FILE": str(tls / f"{{service}}.{end}") for kind, end in (("CERT", "pem"), ("KEY", "key"))
        }
        shared |= {
            "MAGNETAR_INTERNAL_TLS_CA_FILE": str(tls / "authority.pem"),
            "MAGNETAR_BROKER_RPC_URL": ",".join(f"https://127.0.0.1:{port}" for port in self._ports[:2]),
            "MAGNETAR_WEB_INTERNAL_PORT": str(self._ports[4]),
            "MAGNETAR_WEB_INTERNAL_URL": f"https://127.0.0.1:{self._ports[4]}",
            "MAGNETAR_LOG_LEVEL": "warning",
        }
        super().__init__(folder, **shared, **stores)
        self.environment |= self._of_machine(0)
        self.second: Process | None = None

    def _of_machine(self, number: int) -> dict[str, str]:
        return {
            "MAGNETAR_BROKER_ID": f"m{number + 1}",
            "MAGNETAR_BROKER_RPC_PORT": str(self._ports[number]),
            "MAGNETAR_BROKER_INTERNAL_PORT": str(self._ports[2 + number]),
        }

    def start(self) -> Fleet:
        super().start()
        data = self.folder.with_name(f"{self.folder.name}-m2")
        data.mkdir(mode=0o700)
        (data / "secrets").symlink_to(self.folder / "secrets")
        environment = self.environment | self._of_machine(1)
        environment |= {"MAGNETAR_DATA_DIR": str(data), "MAGNETAR_BROKER_PORT": "0", "MAGNETAR_WS_PORT": "0"}
        log = data.with_suffix(".output")
        second = self.second = Process("m2", [str(self.program), "broker"], environment, data / "run" / "broker.json", log)
        eventually_sync(second.ready, 60)
        return self

    def kill_broker(self, number: int) -> None:
        """One of the two, which comes back by itself."""
        assert self.second is not None
        os.kill(self.child("broker")["pid"] if number == 0 else self.second.process.pid, signal.SIGKILL)

    def close(self) -> None:
        if self.second is not None:
            self.second.close()
            self.second = None
        super().close()


class Campaign:
    """`stores`: makes the settings that say where a platform stores, each time of a new place."""

    def __init__(
        self, folder: Path, seed: int, kills: int, stores: Callable[[], Mapping[str, str]], say: Callable[[str], object]
    ) -> None:
        self.folder = folder
        self._backups = folder / "backups"
        self._chance = random.Random(seed)
        self._kills = kills
        self._stores = stores
        self._say = say
        self._tls = folder / "fleet" / "tls"

    def run(self) -> None:
        """Raises `AssertionError` for the first promise that was broken."""
        made = [str(Path(sys.executable).with_name("magnetar")), "keys", "make-fleet", str(self.folder / "fleet")]
        subprocess.run(made, check=True, capture_output=True)
        with ExitStack() as stack:
            fleet = Fleet(self.folder / "data", self._tls, **self._stores())
            stack.callback(fleet.close)
            world = World(fleet.start(), self.folder)
            stack.callback(world.close)
            key = world.fill()
            ballast = self._fill_more(world, key)
            facts = world.facts()
            traffic = Traffic(world, key)
            self._say("a fleet of two runs and is filled")
            for _ in range(self._kills):
                self._kill_take(fleet)
            for number in range(self._kills):
                self._kill_broker(fleet, number % 2)
            backup, before, acknowledged = self._take(fleet, traffic)
            received, at_end, unanswered = traffic.receipts(), traffic.acknowledgements(), traffic.unanswered()
            traffic.end()
            assert not list(self._backups.glob(f"{UNFINISHED}*")), "what was killed left something"
            assert not traffic.faults(), traffic.faults()[:5]
            world.close()
            fleet.close()
            restored = self._restore(backup)
            stack.callback(restored.close)
            after = World(restored.start(), self.folder)
            stack.callback(after.close)
            assert after.facts() == facts
            assert self._read(after) == ballast
            compare_busy(after, before, received, acknowledged, {topic: ids | unanswered[topic] for topic, ids in at_end.items()})
            after.deliveries(key)
            self._say(
                f"{sum(map(len, before.values()))} receipts and {sum(map(len, acknowledged.values()))} acknowledgements were kept"
            )

    # --- what there is

    def _fill_more(self, world: World, key: str) -> list[bytes]:
        """So that a backup takes a while. Without duplicates, though brokers are killed."""
        policies = f"/api/v1/tenants/{NAMESPACE.replace('/', '/namespaces/')}/policies"
        answer = world.platform.http("PATCH", policies, {"deduplication": True}, world.token)
        assert answer.status < 300, answer.text
        payloads = [self._chance.randbytes(BALLAST_BYTES) for _ in range(BALLAST_COUNT)]
        producer = world.stock.client(key).create_producer(BALLAST)
        for payload in payloads:
            producer.send(payload)
        producer.close()
        return payloads

    def _read(self, world: World) -> list[bytes]:
        reader = world.stock.client(world.token).create_reader(BALLAST, pulsar.MessageId.earliest)
        return [reader.read_next(30_000).data() for _ in range(BALLAST_COUNT)]

    # --- taking

    def _begin(self, platform: Standalone, *arguments: str) -> subprocess.Popen[str]:
        command = [str(platform.program), "backup", *arguments, "--data-dir", str(platform.folder)]
        return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=platform.environment)

    def _begun_take(self, fleet: Fleet) -> subprocess.Popen[str]:
        """One that is under way: it waits where brokers still wait for one that was killed."""
        deadline_s = time.monotonic() + AGAIN_S
        former = set(self._backups.glob(f"{UNFINISHED}*"))
        while True:
            taking = self._begin(fleet, "take", str(self._backups), "--mib-per-s", MIB_PER_S)
            self._until(taking, lambda: bool(set(self._backups.glob(f"{UNFINISHED}*")) - former))
            if self._still_runs(taking, self._chance.uniform(0.2, 4.0)):
                return taking
            said = taking.communicate()
            assert taking.returncode == 0 or "another backup is under way" in said[1] or "try again" in said[1], said
            assert time.monotonic() < deadline_s, said

    def _until(self, process: subprocess.Popen[str], happened: Callable[[], bool]) -> None:
        eventually_sync(lambda: process.poll() is not None or happened(), 60)

    def _still_runs(self, process: subprocess.Popen[str], wait_s: float) -> bool:
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def _kill_take(self, fleet: Fleet) -> None:
        taking = self._begun_take(fleet)
        taking.kill()
        taking.communicate()
        left = [
            sum(file.stat().st_size for file in draft.rglob("*") if file.is_file())
            for draft in self._backups.glob(f"{UNFINISHED}*")
        ]
        self._say(f"a backup was killed; it left {left} bytes")

    def _kill_broker(self, fleet: Fleet, number: int) -> None:
        taking = self._begun_take(fleet)
        fleet.kill_broker(number)
        out, error = taking.communicate(timeout=120)
        self._say(f"broker m{number + 1} was killed meanwhile: {'taken all the same' if taking.returncode == 0 else error.strip()}")
        if taking.returncode == 0:
            checked = magnetar(fleet, "backup", "verify", out.strip())
            assert checked.returncode == 0, checked.stderr
        else:
            assert "Traceback" not in error, error

    def _take(self, fleet: Fleet, traffic: Traffic) -> tuple[str, dict[str, Any], dict[str, Any]]:
        deadline_s = time.monotonic() + AGAIN_S
        while True:
            before, acknowledged = traffic.receipts(), traffic.acknowledgements()
            taking = self._begin(fleet, "take", str(self._backups))
            out, error = taking.communicate(timeout=120)
            if taking.returncode == 0:
                self._say(error.strip())
                return out.strip(), before, acknowledged
            assert "Traceback" not in error and time.monotonic() < deadline_s, error

    # --- restoring

    def _restore(self, backup: str) -> Fleet:
        """Into a new place; what was killed is restored again, after its remains were taken away as its errors say."""
        stores = self._stores()
        place = self.folder / "restored"
        for number in range(self._kills):
            fleet = Fleet(place, self._tls, **stores)
            restoring = self._begin(fleet, "restore", backup)
            self._until(restoring, (place / RESTORING).exists)
            if self._still_runs(restoring, self._chance.uniform(0, 1.5)):
                restoring.kill()
                restoring.communicate()
                started = magnetar(fleet, "broker", "--data-dir", str(place))
                assert started.returncode != 0 and "did not end, so it has part of a backup" in started.stderr, started.stderr
                refused = magnetar(fleet, "backup", "restore", backup, "--data-dir", str(place))
                assert refused.returncode != 0 and "is not empty" in refused.stderr, refused.stderr
                self._say(f"restore {number + 1} was killed: {refused.stderr.strip()}")
            else:
                assert restoring.returncode == 0, restoring.communicate()
                restoring.communicate()
            shutil.rmtree(place)
            stores = self._after_a_killed_restore(stores)
        fleet = Fleet(place, self._tls, **stores)
        done = magnetar(fleet, "backup", "restore", backup, "--data-dir", str(place))
        assert done.returncode == 0, done.stderr
        self._say(done.stdout.strip())
        return fleet

    def _after_a_killed_restore(self, stores: Mapping[str, str]) -> Mapping[str, str]:
        """New databases, for those that hold something are refused; the same bookies, where what is left is deleted."""
        ledgers = stores["MAGNETAR_LEDGER_URL"]
        return dict(self._stores()) | ({"MAGNETAR_LEDGER_URL": ledgers} if ledgers.startswith("bookkeeper:") else {})


@contextmanager
def places(layout: str, server: str, folder: Path) -> Iterator[Callable[[], Mapping[str, str]]]:
    """Where platforms of a layout store, each time another place."""
    with ExitStack() as stack:
        cluster: Cluster | None = stack.enter_context(running_cluster(folder / "bookies", 4)) if layout == "bookies" else None
        numbers = iter(range(1_000))

        def another() -> Mapping[str, str]:
            metadata = stack.enter_context(other_database(server))
            made = {"MAGNETAR_DATABASE_URL": metadata, "MAGNETAR_METADATA_URL": metadata, "MAGNETAR_LEDGER_URL": metadata}
            if layout == "databases":
                made["MAGNETAR_LEDGER_URL"] = stack.enter_context(other_database(server))
            if cluster is not None:
                made["MAGNETAR_LEDGER_URL"] = f"bookkeeper://{cluster.hosts}/ledgers?store=place-{next(numbers)}"
                made["MAGNETAR_MESSAGE_BYTES_MAX"] = str(1 << 20)
            return made

        yield another


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill what takes and restores backups of a fleet, and compare what comes back.")
    parser.add_argument("--postgresql", default=os.environ.get("MAGNETAR_TEST_DATABASE_URL", ""), help="URL of a server for tests")
    parser.add_argument("--layout", choices=LAYOUTS, action="append", help="all of them, unless some are named")
    parser.add_argument("--kills", type=int, default=2, help="of each kind, in each layout")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    if not chosen.postgresql:
        parser.error(
            "name a PostgreSQL server whose databases tests may make and drop: --postgresql postgresql://user@host/postgres"
        )
    for layout in chosen.layout or LAYOUTS:
        if layout == "bookies" and not install.ready():
            parser.error(f"no bookies: {install.NEEDED}")
        began_s = time.monotonic()

        def say(text: str, layout: str = layout, began_s: float = began_s) -> None:
            print(f"{layout}, {time.monotonic() - began_s:.0f} s: {text}", flush=True)

        with tempfile.TemporaryDirectory() as made, places(layout, chosen.postgresql, Path(made)) as stores:
            Campaign(Path(made), chosen.seed, chosen.kills, stores, say).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
