"""`MetaStore` in one SQLite file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from messaging.atomic_files import make_directory
from messaging.background import BackgroundLoop
from messaging.storage.disk_reserve import NO_RESERVE, DiskReserve
from messaging.storage.ledger_store import DiskFull
from messaging.storage.sql.meta_store import SqlMetaStore
from messaging.storage.sql.tables import FORMAT_VERSION
from messaging.storage.sql.topic_pages import MARK, TopicPages
from messaging.storage.sqlite.thread import SqliteThread, shrink_log

_SCHEMA = """
create table if not exists topic (name text primary key, namespace text not null, version integer not null, record blob not null)
    without rowid;
create index if not exists topic_namespace on topic (namespace, name);
create table if not exists partitioned (name text primary key, namespace text not null, record blob not null) without rowid;
create index if not exists partitioned_namespace on partitioned (namespace, name);
create table if not exists subscription (
    id integer primary key autoincrement, topic text not null, name text not null, created_ms integer not null,
    ledger_id integer not null, entry_id integer not null, state blob not null, properties blob not null, unique (topic, name));
create table if not exists schema_version (
    topic text not null, version integer not null, namespace text not null, record blob not null, primary key (topic, version))
    without rowid;
create index if not exists schema_namespace on schema_version (namespace, topic);
create table if not exists recycled (
    id text primary key, namespace text not null, expires_ms integer not null, topics integer not null, record blob not null)
    without rowid;
create index if not exists recycled_namespace on recycled (namespace, id);
create index if not exists recycled_expiry on recycled (expires_ms);
create table if not exists broker_session (
    broker_id text primary key, session integer not null, addresses blob not null, expires_ms integer not null) without rowid;
create table if not exists bundle_owner (
    namespace text not null, lower integer not null, upper integer not null, broker_id text not null, session integer not null,
    epoch integer not null, state text not null, pinned integer not null, change integer not null,
    primary key (namespace, lower, upper)) without rowid;
create index if not exists bundle_owner_change on bundle_owner (change);
create table if not exists fence (scope text primary key, epoch integer not null) without rowid;
create table if not exists value (key text primary key, value blob not null) without rowid;
"""

_NUMBERS = ("[0-9]", *("[1-9]" + "[0-9]" * digits for digits in range(1, 6)))  # one spelling per number: 07 is not 7
PAGES = TopicPages(
    "(" + " or ".join(f"name glob '*{MARK}{number}'" for number in _NUMBERS) + ")", uses=" indexed by {}"
)  # its planner takes other indexes

NOW_MS = "select cast((julianday('now') - 2440587.5) * 86400000 as integer)"


class SqliteMetaStore(SqlMetaStore):
    """`path`: the file, made on first start. Raises `StoreError` from `start` when it cannot be opened.

    When the disk is full, `reserve` keeps everything going but what makes something new: topics are refused meanwhile."""

    def __init__(self, path: Path | str, health: BackgroundLoop | None = None, reserve: DiskReserve = NO_RESERVE) -> None:
        self._path = Path(path)
        self._reserve = reserve
        super().__init__(SqliteThread(lambda: connect(self._path), health, reserve), PAGES, NOW_MS)

    def check_space(self, name: str) -> None:
        if not self._reserve.whole and not self._reserve.fill():
            kept = f"{self._reserve.held_bytes} of {self._reserve.size_bytes} bytes kept for metadata are left"
            raise DiskFull(f"{name} cannot be created: the disk under {self._path.parent} is full ({kept}): free some space")


def connect(path: Path) -> sqlite3.Connection:
    make_directory(path.parent)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = full")  # WAL with less forgets commits at power loss
        db.execute("pragma temp_store = memory")  # a full disk under the system's folder for such files is no matter of ours
        (version,) = db.execute("pragma user_version").fetchone()
        if version not in (0, FORMAT_VERSION):
            raise sqlite3.DatabaseError(f"{path} has format {version}; this release reads version {FORMAT_VERSION}")
        shrink_log(db)  # what follows writes to it, and the disk may be full
        db.executescript(_SCHEMA + PAGES.indexes)
        if version != FORMAT_VERSION:
            db.execute(f"pragma user_version = {FORMAT_VERSION}")
    except BaseException:
        db.close()
        raise
    return db
