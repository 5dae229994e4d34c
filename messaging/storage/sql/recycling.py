"""The recycle bin in the tables of `tables.py`: rows of deleted topics, under the names of their places."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from msgspec import structs

from messaging.storage.meta_store import (
    NO_TIMES,
    MetaConflict,
    PartitionedRecord,
    creation_conflict,
    namespace_of,
    partitioning_conflict,
)
from messaging.storage.recycled_topic import RecycledTopic, ValueKeys
from messaging.storage.sql import tables
from messaging.storage.sql.thread import Database

NOWHERE = ""  # the namespace of rows in the bin: no list of a namespace has them
_decoder = msgspec.msgpack.Decoder(RecycledTopic)

RESTORES = "store/restores"  # in place of a scope: how many topics came back so far


def recycle(db: Database, name: str, record: RecycledTopic, values: ValueKeys, listed: bool) -> None:
    place = record.place_of(name)
    _move(db, name, place, values)
    partitioned = tables.partitioned(db, name)
    if partitioned is not None:
        db.execute("delete from partitioned where name = ?", (name,))
        _put_partitioned(db, replace(partitioned, name=place, deleting=False, recycling=None))
    if listed:
        sizes = [
            sum(ledger.length_bytes for ledger in tables.topic_decoder.decode(blob).ledgers)
            for (blob,) in db.execute("select record from topic where name >= ? and name < ?", _within(record.places))
        ]
        _list(db, structs.replace(record, topics=len(sizes), stored_bytes=sum(sizes)))


def restores(db: Database) -> int:
    (count,) = db.execute("select epoch from fence where scope = ?", (RESTORES,)).fetchone() or (0,)
    return int(count)


def restore(db: Database, name: str, record: RecycledTopic, values: ValueKeys, listed: bool) -> None:
    place = record.place_of(name)
    partitioned = tables.partitioned(db, place)
    if listed:
        stored = get(db, record.recycle_id)
        if stored is None or stored.purging:
            raise MetaConflict(f"{record.recycle_id} is not in the recycle bin any more")
        if partitioned is None:
            db.execute("delete from recycled where id = ?", (record.recycle_id,))
    alike = tables.called_alike(db, name)
    why = (
        creation_conflict(name, lambda text: tables.partitioned(db, text))
        if partitioned is None
        else f"topic {name} exists already"
        if tables.partitioned(db, name) is not None
        else partitioning_conflict(name, alike)
    )
    if not why and db.execute("select 1 from topic where name = ?", (name,)).fetchone():
        why = f"topic {name} exists already"
    if not why and db.execute("select 1 from schema_version where topic = ? limit 1", (name,)).fetchone():
        why = f"topic {name} was given a schema after it had been deleted"
    if why:
        raise MetaConflict(why)
    db.execute("delete from subscription where topic = ?", (name,))  # of no topic: something that was interrupted left it
    db.executemany("delete from value where key = ?", [(key(name),) for key in values])
    _move(db, place, name, values)
    tables.raise_epoch(db, RESTORES, 0)
    row = db.execute("select version, record from topic where name = ?", (name,)).fetchone()
    if row is not None:  # since when nobody used it is not known: it was away
        version, blob = row
        back = replace(tables.topic_decoder.decode(blob), name=name, version=version + 1, idle_since=NO_TIMES)
        db.execute("update topic set version = ?, record = ? where name = ?", (back.version, tables.encode(back), name))
    if partitioned is not None:
        db.execute("delete from partitioned where name = ?", (place,))
        _put_partitioned(db, replace(partitioned, name=name, version=partitioned.version + 1, restoring=record))


def end_restore(db: Database, name: str, record: RecycledTopic) -> PartitionedRecord:
    partitioned = tables.partitioned(db, name)
    if partitioned is None or partitioned.restoring is None or partitioned.restoring.recycle_id != record.recycle_id:
        raise MetaConflict(f"{name} is not being restored")
    written = replace(partitioned, version=partitioned.version + 1, restoring=None)
    db.execute("update partitioned set record = ? where name = ?", (tables.encode(written), name))
    db.execute("delete from recycled where id = ?", (record.recycle_id,))
    return written


def get(db: Database, recycle_id: str) -> RecycledTopic | None:
    row = db.execute("select record from recycled where id = ?", (recycle_id,)).fetchone()
    return None if row is None else _decoder.decode(row[0])


def listed(db: Database, namespace: str, after: str, limit: int) -> list[RecycledTopic]:
    sql = "select record from recycled where namespace = ? and id > ? and expires_ms > 0 order by id limit ?"
    return [_decoder.decode(blob) for (blob,) in db.execute(sql, (namespace, after, limit))]


def expired(db: Database, now_ms: int, limit: int) -> list[RecycledTopic]:
    sql = "select record from recycled where expires_ms <= ? order by expires_ms limit ?"
    return [_decoder.decode(blob) for (blob,) in db.execute(sql, (now_ms, limit))]


def count(db: Database, tenant: str) -> int:
    sql = "select coalesce(sum(topics), 0) from recycled where namespace >= ? and namespace < ?"
    (topics,) = db.execute(sql, tables.namespaces_of(tenant)).fetchone()
    return int(topics)


def count_within(db: Database, within: str) -> tuple[int, int]:
    tables_of = ("subscription", "schema_version")
    sql = [f"select count(*) from {table} where topic >= ? and topic < ?" for table in tables_of]
    subscriptions, schemas = (int(db.execute(each, _within(within)).fetchone()[0]) for each in sql)
    return subscriptions, schemas


def places(db: Database, within: str, after: str, limit: int) -> list[str]:
    begin, end = _within(within)
    sql = "select name from topic where name > ? and name < ? order by name limit ?"
    return [name for (name,) in db.execute(sql, (max(begin, after), end, limit))]


def begin_purge(db: Database, recycle_id: str) -> None:
    record = get(db, recycle_id)
    if record is None:
        raise MetaConflict(f"{recycle_id} is not in the recycle bin any more")
    _list(db, structs.replace(record, expires_ms=0))


def forget(db: Database, record: RecycledTopic) -> None:
    place = record.place_of(record.name)
    db.execute("delete from partitioned where name = ?", (place,))
    db.execute("delete from schema_version where topic = ?", (place,))  # of a partitioned topic
    db.execute("delete from recycled where id = ?", (record.recycle_id,))


def _list(db: Database, record: RecycledTopic) -> None:
    values = (record.recycle_id, record.namespace, record.expires_ms, record.topics, tables.encode(record))
    changes = ", ".join(f"{column} = excluded.{column}" for column in ("namespace", "expires_ms", "topics", "record"))
    db.execute(f"insert into recycled values (?, ?, ?, ?, ?) on conflict (id) do update set {changes}", values)


def _put_partitioned(db: Database, record: PartitionedRecord) -> None:
    namespace = NOWHERE if record.restoring is None else namespace_of(record.name)
    db.execute("insert into partitioned values (?, ?, ?)", (record.name, namespace, tables.encode(record)))


def _move(db: Database, name: str, new: str, values: ValueKeys) -> None:
    namespace = namespace_of(new) if new.startswith("persistent://") else NOWHERE
    db.execute("update topic set name = ?, namespace = ? where name = ?", (new, namespace, name))
    db.execute("update subscription set topic = ? where topic = ?", (new, name))
    db.execute("update schema_version set topic = ?, namespace = ? where topic = ?", (new, namespace, name))
    db.executemany("update value set key = ? where key = ?", [(key(new), key(name)) for key in values])


def _within(begin: str) -> tuple[str, str]:
    return begin, f"{begin[:-1]}0"  # "0" follows "/"
