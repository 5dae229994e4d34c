"""A PostgreSQL server of a test's own, from Debian's package: kept in a folder, on an address that the test names."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psycopg

from tests.support.waiting import eventually_sync

_PACKAGES = Path("/usr/lib/postgresql")
NEEDED = "a PostgreSQL server (Debian: postgresql)"
STAND_BY = "standby"


def installed() -> bool:
    return any(_PACKAGES.glob("*/bin/initdb"))


class PostgresqlServer:
    """`host`: an address to listen on, or "" for a Unix socket in `folder` alone. `before`: what each command begins with, as one
    that enters a network namespace. PostgreSQL does not run as root, so `postgres` owns the folder then, which it has to reach."""

    def __init__(self, folder: Path, port: int = 54_999, host: str = "", before: Sequence[str] = ()) -> None:
        self.folder, self.host, self.port = folder, host, port
        self.data = folder / "data"
        self.bin = sorted(_PACKAGES.glob("*/bin"))[-1]
        self._before = before
        folder.mkdir(exist_ok=True)
        self.give(folder)

    @property
    def url(self) -> str:
        if self.host:
            return f"postgresql://postgres@{self.host}:{self.port}/postgres"
        return f"postgresql://postgres@/postgres?host={self.folder}&port={self.port}"

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """By the Unix socket, whatever became of the network."""
        return psycopg.connect(f"postgresql://postgres@/postgres?host={self.folder}&port={self.port}", autocommit=True)

    def give(self, path: Path) -> None:
        if os.getuid() == 0:
            shutil.chown(path, "postgres", "postgres")

    def run(self, program: str, *arguments: str) -> None:
        user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.getuid() == 0 else []
        command = [*self._before, *user, str(self.bin / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd="/")
        assert done.returncode == 0, f"{program} {arguments}: {done.stdout} {done.stderr} {self.log}"

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    def configure(self, settings: str) -> None:
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"{settings}\n")

    def _listen(self) -> None:
        self.configure(f"unix_socket_directories = '{self.folder}'\nlisten_addresses = '{self.host}'\nport = {self.port}")

    def create(self, settings: str = "") -> None:
        self.run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--no-sync")
        self._listen()
        self.configure(f"max_connections = 200\n{settings}")
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write("host all all 0.0.0.0/0 trust\nhost replication all 0.0.0.0/0 trust\n")

    def copy(self, primary: PostgresqlServer) -> None:
        """Becomes the standby of a server that runs, which it follows once it is started. It tells its name, STAND_BY."""
        more = "?" if primary.host else "&"
        source = f"{primary.url}{more}application_name={STAND_BY}"
        self.run("pg_basebackup", "-d", source, "-D", str(self.data), "-X", "stream", "-c", "fast", "-R")
        self._listen()

    def start(self) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-w", "-l", str(self.folder / "log"), "start")

    def stop(self, mode: str = "fast") -> None:
        """`mode` immediate is a crash: nothing is finished."""
        self.run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def promote(self) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-w", "promote")

    def close(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self.signal(signal.SIGCONT)
            self.stop("immediate")

    def processes(self) -> list[int]:
        """The server's first one, and all that it has started."""
        first = int((self.data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    def signal(self, number: int) -> None:
        """To all of its processes, the first one before those that it starts."""
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def crash(self) -> None:
        """`kill -9` of all, as a machine ends."""
        pids = self.processes()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        eventually_sync(lambda: not any(_runs(pid) for pid in pids), 20)
        # The first one may have nobody yet who takes note of its end, and a server that starts would take it for alive.
        for lock in (self.data / "postmaster.pid", self.folder / f".s.PGSQL.{self.port}.lock"):
            lock.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
