"""`MetaStore` in tables: the brokers' own metadata, durable at each commit; many calls share one (`thread.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from messaging.storage.ledger_store import Fence, Position, StoreError
from messaging.storage.meta_store import (
    NO_PROPERTIES,
    NO_TIMES,
    MetaConflict,
    PageTopic,
    PartitionedRecord,
    SearchResult,
    SubscriptionRecord,
    TopicCounts,
    TopicRecord,
    creation_conflict,
    namespace_of,
    partitioning_conflict,
    tenant_of,
    version_conflict,
)
from messaging.storage.recycled_topic import PREFIX, RECYCLED, RecycledTopic, ValueKeys
from messaging.storage.sql import recycling, tables
from messaging.storage.sql.ownership import SqlOwnershipStore
from messaging.storage.sql.thread import CommitThread, Database
from messaging.storage.sql.topic_pages import TopicPages

T = TypeVar("T")

CURSORS = "/cursors"  # the turn of those of all tenants; no tenant is called so


class SqlMetaStore:
    """`thread` owns the connection. `pages`: how this kind of database finds a page of topics. `now_ms`: the SQL that tells its
    time. `lock`: see `tables.check_fence`. `ownership`: who owns which bundle, in the same database. `start` raises `StoreError`
    where there is no database."""

    def __init__(self, thread: CommitThread, pages: TopicPages, now_ms: str, lock: str = "") -> None:
        self.thread = thread
        self.ownership = SqlOwnershipStore(thread, lambda db: int(db.execute(now_ms).fetchone()[0]), lock)
        self._pages = pages
        self.lock = lock
        self._call = self.thread.call
        self._ledger_id_next = 0
        self._ledger_id_stop = 0
        self._ledger_ids_wanted = 0
        self._ledger_ids: asyncio.Lock | None = None

    @property
    def commits(self) -> int:
        return self.thread.commits

    async def start(self) -> None:
        self._ledger_ids = asyncio.Lock()
        self._ledger_id_next = self._ledger_id_stop = 0
        self.thread.start()
        try:
            await self._read(tables.open_check)
        except BaseException:
            await self.stop()
            raise
        with suppress(StoreError):  # another start will do it
            await self._call(tables.forget_leftovers)

    async def stop(self) -> None:
        """Waits for what is queued, then closes the file."""
        await self.thread.stop()

    def check_space(self, name: str) -> None:
        """In the thread, before something new is stored. Raises `DiskFull` where there is no space for it."""

    async def _change(self, fence: Fence, run: Callable[[Database], T], turn: str = "") -> T:
        """`run`, in a transaction in which `fence` is the newest of its scope. Raises `Fenced`. `turn`: see `CommitThread.call`."""

        def fenced(db: Database) -> T:
            tables.check_fence(db, fence, self.lock)
            return run(db)

        return await self._call(fenced, turn)

    async def _read(self, run: Callable[[Database], T], turn: str = "") -> T:
        """`run`, which writes nothing."""
        return await self._call(run, turn, reads=True)

    async def acquire(self, scope: str, *, after: int = 0) -> Fence:
        return Fence(scope, await self._call(lambda db: tables.raise_epoch(db, scope, after)))

    async def next_ledger_id(self, fence: Fence, *, after: int = 0) -> int:
        assert self._ledger_ids is not None, "start() comes first"
        self._ledger_ids_wanted += 1
        try:
            async with self._ledger_ids:
                self._ledger_id_next = max(self._ledger_id_next, after + 1)
                if self._ledger_id_next >= self._ledger_id_stop:
                    wanted = self._ledger_ids_wanted  # one commit for all that wait
                    self._ledger_id_stop = await self._change(fence, lambda db: tables.reserve_ledger_ids(db, wanted, after))
                    self._ledger_id_next = self._ledger_id_stop - wanted
                self._ledger_id_next += 1
                return self._ledger_id_next - 1
        finally:
            self._ledger_ids_wanted -= 1

    async def first_free_ledger_id(self) -> int:
        return await self._read(tables.ledger_id_stop)

    async def get_topic(self, name: str) -> TopicRecord | None:
        def run(db: Database) -> TopicRecord | None:
            row = db.execute("select version, record from topic where name = ?", (name,)).fetchone()
            if row is None:
                return None
            version, encoded = row
            record = tables.topic_decoder.decode(encoded)
            # Of equal strings and dictionaries one is kept: the record lives as long as its topic is loaded.
            return replace(
                record,
                version=version,
                name=name,
                properties=record.properties or NO_PROPERTIES,
                idle_since=record.idle_since or NO_TIMES,
            )

        return await self._read(run, tenant_of(name))

    async def cas_topic(self, fence: Fence, record: TopicRecord) -> TopicRecord:
        written = replace(record, version=record.version + 1)
        blob = tables.encode(written)

        def run(db: Database) -> TopicRecord:
            if record.version == 0:
                if why := creation_conflict(record.name, lambda name: tables.partitioned(db, name)):
                    raise MetaConflict(why)
                self.check_space(record.name)
                sql = "insert into topic values (?, ?, 1, ?) on conflict do nothing"
                changed = db.execute(sql, (record.name, namespace_of(record.name), blob)).rowcount
            else:
                sql = "update topic set version = ?, record = ? where name = ? and version = ?"
                changed = db.execute(sql, (written.version, blob, record.name, record.version)).rowcount
            if changed != 1:
                raise MetaConflict(version_conflict(record.name, record.version))
            return written

        return await self._change(fence, run, tenant_of(record.name))

    async def delete_topic(self, fence: Fence, name: str, *, values: Sequence[str] = ()) -> None:
        def run(db: Database) -> None:
            db.executemany("delete from value where key = ?", [(key,) for key in values])
            db.execute("delete from topic where name = ?", (name,))
            db.execute("delete from subscription where topic = ?", (name,))
            db.execute("delete from schema_version where topic = ?", (name,))

        await self._change(fence, run, tenant_of(name))

    async def list_topics(self, namespace: str, *, after: str = "", limit: int = 1000) -> list[str]:
        sql = "select name from topic where namespace = ? and name > ? order by name limit ?"
        return await self._read(
            lambda db: [name for (name,) in db.execute(sql, (namespace, after, limit))], namespace.partition("/")[0]
        )

    async def page_of_topics(self, namespace: str, *, after: str = "", limit: int = 1000, words: str = "") -> list[PageTopic]:
        rows = await self._read(lambda db: self._pages.page(db, namespace, after, limit, words), namespace.partition("/")[0])
        return [PageTopic(name, 0 if record is None else tables.partitioned_of((record,)).partitions) for name, record in rows]

    async def count_in_pages(self, namespace: str) -> TopicCounts:
        return await self._read(lambda db: self._pages.count(db, namespace), namespace.partition("/")[0])

    async def count_topics(self, tenant: str) -> dict[str, int]:
        return await self._read(lambda db: tables.count_of_namespaces(db, "topic", tenant), tenant)

    async def count_schemas(self, tenant: str) -> dict[str, int]:
        return await self._read(lambda db: tables.count_of_namespaces(db, "schema_version", tenant), tenant)

    async def count_partitions(self, tenant: str) -> dict[str, int]:
        return await self._read(lambda db: tables.count_partitions(db, tenant), tenant)

    async def count_subscriptions(self, tenant: str) -> dict[str, int]:
        begin = f"persistent://{tenant}/"
        sql = "select topic, count(*) from subscription where topic >= ? and topic < ? group by topic"

        def run(db: Database) -> dict[str, int]:
            counts: dict[str, int] = {}
            for topic, count in db.execute(sql, (begin, f"persistent://{tenant}0")):  # "0" follows "/"
                counts[namespace_of(topic)] = counts.get(namespace_of(topic), 0) + count
            return counts

        return await self._read(run, tenant)

    async def topic_records(self, tenant: str, *, after: str = "", limit: int = 200) -> list[TopicRecord]:
        return await self._read(lambda db: tables.topic_records(db, tenant, after, limit), tenant)

    async def list_all_topics(self, *, after: str = "", limit: int = 1000) -> list[str]:
        sql = "select name from topic where name > ? and name < ? order by name limit ?"
        return await self._read(lambda db: [name for (name,) in db.execute(sql, (after, RECYCLED, limit))])  # places come last

    async def search(self, tenant: str, words: str, limit: int) -> SearchResult:
        return await self._read(lambda db: tables.search(db, tenant, words, limit), tenant)

    async def referenced_ledgers(self, *, after: str = "", limit: int = 1000) -> tuple[list[int], str | None]:
        def run(db: Database) -> tuple[list[int], str | None]:
            sql = "select name, record from topic where name > ? order by name limit ?"
            rows = db.execute(sql, (after, limit)).fetchall()
            ids = [ledger_id for _, record in rows for ledger_id in tables.names_decoder.decode(record).ledger_ids]
            names = [name for name, _ in rows]
            return ids, names[-1] if len(rows) == limit else None

        return await self._read(run)

    async def get_partitioned(self, name: str) -> PartitionedRecord | None:
        return await self._read(lambda db: tables.partitioned(db, name), tenant_of(name))

    async def cas_partitioned(self, fence: Fence, record: PartitionedRecord) -> PartitionedRecord:
        written = replace(record, version=record.version + 1)
        blob = tables.encode(written)

        def run(db: Database) -> PartitionedRecord:
            stored = tables.partitioned(db, record.name)
            if (stored.version if stored else 0) != record.version:
                raise MetaConflict(version_conflict(record.name, record.version))
            if record.version == 0:
                if why := partitioning_conflict(record.name, tables.called_alike(db, record.name)):
                    raise MetaConflict(why)
                self.check_space(record.name)
            sql = "insert into partitioned values (?, ?, ?) on conflict (name) do update set record = excluded.record"
            db.execute(sql, (record.name, namespace_of(record.name), blob))
            return written

        return await self._change(fence, run, tenant_of(record.name))

    async def unfinished_partitioned(self) -> list[PartitionedRecord]:
        def run(db: Database) -> list[PartitionedRecord]:
            sql = "select record from partitioned where name < ? order by name"
            records = (tables.partitioned_of(row) for row in db.execute(sql, (RECYCLED,)))
            return [record for record in records if record.unfinished]

        return await self._read(run)

    async def delete_partitioned(self, fence: Fence, name: str) -> None:
        def run(db: Database) -> None:
            db.execute("delete from partitioned where name = ?", (name,))
            db.execute("delete from schema_version where topic = ?", (name,))

        await self._change(fence, run, tenant_of(name))

    async def list_partitioned(self, namespace: str) -> list[PartitionedRecord]:
        sql = "select record from partitioned where namespace = ? order by name"
        return await self._read(
            lambda db: [tables.partitioned_of(row) for row in db.execute(sql, (namespace,))], namespace.partition("/")[0]
        )

    async def subscriptions(self, topic: str) -> list[SubscriptionRecord]:
        sql = "select * from subscription where topic = ? order by name"
        return await self._read(lambda db: [tables.subscription(row) for row in db.execute(sql, (topic,))], tenant_of(topic))

    async def create_subscription(
        self, fence: Fence, topic: str, name: str, *, created_ms: int, mark_delete: Position, properties: dict[str, str]
    ) -> SubscriptionRecord:
        def run(db: Database) -> SubscriptionRecord:
            values = (topic, name, created_ms, *mark_delete, b"", tables.encode(properties))
            columns = "topic, name, created_ms, ledger_id, entry_id, state, properties"
            sql = f"insert into subscription ({columns}) values (?, ?, ?, ?, ?, ?, ?) on conflict do nothing returning *"
            row = db.execute(sql, values).fetchone()
            if row is None:
                raise MetaConflict(f"subscription {name} of {topic} exists")
            return tables.subscription(row)

        return await self._change(fence, run, tenant_of(topic))

    async def set_subscription_properties(self, fence: Fence, topic: str, name: str, properties: dict[str, str]) -> None:
        sql, values = (
            "update subscription set properties = ? where topic = ? and name = ?",
            (tables.encode(properties), topic, name),
        )
        await self._change(fence, lambda db: db.execute(sql, values) and None, tenant_of(topic))

    async def delete_subscription(self, fence: Fence, topic: str, name: str) -> None:
        sql = "delete from subscription where topic = ? and name = ?"
        await self._change(fence, lambda db: db.execute(sql, (topic, name)) and None, tenant_of(topic))

    async def save_cursors(self, fence: Fence, states: list[tuple[int, Position, bytes]]) -> None:
        rows = [(*mark_delete, state, subscription_id) for subscription_id, mark_delete, state in states]
        sql = "update subscription set ledger_id = ?, entry_id = ?, state = ? where id = ?"
        await self._change(fence, lambda db: db.executemany(sql, rows) and None, CURSORS)

    async def subscriptions_by_id(self, ids: Iterable[int]) -> list[SubscriptionRecord]:
        asked = list(ids)
        return await self._read(lambda db: [tables.subscription(row) for row in tables.by_id(db, "*", asked)])

    async def existing_subscriptions(self, ids: Iterable[int]) -> set[int]:
        asked = list(ids)
        return await self._read(lambda db: {subscription_id for (subscription_id,) in tables.by_id(db, "id", asked)})

    async def schema_versions(self, topic: str) -> list[bytes]:
        sql = "select record from schema_version where topic = ? order by version"
        return await self._read(lambda db: [bytes(record) for (record,) in db.execute(sql, (topic,))], tenant_of(topic))

    async def schema_version(self, topic: str, version: int) -> bytes | None:
        sql = "select record from schema_version where topic = ? and version = ?"

        def run(db: Database) -> bytes | None:
            (record,) = db.execute(sql, (topic, version)).fetchone() or (None,)
            return None if record is None else bytes(record)

        return await self._read(run, tenant_of(topic))

    async def schema_version_sizes(self, topic: str) -> list[int]:
        sql = "select length(record) from schema_version where topic = ? order by version"
        return await self._read(lambda db: [size for (size,) in db.execute(sql, (topic,))], tenant_of(topic))

    async def topics_with_schemas(self, namespace: str) -> list[str]:
        sql = "select distinct topic from schema_version where namespace = ? order by topic"
        return await self._read(lambda db: [topic for (topic,) in db.execute(sql, (namespace,))], namespace.partition("/")[0])

    async def add_schema_version(self, fence: Fence, topic: str, version: int, record: bytes) -> None:
        def run(db: Database) -> None:
            (stored,) = db.execute("select count(*) from schema_version where topic = ?", (topic,)).fetchone()
            if stored != version:
                raise MetaConflict(f"the schema of {topic} has {stored} versions, so the next one is not {version}")
            self.check_space(f"the schema of {topic}")
            db.execute("insert into schema_version values (?, ?, ?, ?)", (topic, version, namespace_of(topic), record))

        await self._change(fence, run, tenant_of(topic))

    async def delete_schema_versions(self, fence: Fence, topic: str) -> None:
        await self._change(
            fence, lambda db: db.execute("delete from schema_version where topic = ?", (topic,)) and None, tenant_of(topic)
        )

    async def get_value(self, key: str) -> bytes | None:
        def run(db: Database) -> bytes | None:
            (value,) = db.execute("select value from value where key = ?", (key,)).fetchone() or (None,)
            return None if value is None else bytes(value)

        return await self._read(run, tenant_of(key))

    async def put_value(self, fence: Fence, key: str, value: bytes) -> None:
        await self._change(fence, lambda db: tables.put_value(db, key, bytes(value)), tenant_of(key))

    async def delete_value(self, fence: Fence, key: str) -> None:
        await self._change(fence, lambda db: db.execute("delete from value where key = ?", (key,)) and None, tenant_of(key))

    async def recycle(self, fence: Fence, name: str, record: RecycledTopic, *, values: ValueKeys, listed: bool) -> None:
        await self._change(fence, lambda db: recycling.recycle(db, name, record, values, listed), tenant_of(name))

    async def restore(self, fence: Fence, name: str, record: RecycledTopic, *, values: ValueKeys, listed: bool) -> None:
        await self._change(fence, lambda db: recycling.restore(db, name, record, values, listed), tenant_of(name))

    async def restores(self) -> int:
        return await self._read(recycling.restores)

    async def end_restore(self, fence: Fence, name: str, record: RecycledTopic) -> PartitionedRecord:
        return await self._change(fence, lambda db: recycling.end_restore(db, name, record), tenant_of(name))

    async def get_recycled(self, recycle_id: str) -> RecycledTopic | None:
        return await self._read(lambda db: recycling.get(db, recycle_id))

    async def list_recycled(self, namespace: str, *, after: str = "", limit: int = 1000) -> list[RecycledTopic]:
        return await self._read(lambda db: recycling.listed(db, namespace, after, limit), namespace.partition("/")[0])

    async def expired_recycled(self, now_ms: int, limit: int) -> list[RecycledTopic]:
        return await self._read(lambda db: recycling.expired(db, now_ms, limit))

    async def count_recycled(self, tenant: str) -> int:
        return await self._read(lambda db: recycling.count(db, tenant), tenant)

    async def count_within(self, places: str) -> tuple[int, int]:
        return await self._read(lambda db: recycling.count_within(db, places), tenant_of(places))

    async def recycled_places(self, *, within: str = PREFIX, after: str = "", limit: int = 1000) -> list[str]:
        return await self._read(lambda db: recycling.places(db, within, after, limit), tenant_of(within))

    async def begin_purge(self, fence: Fence, recycle_id: str) -> None:
        await self._change(fence, lambda db: recycling.begin_purge(db, recycle_id))

    async def forget_recycled(self, fence: Fence, record: RecycledTopic) -> None:
        await self._change(fence, lambda db: recycling.forget(db, record), tenant_of(record.name))
