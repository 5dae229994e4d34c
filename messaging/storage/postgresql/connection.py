"""A connection to PostgreSQL that takes the SQL of `messaging/storage/sql`, and the tables that it finds there.

The tables are in a schema of their own, so that the control plane may use the same database. Whatever a commit confirms is on the
server's disk, and on that of a synchronous standby where the server has one. A broker that is stopped in the middle of a
transaction keeps its locks for `IDLE_S` at most: then the server ends the transaction, and another broker may take over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, cast

import psycopg
from psycopg.pq import TransactionStatus

from messaging.storage.ledger_store import Unavailable, Unreachable
from messaging.storage.postgresql.commit import commit, confirm_earlier
from messaging.storage.postgresql.timeouts import TIMEOUTS
from messaging.storage.sql.tables import FORMAT_VERSION
from messaging.storage.sql.topic_pages import MARK, TopicPages

SCHEMA = "magnetar_broker"
_NEWEST_TABLE = "bundle_owner"  # where it is, all others are
STATEMENT_S = 30
LOCK_S = 10
METADATA_LOCK_MS = 100
IDLE_S = 10
_GUARD = 0x6D61676E  # the advisory lock of those who make the tables: two brokers may start at once

# Names are compared byte by byte, as everywhere else; `instr` is what SQLite calls `strpos`.
PAGES = TopicPages(f"(name ~ '{MARK}(0|[1-9][0-9]{{0,5}})$')")
NOW_MS = "select cast(extract(epoch from clock_timestamp()) * 1000 as bigint)"
_TABLES = f"""
create schema if not exists {SCHEMA};
set local search_path to {SCHEMA};
create table if not exists format (version integer not null);
create table if not exists topic (
    name text collate "C" primary key, namespace text collate "C" not null, version bigint not null, record bytea not null);
create index if not exists topic_namespace on topic (namespace, name);
create table if not exists partitioned (
    name text collate "C" primary key, namespace text collate "C" not null, record bytea not null);
create index if not exists partitioned_namespace on partitioned (namespace, name);
create table if not exists subscription (
    id bigint generated always as identity primary key, topic text collate "C" not null, name text collate "C" not null,
    created_ms bigint not null, ledger_id bigint not null, entry_id bigint not null, state bytea not null,
    properties bytea not null, unique (topic, name));
create table if not exists schema_version (
    topic text collate "C" not null, version bigint not null, namespace text collate "C" not null, record bytea not null,
    primary key (topic, version));
create index if not exists schema_namespace on schema_version (namespace, topic);
create table if not exists recycled (
    id text collate "C" primary key, namespace text collate "C" not null, expires_ms bigint not null, topics bigint not null,
    record bytea not null);
create index if not exists recycled_namespace on recycled (namespace, id);
create index if not exists recycled_expiry on recycled (expires_ms);
create table if not exists broker_session (
    broker_id text collate "C" primary key, session bigint not null, addresses bytea not null, expires_ms bigint not null);
create table if not exists bundle_owner (
    namespace text collate "C" not null, lower bigint not null, upper bigint not null, broker_id text collate "C" not null,
    session bigint not null, epoch bigint not null, state text not null, pinned bigint not null, change bigint not null,
    primary key (namespace, lower, upper));
create index if not exists bundle_owner_change on bundle_owner (change);
create table if not exists fence (scope text collate "C" primary key, epoch bigint not null);
create table if not exists value (key text collate "C" primary key, value bytea not null);
{PAGES.indexes}
create or replace function instr(text, text) returns integer language sql immutable as 'select strpos($1, $2)';
"""


class PostgresqlConnection:
    """`messaging.storage.sql.thread.Database`. Of one thread."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return self._connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> psycopg.Cursor[tuple[Any, ...]]:
        return self._connection.execute(_translated(sql), parameters)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> None:
        self._connection.cursor().executemany(_translated(sql), parameters)

    def commit(self) -> None:
        commit(self._connection)

    def close(self) -> None:
        self._connection.close()


@lru_cache(512)
def _translated(sql: str) -> bytes:
    """psycopg wants other placeholders. No statement of ours has a question or percent sign of its own."""
    return sql.replace("?", "%s").encode()


def connect(url: str) -> PostgresqlConnection:
    """Makes the tables where they are missing. Blocks. Raises `Unavailable`, and `psycopg.Error` for what goes wrong later."""
    connection = open_session(url, "metadata_url")
    try:
        # Calls read first and then change: several brokers do it at once.
        connection.execute("set default_transaction_isolation = serializable")
        _make_tables(connection)
        connection.execute(f"set search_path = {SCHEMA}".encode())
        # Other tenants wait as long as a call waits for a lock: it is tried again later.
        connection.execute(f"set lock_timeout = '{METADATA_LOCK_MS}ms'".encode())
    except BaseException:
        connection.close()
        raise
    return PostgresqlConnection(connection)


def open_session(url: str, setting: str) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection whose commits are on disk. `setting`: where the operator wrote the URL. Blocks. Raises `Unavailable`."""
    try:
        connection = psycopg.connect(
            url,
            autocommit=True,
            application_name="magnetar broker",
            **TIMEOUTS,
        )
    except psycopg.Error as error:
        raise Unreachable(f"the PostgreSQL of {setting} cannot be reached: {words_of(error)}") from error
    try:
        for name, value in _SESSION.items():
            connection.execute(f"set {name} = {value}".encode())
    except BaseException:
        connection.close()
        raise
    return connection


_SESSION = {
    "synchronous_commit": "on",
    "statement_timeout": f"'{STATEMENT_S}s'",
    "lock_timeout": f"'{LOCK_S}s'",
    "idle_in_transaction_session_timeout": f"'{IDLE_S}s'",
}


def _make_tables(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Raises `Unavailable` for the tables of another release, and for a server that cannot be written to."""
    require_writable(connection, "metadata_url")
    (exists,) = cast(tuple[Any], connection.execute("select to_regclass(%s)", (f"{SCHEMA}.{_NEWEST_TABLE}",)).fetchone())
    if exists is None:
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", (_GUARD,))
            connection.execute(_TABLES.encode())
            if connection.execute("select 1 from format").fetchone() is None:
                connection.execute("insert into format values (%s)", (FORMAT_VERSION,))
    (version,) = connection.execute(f"select version from {SCHEMA}.format".encode()).fetchone() or (0,)
    if version != FORMAT_VERSION:
        raise Unavailable(f"the schema {SCHEMA} in PostgreSQL has format {version}; this release reads version {FORMAT_VERSION}")


def require_writable(connection: psycopg.Connection[tuple[Any, ...]], setting: str) -> None:
    """And that it confirms what is written. Raises `Unavailable`."""
    (read_only,) = cast(tuple[Any], connection.execute("show transaction_read_only").fetchone())
    if read_only == "on":
        raise Unavailable(f"the PostgreSQL of {setting} is read-only, as a standby is: name the primary")
    confirm_earlier(connection, TIMEOUTS["connect_timeout"], setting)


def words_of(error: BaseException) -> str:
    """On one line. psycopg names host, port and user there, never a password."""
    return " ".join(str(error).split())[:300]
