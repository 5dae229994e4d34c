"""A ZooKeeper and bookies, each a process of its own in a folder of its own, which a test kills, stops and starts."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from kazoo.client import KazooClient

from tests.support.bookkeeper.install import HOME
from tests.support.waiting import eventually_sync

_DEBIAN_ZOOKEEPER = Path("/etc/zookeeper/conf/environment")
_OPENED = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "jdk.internal.misc", "java.io", "java.util.zip")
]
_SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=256m")
_JAVA = ["java", *_SMALL, *_OPENED]
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
_CLASS_PATH = f"{HOME}/classes:{HOME}/lib/*"


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def listens(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket() as connecting:
        connecting.settimeout(1)
        return connecting.connect_ex((host, port)) == 0


class Place(NamedTuple):
    """Where a server runs: its address, and what its command begins with, as one that enters a network namespace."""

    host: str = "127.0.0.1"
    before: Sequence[str] = ()


_LOOPBACK = Place()


def _here(name: str) -> Place:
    return _LOOPBACK


def zookeeper_class_path() -> str:
    """Debian's package where it is installed, else the one that the bookies bring along."""
    if _DEBIAN_ZOOKEEPER.exists():
        match = re.search(r'^CLASSPATH="?([^"\n]*)"?$', _DEBIAN_ZOOKEEPER.read_text(), re.MULTILINE)
        if match is not None:
            # Its list misses one that is installed, without which there is no TLS.
            return match[1].replace("$ZOOCFGDIR", "/etc/zookeeper/conf") + ":/usr/share/java/netty-codec.jar"
    return _CLASS_PATH


class Server:
    """One Java process; its output is in `log`."""

    def __init__(self, folder: Path, command: list[str], port: int, place: Place = _LOOPBACK) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = port
        self.host = place.host
        self._command = [*place.before, *command]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder)

    def wait(self) -> None:
        process = self._process
        assert process is not None

        def up() -> bool:
            if process.poll() is not None:
                raise RuntimeError(f"{self.folder.name} ended with {process.returncode}: {self.log}")
            return listens(self.port, self.host)

        eventually_sync(up, timeout_s=60)

    def ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Not a signal that it could handle: it stands still, connections stay."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


def pkcs8(certificate: trustme.LeafCert) -> bytes:
    """Its key, in the only format that Netty and ZooKeeper take."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def zookeeper_server(folder: Path, place: Place = _LOOPBACK, settings: str = "") -> Server:
    port = free_port()
    (folder / "data").mkdir(parents=True)
    (folder / "zoo.cfg").write_text(
        f"clientPort={port}\nclientPortAddress={place.host}\ndataDir={folder}/data\ntickTime=500\n"
        f"admin.enableServer=false\nforceSync=no\n4lw.commands.whitelist=*\n{settings}"
    )
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    command = [*_JAVA, _QUIET, "-cp", zookeeper_class_path(), main, str(folder / "zoo.cfg")]
    return Server(folder, command, port, place)


class Cluster:
    """`bookies[i]` is registered as `names[i]`. `settings` of the bookies and `options` of their Java virtual machines are those
    of tests, unless others are named. `place` tells where "zookeeper" and "bookie-0", ... are to run."""

    def __init__(
        self,
        folder: Path,
        bookies: int,
        settings: Mapping[str, object] | None = None,
        options: Sequence[str] = _SMALL,
        place: Callable[[str], Place] = _here,
    ) -> None:
        self._settings = dict(settings or {})
        self._options = options
        self.folder = folder
        self._place = place
        here = place("zookeeper")
        self.zookeeper = zookeeper_server(folder / "zookeeper", here)
        self.zookeeper_port = self.zookeeper.port
        self.hosts = f"{here.host}:{self.zookeeper_port}"
        self.uri = f"zk+hierarchical://{self.hosts}/ledgers"
        self.authority = trustme.CA()
        self._write_certificates()
        self.bookies = [self._bookie(number) for number in range(bookies)]

    @property
    def names(self) -> list[str]:
        return [f"{bookie.host}:{bookie.port}" for bookie in self.bookies]

    def start(self) -> None:
        self.zookeeper.start()
        self.zookeeper.wait()
        shell = [*_JAVA, _QUIET, "-cp", _CLASS_PATH, "org.apache.bookkeeper.bookie.BookieShell"]
        conf = str(self.bookies[0].folder / "bookie.conf")
        done = subprocess.run([*shell, "-conf", conf, "initnewcluster"], capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stdout + done.stderr
        for bookie in self.bookies:
            bookie.start()
        for bookie in self.bookies:
            bookie.wait()
        self._wait_for_registrations()

    def _wait_for_registrations(self) -> None:
        """They listen before they are in ZooKeeper."""
        kazoo = KazooClient(self.hosts)
        kazoo.start()
        try:
            available = "/ledgers/available"
            eventually_sync(lambda: set(self.names) <= set(kazoo.get_children(available)), timeout_s=60)
        finally:
            kazoo.stop()
            kazoo.close()

    def kill(self) -> None:
        for server in (*self.bookies, self.zookeeper):
            server.kill()

    def make_whole(self) -> None:
        """Starts again what was left killed, and lets go on what was left standing still; all are registered then."""
        servers = [self.zookeeper, *self.bookies]
        for server in servers:
            if server.ended():
                server.start()
            else:
                server.go_on()
        for server in servers:
            server.wait()
        self._wait_for_registrations()

    def bookie_named(self, name: str) -> Server:
        return self.bookies[self.names.index(name)]

    def one_more(self) -> Server:
        bookie = self._bookie(len(self.bookies))
        self.bookies.append(bookie)
        return bookie

    def autorecovery(self) -> Server:
        """BookKeeper's repair, which waits 2 s before it takes an open ledger with a missing bookie from its writer."""
        folder = self.folder / "autorecovery"
        folder.mkdir()
        settings = {
            "metadataServiceUri": self.uri,
            "advertisedAddress": "127.0.0.1",
            "allowLoopback": "true",
            "bookiePort": free_port(),
            "openLedgerRereplicationGracePeriod": 2000,
            "lostBookieRecoveryDelay": 0,
            "auditorPeriodicBookieCheckInterval": 2,
            "rwRereplicateBackoffMs": 500,
            "zkTimeout": 6000,
            "httpServerEnabled": "false",
        }
        conf = folder / "autorecovery.conf"
        conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        main = ["org.apache.bookkeeper.replication.AutoRecoveryMain", "--conf", str(conf)]
        return Server(folder, [*_JAVA, _QUIET, "-cp", _CLASS_PATH, *main], 0)

    def stored_bytes(self) -> int:
        """Of the entry logs of all bookies."""
        return sum(path.stat().st_blocks * 512 for bookie in self.bookies for path in bookie.folder.glob("ledgers/current/*.log"))

    def _write_certificates(self) -> None:
        certificate = self.authority.issue_cert("127.0.0.1", "localhost")
        (self.folder / "key.pem").write_bytes(pkcs8(certificate))
        (self.folder / "certificate.pem").write_bytes(b"".join(part.bytes() for part in certificate.cert_chain_pems))
        self.authority.cert_pem.write_to_path(str(self.folder / "authority.pem"))

    def _bookie(self, number: int) -> Server:
        folder, port, place = self.folder / f"bookie-{number}", free_port(), self._place(f"bookie-{number}")
        folder.mkdir(parents=True)
        settings = {
            "metadataServiceUri": self.uri,
            "bookiePort": port,
            "advertisedAddress": place.host,
            "allowLoopback": "true",
            "journalDirectory": folder / "journal",
            "ledgerDirectories": folder / "ledgers",
            "journalMaxSizeMB": 16,
            "journalPreAllocSizeMB": 1,
            "journalSyncData": "false",
            "gcWaitTime": 1000,
            "diskUsageThreshold": 0.99,
            "diskUsageWarnThreshold": 0.98,
            "zkTimeout": 6000,
            "httpServerEnabled": "false",
            # A client that starts TLS shows a certificate; one that does not is served in clear.
            "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
            "tlsProvider": "JDK",
            "tlsClientAuthentication": "true",
            "tlsKeyStoreType": "PEM",
            "tlsKeyStore": self.folder / "key.pem",
            "tlsCertificatePath": self.folder / "certificate.pem",
            "tlsTrustStoreType": "PEM",
            "tlsTrustStore": self.folder / "authority.pem",
            "skipListSizeLimit": 8 * 1024 * 1024,
            "nettyMaxFrameSizeBytes": 5 * 1024 * 1024,
            "logSizeLimit": 4 * 1024 * 1024,
            "entryLogFilePreallocationEnabled": "false",
            "flushInterval": 1000,
        } | self._settings
        (folder / "bookie.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        main = ["org.apache.bookkeeper.server.Main", "--conf", str(folder / "bookie.conf")]
        return Server(folder, ["java", *self._options, *_OPENED, _QUIET, "-cp", _CLASS_PATH, *main], port, place)


class Peer:
    """Apache's client, in a process of its own."""

    def __init__(self, uri: str) -> None:
        command = [*_JAVA, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", _CLASS_PATH, "Peer", uri]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._read() == ["ready"]

    def ask(self, *words: object) -> list[str]:
        """The words of its answer. Raises `PeerError` with what it said."""
        stdin = self._pipe(self._process.stdin)
        stdin.write(" ".join(str(word) for word in words) + "\n")
        stdin.flush()
        return self._read()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._pipe(self._process.stdin).close()
        self._pipe(self._process.stdout).close()

    def _read(self) -> list[str]:
        for line in self._lines():
            kind, *words = line.split()
            if kind == "ok":
                return words
            if kind == "error":
                raise PeerError(" ".join(words))
        raise PeerError("it ended")

    def _lines(self) -> Iterable[str]:
        return iter(self._pipe(self._process.stdout).readline, "")

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


class PeerError(Exception):
    pass


@contextmanager
def running_cluster(folder: Path, bookies: int = 4) -> Iterator[Cluster]:
    cluster = Cluster(folder, bookies)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()
