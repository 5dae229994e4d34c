"""The upgrade campaign: a platform of an earlier release gets this one, process by process, under stock clients; and goes back.

    python -m tests.compat.upgrade_campaign --from 0f619015 --brokers 3

The earlier release is checked out and installed into a folder of its own. Its brokers, web process and worker are started one by
one, as services of a machine are, and filled (`backup_world.py`). Stock producers and consumers of the SDK then work all the time,
while each broker is stopped and started with this release, then web process and worker; and the other way round. Checked after
each: every topic takes messages again, nothing came again whose acknowledgement was answered. In the end: what had a receipt is
there, in order; what was quiet is message by message and position by position as it was.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.compat.backup_world import BUSY, Traffic, World
from tests.support.brokers.standalone import Standalone
from tests.support.databases import other_database
from tests.support.waiting import eventually_sync

REPOSITORY = Path(__file__).resolve().parents[2]
LAST_RELEASE = "0f619015"  # no release has a tag yet: the commit before brokers took each other's topics over, history and backups
AGAIN_S = 60.0
STOP_S = 20


class Services(Standalone):
    """Brokers, web process and worker of one machine, each started by itself and with the release that it is given."""

    def __init__(self, folder: Path, brokers: int, **settings: str) -> None:
        super().__init__(folder, **settings)
        self.names = ["broker" if number == 1 else f"broker-{number}" for number in range(1, brokers + 1)]
        self.folder.mkdir(mode=0o700)
        self.environment.pop("PYTHONPATH", None)  # each release is to find its own modules
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = dict(zip(("broker", "web", "ws", "own"), _free_ports(4, 4), strict=True))
        self.ready = {
            "broker_url": f"pulsar://127.0.0.1:{self._ports['broker']}",
            "web_url": f"http://127.0.0.1:{self._ports['web']}",
            "admin_token_file": str(folder / "secrets" / "superuser.token"),
            "console_password_file": str(folder / "secrets" / "console-password"),
        }

    def begin(self, name: str, release: Path, *, back: bool = False) -> None:
        """Returns when it is ready. `release`: the folder that the release is installed in. `back`: from a newer one, as
        docs/upgrading.md says."""
        kind = name.partition("-")[0]
        number = int(name.partition("-")[2] or 1)
        environment = self.environment | {
            "MAGNETAR_DATA_DIR": str(self.folder),
            "MAGNETAR_BROKERS": str(len(self.names)),
            "MAGNETAR_BROKER_PORT": str(self._ports["broker"]),
            "MAGNETAR_WEB_PORT": str(self._ports["web"]),
            "MAGNETAR_LOG_LEVEL": "warning",
        }
        if back and "accept_newer_database" in (release / "messaging" / "settings.py").read_text():
            environment["MAGNETAR_ACCEPT_NEWER_DATABASE"] = "true"
        if kind == "broker":
            environment |= {
                "MAGNETAR_BROKER_NUMBER": str(number),
                "MAGNETAR_BROKER_ID": f"broker-{number}",
                "MAGNETAR_BROKER_OWN_PORT": str(self._ports["own"] + number - 1),
                "MAGNETAR_WS_PORT": str(self._ports["ws"] if number == 1 else 0),
                "MAGNETAR_BROKER_RPC_PORT": "0",
            }
        with (self.folder.parent / f"{self.folder.name}.output").open("ab") as output:
            command = [str(release / ".venv" / "bin" / "magnetar"), kind]
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=release)
        self.running[name] = process
        file = self.folder / "run" / f"{name}.json"

        def is_ready() -> bool:
            assert process.poll() is None, f"{name} ended: {self.output()[-4000:]}"
            try:
                return bool(json.loads(file.read_bytes())["pid"] == process.pid)
            except (OSError, ValueError, KeyError):
                return False

        try:
            eventually_sync(is_ready, 60)
        except AssertionError as error:
            raise AssertionError(f"{name} of {release} is not ready: {error} {self.output()[-4000:]}") from None

    def end(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0, f"{name} ended with {process.returncode}: {self.output()[-4000:]}"

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()
        self.running.clear()


def _free_ports(count: int, after_each: int) -> list[int]:
    """The first of some consecutive ones, `count` times. Below those that the system gives to connections, which would take them
    while a process is away."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        try:
            with socket.create_server(("127.0.0.1", port)):
                pass
        except OSError:
            continue
        if all(abs(port - other) > after_each for other in found):
            found.append(port)
    return found


def checked_out(commit: str, folder: Path) -> Path:
    """The release of a commit, installed. Takes minutes."""
    target = folder / "earlier"
    subprocess.run(["git", "-C", str(REPOSITORY), "worktree", "add", "--detach", "--force", str(target), commit], check=True)
    subprocess.run(["make", "setup"], cwd=target, check=True, stdout=subprocess.DEVNULL)
    return target


class Campaign:
    """`database`: the PostgreSQL that has everything; "" for files."""

    def __init__(self, folder: Path, earlier: Path, brokers: int, database: str, progress: Callable[[str], object]) -> None:
        self.folder = folder
        self.earlier = earlier
        kept = {f"MAGNETAR_{name}_URL": database for name in ("DATABASE", "METADATA", "LEDGER")} if database else {}
        self.services = Services(folder / "data", brokers, **kept)
        self.pauses_s: dict[str, float] = {}
        self._progress = progress

    def run(self) -> None:
        """Raises `AssertionError` for the first promise that was broken."""
        with ExitStack() as stack:
            stack.callback(self.services.close)
            for name in ("web", *self.services.names, "worker"):
                self.services.begin(name, self.earlier)
            world = World(self.services, self.folder)
            stack.callback(world.close)
            key = world.fill()
            facts = world.facts()
            self._progress("the earlier release runs and is filled")
            traffic = Traffic(world, key)
            self._change(traffic, [*self.services.names, "web", "worker"], REPOSITORY)
            assert world.facts() == facts
            self._change(traffic, ["worker", "web", *reversed(self.services.names)], self.earlier, back=True)
            assert world.facts() == facts
            traffic.end()
            self._check(traffic)
            receipts = sum(map(len, traffic.receipts().values()))
            acknowledged = sum(map(len, traffic.acknowledgements().values()))
            assert receipts > 100 and acknowledged > 100  # else it proves nothing
            _compare(world, traffic)
            world.deliveries(key)
            self._progress(f"{receipts} receipts, {acknowledged} acknowledgements, nothing lost, nothing came again")

    def _change(self, traffic: Traffic, names: Sequence[str], release: Path, *, back: bool = False) -> None:
        what = "back" if back else "this release"
        for name in names:
            began_s = time.monotonic()
            self.services.end(name)
            self.services.begin(name, release, back=back)
            self._again(traffic, time.monotonic())
            self._check(traffic)
            self.pauses_s[f"{name} {what}"] = time.monotonic() - began_s
            self._progress(f"{name}: {what}, all topics take messages again after {time.monotonic() - began_s:.1f} s")

    def _again(self, traffic: Traffic, since_s: float) -> None:
        for publisher in traffic.publishers:
            publisher.watch(since_s)
        eventually_sync(lambda: all(publisher.first_s for publisher in traffic.publishers), AGAIN_S)

    def _check(self, traffic: Traffic) -> None:
        faults = [fault for publisher in traffic.publishers for fault in publisher.faults] + traffic.faults()
        assert not faults, faults[:5]


def _compare(world: World, traffic: Traffic) -> None:
    stored, came = world.busy(), world.delivered()
    for topic in BUSY:
        numbers = [sent.number for sent in stored[topic]]
        lost = {sent.number for sent in traffic.receipts()[topic]} - set(numbers)
        assert not lost, f"{topic}: {len(lost)} with a receipt are gone, first {min(lost)}"
        firsts = list(dict.fromkeys(numbers))
        assert firsts == sorted(firsts), f"{topic}: out of order"
        again = came[topic] & traffic.acknowledgements()[topic]
        assert not again, f"{topic}: {len(again)} come again whose acknowledgement was answered"


def main() -> int:
    parser = argparse.ArgumentParser(description="Give an earlier release's platform this one under stock clients, and go back.")
    parser.add_argument("--from", dest="commit", default=LAST_RELEASE, help="a tag or commit of the earlier release")
    parser.add_argument("--installed", type=Path, help="a checkout of it in which `make setup` has run, in place of a new one")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--postgresql", default="", help="URL of a server: everything is in a new database there, not in files")
    chosen = parser.parse_args()
    if chosen.postgresql and chosen.brokers != 1 and chosen.commit == LAST_RELEASE and not chosen.installed:
        parser.error(f"{LAST_RELEASE} has one broker on PostgreSQL: choose --brokers 1, or a later release with --from")
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        database = stack.enter_context(other_database(chosen.postgresql)) if chosen.postgresql else ""
        try:
            earlier = chosen.installed or checked_out(chosen.commit, folder)
            campaign = Campaign(folder, earlier.absolute(), chosen.brokers, database, lambda text: print(text, flush=True))
            campaign.run()
        finally:
            if not chosen.installed:
                subprocess.run(
                    ["git", "-C", str(REPOSITORY), "worktree", "remove", "--force", str(folder / "earlier")], check=False
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
