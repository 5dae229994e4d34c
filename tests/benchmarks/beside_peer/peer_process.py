"""The peer: a Pulsar that stores durably, started by a script that is not part of this repository; who measures names it.

Expected of the script: ``SCRIPT standalone BROKER_PORT WEB_PORT`` runs broker and storage in the foreground, in the folder named by
DATA_DIR, where it leaves the `standalone.conf` that it runs with.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.benchmarks import processes
from tests.benchmarks.load import Stalled
from tests.benchmarks.processes import Cost

_START_S = 180.0  # of a busy machine
_HTTP_S = 30.0
_MEMORY = "-Xms1g -Xmx1g -XX:MaxDirectMemorySize=2g"
# Entries on as many bookies as ours, otherwise what a Pulsar is shipped with and what makes the two do the same.
_ON_BOOKIES = {
    "managedLedgerDefaultEnsembleSize": "3",
    "managedLedgerDefaultWriteQuorum": "3",
    "managedLedgerDefaultAckQuorum": "2",
    "managedLedgerDigestType": "CRC32C",
    "bookkeeperUseV2WireProtocol": "true",
    "bookkeeperNumberOfChannelsPerBookie": "16",
    "loadBalancerEnabled": "false",
    "functionsWorkerEnabled": "false",
    "allowAutoTopicCreationType": "non-partitioned",
}


class PeerBroker:
    """Blocks until the peer is healthy. Raises `Stalled` when it does not start, or does not sync what it receipts."""

    def __init__(self, script: Path, folder: Path, **settings: str) -> None:
        """`settings` are added to its configuration. What is in `folder` of a peer that was killed is what this one starts on."""
        self._prepare(folder)
        data = folder / "peer"
        added = folder / "peer-added.conf"
        added.write_text(_lines(settings))
        ports = (str(self.address[1]), str(self._web_port))
        self._start([script, "standalone", *ports], folder, {"DATA_DIR": str(data), "EXTRA_CONF": str(added)})
        self._must_sync(data / "standalone.conf")

    def _prepare(self, folder: Path) -> None:
        self.address = ("127.0.0.1", _free_port())
        self._web_port = _free_port()
        self._web = f"http://127.0.0.1:{self._web_port}/admin/v2"
        self.log = (folder / "peer.log").open("wb")

    def _start(self, command: Sequence[str | Path], folder: Path, variables: Mapping[str, str]) -> None:
        # What a virtual machine unpacks for itself would stay in the temporary folder, since the peer is killed.
        unpacked = folder / "peer-unpacked"
        unpacked.mkdir(exist_ok=True)
        start = time.perf_counter()
        options = {"JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={unpacked}"}
        self.process = processes.start(command, self.log, os.environ | variables | options)
        self._wait(folder / "peer.log")
        self.start_s = time.perf_counter() - start
        self.version = self._get("/brokers/version").strip().strip('"')

    def cost(self) -> Cost:
        return processes.cost(self.process.pid)

    def forget(self, topic: str) -> None:
        """Deletes the topic; what is stored of it goes when the peer next collects its garbage."""
        path = topic.replace("://", "/")
        request = urllib.request.Request(f"{self._web}/{path}?force=true", method="DELETE")
        try:
            urllib.request.urlopen(request, timeout=_HTTP_S).close()
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise Stalled(f"the peer does not delete {topic}: {error}") from None

    def unload(self, topic: str) -> None:
        """Lets go of all that it has in memory of the topic."""
        path = topic.replace("://", "/")
        request = urllib.request.Request(f"{self._web}/{path}/unload", method="PUT")
        urllib.request.urlopen(request, timeout=_HTTP_S).close()

    def close(self) -> None:
        """At once: nobody wants its data."""
        processes.end(self.process)
        self.log.close()

    def _wait(self, log: Path) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                self._get("/brokers/health")
                return
            except OSError as error:
                if self.process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.1)
                    continue
                self.close()
                words = log.read_text(errors="replace")[-1500:]
                raise Stalled(f"the peer did not become healthy ({error}): {words}") from None

    def _must_sync(self, configuration: Path) -> None:
        """A comparison with a peer that answers before its disk has the data would say nothing."""
        settings = dict(line.split("=", 1) for line in configuration.read_text().splitlines() if "=" in line and line[0] != "#")
        if settings.get("journalSyncData") != "true" or settings.get("journalWriteData", "true") != "true":
            self.close()
            raise Stalled("the peer does not sync its journal: set journalSyncData=true in its configuration")

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(self._web + path, timeout=_HTTP_S) as answer:
            return str(answer.read().decode())


class PeerOnBookies(PeerBroker):
    """A broker of the peer on bookies that run already, with its metadata in their ZooKeeper; they have to sync their journals.

    Expected of the script: ``SCRIPT java CLASS ARGUMENTS`` runs a class of the peer, with the options in MEMORY."""

    def __init__(self, script: Path, folder: Path, zookeeper: str, **settings: str) -> None:
        """`zookeeper`: host:port, whose root of ledgers is /ledgers."""
        self._prepare(folder)
        cluster = "standalone"
        configuration = folder / "broker.conf"
        store = f"zk:{zookeeper}"
        configuration.write_text(
            _lines(
                {
                    "metadataStoreUrl": store,
                    "configurationMetadataStoreUrl": store,
                    "clusterName": cluster,
                    "bindAddress": self.address[0],
                    "advertisedAddress": self.address[0],
                    "brokerServicePort": str(self.address[1]),
                    "webServicePort": str(self._web_port),
                }
                | _ON_BOOKIES
                | settings
            )
        )
        arguments = ["--cluster", cluster, "--metadata-store", store, "--configuration-metadata-store", store]
        arguments += ["--web-service-url", self._web, "--broker-service-url", f"pulsar://127.0.0.1:{self.address[1]}"]
        made = subprocess.run(
            [script, "java", "org.apache.pulsar.PulsarClusterMetadataSetup", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise Stalled(f"the peer's metadata could not be made: {(made.stdout + made.stderr)[-1500:]}")
        starter: list[str | Path] = [script, "java", "org.apache.pulsar.PulsarBrokerStarter", "-c", configuration]
        self._start(starter, folder, {"MEMORY": _MEMORY})


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def no_generator(path: str | None) -> str:
    """Why the load generator cannot be used, as a sentence; empty if it can."""
    return _lacking("load generator", path, "--rawload", "BENCH_RAWLOAD")


def no_peer(path: str | None) -> str:
    return _lacking("peer", path, "--peer", "BENCH_PEER")


def _lacking(what: str, path: str | None, option: str, variable: str) -> str:
    if sys.platform != "linux":
        return "this benchmark reads /proc and pauses processes: it runs on Linux"
    if not path:
        return f"the {what} is not part of the repository: name it with {option} PATH, or set {variable}"
    if not Path(path).is_file() or not os.access(path, os.X_OK):
        return f"{option} {path}: no such program"
    return ""
