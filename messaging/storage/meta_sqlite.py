"""`MetaStore` in one SQLite file: the broker's own metadata, durable at each commit; many calls share one (`sqlite_thread.py`)."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from messaging.background import BackgroundLoop
from messaging.storage.memory_meta import namespace_of
from messaging.storage.meta_seam import NO_PROPERTIES, MetaConflict, PartitionedRecord, SubscriptionRecord, TopicRecord
from messaging.storage.reserve import NO_RESERVE, Reserve
from messaging.storage.seam import DiskFull, Position, StoreError
from messaging.storage.sqlite_thread import SqliteThread

FORMAT_VERSION = 1
LEDGER_IDS_RESERVED = 1000  # ids taken from the file at a time; those not given out before a stop are lost, which is allowed

_SCHEMA = """
create table if not exists topic (name text primary key, namespace text not null, version integer not null, record blob not null)
    without rowid;
create index if not exists topic_namespace on topic (namespace, name);
create table if not exists partitioned (name text primary key, namespace text not null, record blob not null) without rowid;
create index if not exists partitioned_namespace on partitioned (namespace, name);
create table if not exists subscription (
    id integer primary key autoincrement, topic text not null, name text not null, created_ms integer not null,
    ledger_id integer not null, entry_id integer not null, state blob not null, properties blob not null, unique (topic, name));
create table if not exists value (key text primary key, value blob not null) without rowid;
"""


class _NamedLedger(msgspec.Struct, frozen=True, gc=False):
    ledger_id: int


class _Names(msgspec.Struct, frozen=True):
    """What a topic's record says of its ledgers' names; the rest is passed over."""

    ledgers: tuple[_NamedLedger, ...] = ()


_encode = msgspec.msgpack.encode
_names_decoder = msgspec.msgpack.Decoder(_Names)
_topic_decoder = msgspec.msgpack.Decoder(TopicRecord)
_partitioned_decoder = msgspec.msgpack.Decoder(PartitionedRecord)
_properties_decoder = msgspec.msgpack.Decoder(dict[str, str])


class SqliteMetaStore:
    """`path`: the file, made on first start. Raises `StoreError` from `start` when it cannot be opened.

    When the disk is full, `reserve` keeps everything going but what makes something new: topics are refused meanwhile."""

    def __init__(self, path: Path | str, health: BackgroundLoop | None = None, reserve: Reserve = NO_RESERVE) -> None:
        self._path = Path(path)
        self._reserve = reserve
        self._thread = SqliteThread(lambda: _connect(self._path), health, reserve)
        self._call = self._thread.call
        self._ledger_id_next = 0
        self._ledger_id_stop = 0
        self._ledger_ids: asyncio.Lock | None = None

    @property
    def commits(self) -> int:
        return self._thread.commits

    async def start(self) -> None:
        self._ledger_ids = asyncio.Lock()
        self._ledger_id_next = self._ledger_id_stop = 0
        self._thread.start()
        try:
            await self._call(_open_check)
        except BaseException:
            await self.stop()
            raise
        with suppress(StoreError):  # another start will do it
            await self._call(_forget_leftovers)

    async def stop(self) -> None:
        """Waits for what is queued, then closes the file."""
        await self._thread.stop()

    def _check_space(self, name: str) -> None:
        """In the thread. Raises `DiskFull`."""
        if not self._reserve.whole and not self._reserve.fill():
            kept = f"{self._reserve.held_bytes} of {self._reserve.size_bytes} bytes kept for metadata are left"
            raise DiskFull(f"{name} cannot be made: the disk under {self._path.parent} is full ({kept}): free some space")

    async def next_ledger_id(self) -> int:
        assert self._ledger_ids is not None, "start() comes first"
        if self._ledger_id_next >= self._ledger_id_stop:
            async with self._ledger_ids:
                if self._ledger_id_next >= self._ledger_id_stop:
                    self._ledger_id_stop = await self._call(_reserve_ledger_ids)
                    self._ledger_id_next = self._ledger_id_stop - LEDGER_IDS_RESERVED
                # Taken before the lock is left: a waiter may use up the rest.
                self._ledger_id_next += 1
                return self._ledger_id_next - 1
        self._ledger_id_next += 1
        return self._ledger_id_next - 1

    async def get_topic(self, name: str) -> TopicRecord | None:
        def run(db: sqlite3.Connection) -> TopicRecord | None:
            row = db.execute("select version, record from topic where name = ?", (name,)).fetchone()
            record = _topic_decoder.decode(row[1]) if row else None
            # Of equal strings and dictionaries one is kept: the record lives as long as its topic is loaded.
            return record and replace(record, version=row[0], name=name, properties=record.properties or NO_PROPERTIES)

        return await self._call(run)

    async def cas_topic(self, record: TopicRecord) -> TopicRecord:
        written = replace(record, version=record.version + 1)
        blob = _encode(written)

        def run(db: sqlite3.Connection) -> TopicRecord:
            if record.version == 0:
                self._check_space(record.name)
                sql = "insert into topic values (?, ?, 1, ?) on conflict do nothing"
                changed = db.execute(sql, (record.name, namespace_of(record.name), blob)).rowcount
            else:
                sql = "update topic set version = ?, record = ? where name = ? and version = ?"
                changed = db.execute(sql, (written.version, blob, record.name, record.version)).rowcount
            if changed != 1:
                raise MetaConflict(f"{record.name} is not at version {record.version} any more")
            return written

        return await self._call(run)

    async def delete_topic(self, name: str, *, values: Sequence[str] = ()) -> None:
        def run(db: sqlite3.Connection) -> None:
            db.executemany("delete from value where key = ?", [(key,) for key in values])
            db.execute("delete from topic where name = ?", (name,))
            db.execute("delete from subscription where topic = ?", (name,))

        await self._call(run)

    async def list_topics(self, namespace: str, *, after: str = "", limit: int = 1000) -> list[str]:
        sql = "select name from topic where namespace = ? and name > ? order by name limit ?"
        return await self._call(lambda db: [row[0] for row in db.execute(sql, (namespace, after, limit))])

    async def list_all_topics(self, *, after: str = "", limit: int = 1000) -> list[str]:
        sql = "select name from topic where name > ? order by name limit ?"
        return await self._call(lambda db: [row[0] for row in db.execute(sql, (after, limit))])

    async def named_ledgers(self, *, after: str = "", limit: int = 1000) -> tuple[list[int], str | None]:
        def run(db: sqlite3.Connection) -> tuple[list[int], str | None]:
            sql = "select name, record from topic where name > ? order by name limit ?"
            rows = db.execute(sql, (after, limit)).fetchall()
            ids = [ledger.ledger_id for _, record in rows for ledger in _names_decoder.decode(record).ledgers]
            return ids, rows[-1][0] if len(rows) == limit else None

        return await self._call(run)

    async def get_partitioned(self, name: str) -> PartitionedRecord | None:
        def run(db: sqlite3.Connection) -> PartitionedRecord | None:
            row = db.execute("select record from partitioned where name = ?", (name,)).fetchone()
            return None if row is None else _partitioned_decoder.decode(row[0])

        return await self._call(run)

    async def put_partitioned(self, record: PartitionedRecord, *, create: bool) -> None:
        def run(db: sqlite3.Connection) -> None:
            if create:
                self._check_space(record.name)
                sql = "insert into partitioned values (?, ?, ?) on conflict do nothing"
                changed = db.execute(sql, (record.name, namespace_of(record.name), _encode(record))).rowcount
            else:
                changed = db.execute("update partitioned set record = ? where name = ?", (_encode(record), record.name)).rowcount
            if changed != 1:
                raise MetaConflict(f"partitioned topic {record.name} {'exists' if create else 'does not exist'}")

        await self._call(run)

    async def delete_partitioned(self, name: str) -> None:
        await self._call(lambda db: db.execute("delete from partitioned where name = ?", (name,)) and None)

    async def list_partitioned(self, namespace: str) -> list[PartitionedRecord]:
        sql = "select record from partitioned where namespace = ? order by name"
        return await self._call(lambda db: [_partitioned_decoder.decode(row[0]) for row in db.execute(sql, (namespace,))])

    async def subscriptions(self, topic: str) -> list[SubscriptionRecord]:
        sql = "select * from subscription where topic = ? order by name"
        return await self._call(lambda db: [_subscription(row) for row in db.execute(sql, (topic,))])

    async def create_subscription(
        self, topic: str, name: str, *, created_ms: int, mark_delete: Position, properties: dict[str, str]
    ) -> SubscriptionRecord:
        def run(db: sqlite3.Connection) -> SubscriptionRecord:
            values = (topic, name, created_ms, *mark_delete, b"", _encode(properties))
            sql = "insert into subscription values (null, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing returning *"
            row = db.execute(sql, values).fetchone()
            if row is None:
                raise MetaConflict(f"subscription {name} of {topic} exists")
            return _subscription(row)

        return await self._call(run)

    async def delete_subscription(self, topic: str, name: str) -> None:
        sql = "delete from subscription where topic = ? and name = ?"
        await self._call(lambda db: db.execute(sql, (topic, name)) and None)

    async def save_cursors(self, states: list[tuple[int, Position, bytes]]) -> None:
        rows = [(*mark_delete, state, subscription_id) for subscription_id, mark_delete, state in states]
        sql = "update subscription set ledger_id = ?, entry_id = ?, state = ? where id = ?"
        await self._call(lambda db: db.executemany(sql, rows) and None)

    async def existing_subscriptions(self, ids: Iterable[int]) -> set[int]:
        asked = json.dumps(list(ids))
        sql = "select id from subscription where id in (select value from json_each(?))"
        return await self._call(lambda db: {row[0] for row in db.execute(sql, (asked,))})

    async def get_value(self, key: str) -> bytes | None:
        def run(db: sqlite3.Connection) -> bytes | None:
            row = db.execute("select value from value where key = ?", (key,)).fetchone()
            return None if row is None else bytes(row[0])

        return await self._call(run)

    async def put_value(self, key: str, value: bytes) -> None:
        await self._call(lambda db: _put_value(db, key, bytes(value)))

    async def delete_value(self, key: str) -> None:
        await self._call(lambda db: db.execute("delete from value where key = ?", (key,)) and None)


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = full")  # WAL with less forgets commits at power loss
        db.execute("pragma temp_store = memory")  # a full disk under the system's folder for such files is no matter of ours
        version = db.execute("pragma user_version").fetchone()[0]
        if version not in (0, FORMAT_VERSION):
            raise sqlite3.DatabaseError(f"{path} has format {version}; this build reads {FORMAT_VERSION}")
        db.executescript(_SCHEMA)
        db.execute(f"pragma user_version = {FORMAT_VERSION}")
    except BaseException:
        db.close()
        raise
    return db


def _open_check(db: sqlite3.Connection) -> None:
    db.execute("select 1 from topic limit 1").fetchone()


def _forget_leftovers(db: sqlite3.Connection) -> None:
    """Values of topics (their keys are a word, a colon and the topic's name) that do not exist: earlier versions left them."""
    of_a_topic = "instr(key, '://') > 0 and (length(value) = 0 or substr(key, instr(key, ':') + 1) not in (select name from topic))"
    db.execute(f"delete from value where {of_a_topic}")


def _put_value(db: sqlite3.Connection, key: str, value: bytes) -> None:
    db.execute("insert into value values (?, ?) on conflict (key) do update set value = excluded.value", (key, value))


def _reserve_ledger_ids(db: sqlite3.Connection) -> int:
    """Moves the durable bound on and returns it: ids below it are ours to give out. The first id is 1."""
    row = db.execute("select value from value where key = 'store/ledger-id-stop'").fetchone()
    stop = (int(row[0]) if row else 1) + LEDGER_IDS_RESERVED
    _put_value(db, "store/ledger-id-stop", str(stop).encode())
    return stop


def _subscription(row: tuple[Any, ...]) -> SubscriptionRecord:
    return SubscriptionRecord(
        row[0], row[1], row[2], row[3], Position(row[4], row[5]), bytes(row[6]), _properties_decoder.decode(row[7])
    )
