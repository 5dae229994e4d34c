"""What a database holds at one moment, written to a file later: a read transaction that is begun at the moment and kept until then.

SQLite's backup API reads within it, and `pg_dump` joins it by the name that the server gave its snapshot.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from controlplane.backup.copies import Copies
from messaging.settings import ConfigError
from messaging.storage.postgresql.connection import words_of

CONNECT_S = 10
_BUSY_S = 20.0


class DatabaseSnapshot(Protocol):
    def begin(self) -> None:
        """What is committed from here on is not part of it. Takes milliseconds."""

    def write(self, copies: Copies) -> None: ...
    def migrations(self) -> list[str]:
        """Those of the control plane that the database has, as app.name; none if it is another database."""

    def close(self) -> None: ...


class SqliteSnapshot:
    """`name`: of the file in the backup."""

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        self._db = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_S)

    def begin(self) -> None:
        self._db.execute("begin")
        self._db.execute("select count(*) from sqlite_master").fetchone()  # the snapshot is that of the first read

    def write(self, copies: Copies) -> None:
        with closing(sqlite3.connect(copies.made(self._name), isolation_level=None)) as target:
            self._db.backup(target, pages=-1)
            target.execute("pragma journal_mode = delete")  # one file, without a log beside it
        copies.finished(self._name)

    def migrations(self) -> list[str]:
        if self._db.execute("select 1 from sqlite_master where name = 'django_migrations'").fetchone() is None:
            return []
        return [f"{app}.{name}" for app, name in self._db.execute("select app, name from django_migrations order by app, name")]

    def close(self) -> None:
        self._db.close()


class PostgresqlSnapshot:
    """Schemas of one database. `parts`: the schema of each, and the name of its file in the backup."""

    def __init__(self, url: str, setting: str) -> None:
        """Raises `ConfigError`."""
        self._url = url
        self._setting = setting
        self.parts: dict[str, str] = {}
        self._connection = connected(url, setting)
        self._connection.autocommit = False
        self._snapshot = ""
        row = self._ask("select current_database(), pg_postmaster_start_time(), current_setting('server_version_num')::int / 10000")
        *self._identity, self._server_version = row

    @property
    def identity(self) -> tuple[Any, ...]:
        """The same for every address of the same database."""
        return tuple(self._identity)

    def begin(self) -> None:
        self._connection.rollback()
        self._connection.execute("set transaction isolation level repeatable read, read only")
        (self._snapshot,) = self._ask("select pg_export_snapshot()")

    def write(self, copies: Copies) -> None:
        require_tool("pg_dump", self._server_version)
        for schema, name in self.parts.items():
            path = copies.made(name)
            arguments = ["--format=custom", "--compress=1", f"--snapshot={self._snapshot}", f"--schema={schema}"]
            run_tool(["pg_dump", *arguments, "--no-owner", "--no-acl", f"--file={path}"], self._url, self._setting)
            copies.finished(name)

    def migrations(self) -> list[str]:
        if self._ask("select to_regclass('public.django_migrations') is not null") != (True,) or "public" not in self.parts:
            return []
        rows = self._connection.execute("select app, name from public.django_migrations order by app, name").fetchall()
        return [f"{app}.{name}" for app, name in rows]

    def brokers_connected(self) -> int:
        """Sessions of brokers, of any machine."""
        (count,) = self._ask(
            "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'magnetar broker'"
        )
        return int(count)

    def close(self) -> None:
        self._connection.close()

    def _ask(self, sql: str) -> tuple[Any, ...]:
        row = self._connection.execute(sql.encode()).fetchone()
        assert row is not None
        return row


def connected(url: str, setting: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Raises `ConfigError`."""
    try:
        return psycopg.connect(url, connect_timeout=CONNECT_S, application_name="magnetar backup", autocommit=True)
    except psycopg.Error as error:
        raise ConfigError(f"the PostgreSQL of {setting} cannot be reached: {words_of(error)}") from None


def require_tool(name: str, server_version: int) -> None:
    """Raises `ConfigError` unless the program is here and at least as new as the server."""
    if shutil.which(name) is None:
        raise ConfigError(
            f"{name} is not installed, which reads and writes copies of PostgreSQL: apt-get install postgresql-client"
        )
    says = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)(?:\.\d+)?", says)
    if found is None or int(found[1]) < server_version:
        raise ConfigError(
            f"{name} is of version {found[1] if found else 'unknown'}, the server of {server_version}: install the client programs "
            f"of PostgreSQL {server_version} or newer"
        )


def run_tool(command: Sequence[str], url: str, setting: str) -> None:
    """Runs a program of PostgreSQL on the database of `url`, without its password on the command line. Raises `ConfigError`."""
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    password = parts.pop("password", None)
    environment = dict(os.environ) | ({"PGPASSWORD": password} if password else {})
    done = subprocess.run([*command, "--dbname", make_conninfo("", **parts)], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if line] or ["it said nothing"]
        raise ConfigError(f"{command[0]} failed on the PostgreSQL of {setting}: {lines[0]}")
