"""What `meta_store.py` does to its tables, and what a row of each is in Python. All SQL is read by SQLite and PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from messaging.storage.ledger_store import Fence, Fenced, Position
from messaging.storage.meta_store import (
    PartitionedRecord,
    SearchResult,
    SubscriptionRecord,
    TopicRecord,
    by_relevance,
    partitioned_name,
)
from messaging.storage.recycled_topic import RECYCLED
from messaging.storage.sql.thread import Database

FORMAT_VERSION = 1
IN_MAX = 500  # values of one list in a statement


class _NamedLedger(msgspec.Struct, frozen=True, gc=False):
    ledger_id: int


class _NamedRun(msgspec.Struct, frozen=True, gc=False):
    ledger_id: int
    directory_id: int


class _Names(msgspec.Struct, frozen=True):
    """What a topic's record says of its ledgers' names; the rest is passed over."""

    ledgers: tuple[_NamedLedger, ...] = ()
    compacted: _NamedLedger | None = None
    delayed_runs: tuple[_NamedRun, ...] = ()

    @property
    def ledger_ids(self) -> list[int]:
        of_runs = (ledger_id for run in self.delayed_runs for ledger_id in {run.ledger_id, run.directory_id})
        return [*(ledger.ledger_id for ledger in (*self.ledgers, self.compacted) if ledger is not None), *of_runs]


encode = msgspec.msgpack.encode
names_decoder = msgspec.msgpack.Decoder(_Names)
topic_decoder = msgspec.msgpack.Decoder(TopicRecord)
partitioned_decoder = msgspec.msgpack.Decoder(PartitionedRecord)
properties_decoder = msgspec.msgpack.Decoder(dict[str, str])


def raise_epoch(db: Database, scope: str, after: int) -> int:
    """The new epoch of a scope: higher than its last one, and than `after`."""
    higher = "case when fence.epoch >= excluded.epoch then fence.epoch + 1 else excluded.epoch end"
    sql = f"insert into fence values (?, ?) on conflict (scope) do update set epoch = {higher} returning epoch"
    (epoch,) = db.execute(sql, (scope, after + 1)).fetchone()
    return int(epoch)


def check_fence(db: Database, fence: Fence, lock: str) -> None:
    """`lock`: what a database needs so that nobody raises the epoch before this transaction ends. Raises `Fenced`."""
    (epoch,) = db.execute(f"select epoch from fence where scope = ?{lock}", (fence.scope,)).fetchone() or ("none",)
    if epoch != fence.epoch:
        raise Fenced(f"epoch {fence.epoch} does not own {fence.scope}; epoch {epoch} does")


def open_check(db: Database) -> None:
    db.execute("select 1 from topic limit 1").fetchone()


def partitioned(db: Database, name: str) -> PartitionedRecord | None:
    row = db.execute("select record from partitioned where name = ?", (name,)).fetchone()
    return None if row is None else partitioned_of(row)


def partitioned_of(row: tuple[bytes]) -> PartitionedRecord:
    (encoded,) = row
    record = partitioned_decoder.decode(encoded)
    return record if record.version else replace(record, version=1)  # written before records had one


def count_of_namespaces(db: Database, table: str, tenant: str) -> dict[str, int]:
    """The rows of each namespace of a tenant."""
    sql = f"select namespace, count(*) from {table} where namespace >= ? and namespace < ? group by namespace"
    return dict(db.execute(sql, namespaces_of(tenant)).fetchall())


def count_partitions(db: Database, tenant: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    sql = "select namespace, record from partitioned where namespace >= ? and namespace < ?"
    for namespace, record in db.execute(sql, namespaces_of(tenant)):
        counts[namespace] = counts.get(namespace, 0) + partitioned_of((record,)).partitions_reserved
    return counts


def topic_records(db: Database, tenant: str, after: str, limit: int) -> list[TopicRecord]:
    sql = "select name, record from topic where name > ? and name < ? order by name limit ?"
    rows: list[tuple[str, bytes]] = []
    for domain in ("persistent", RECYCLED):
        begin, end = f"{domain}://{tenant}/", f"{domain}://{tenant}0"  # "0" follows "/"
        rows += db.execute(sql, (max(begin, after), end, limit - len(rows)))
    return [replace(topic_decoder.decode(record), name=name) for name, record in rows]


def namespaces_of(tenant: str) -> tuple[str, str]:
    return f"{tenant}/", f"{tenant}0"  # "0" follows "/"


def called_alike(db: Database, name: str) -> Iterator[str]:
    """The topics of this name, and of names that continue it like the number of a partition."""
    begin, end = f"{name}-partition-0", f"{name}-partition-:"  # ":" follows "9"
    rows = db.execute(
        "select name from topic where name = ? union all select name from topic where name >= ? and name < ?", (name, begin, end)
    )
    return (topic for (topic,) in rows)


def search(db: Database, tenant: str, words: str, limit: int) -> SearchResult:
    """Walks the names of one tenant, or all: some 10 ms for 100,000 of them."""
    results = [_search(db, f"{domain}://", tenant, words, limit) for domain in ("non-persistent", "persistent")]
    return SearchResult(
        sorted((name for result in results for name in result.topics), key=by_relevance(words))[:limit],
        [pair for result in results for pair in result.subscriptions][:limit],
    )


def _search(db: Database, domain: str, tenant: str, words: str, limit: int) -> SearchResult:
    """Of the topics whose names begin with `domain`."""
    begin, end = (f"{domain}{tenant}/", f"{domain}{tenant}0") if tenant else (domain, f"{domain[:-1]}0")  # "0" follows "/"
    within = (begin, end, len(domain) + 1, words, len(words), f"/{words}", limit)
    first = "case when substr(lower(name), length(name) - ?) = ? then 0 else 1 end, name"  # `by_relevance`
    of_topics = "name >= ? and name < ? and instr(lower(substr(name, ?)), ?) > 0"
    stem = "rtrim(topic.name, '0123456789')"  # of a partition: its topic's name, and "-partition-", which has 11 characters
    is_stem = f"{stem} <> topic.name and substr({stem}, length({stem}) - 10) = '-partition-'"
    parent = f"case when length({stem}) > 11 then substr({stem}, 1, length({stem}) - 11) else '' end"
    is_partition = f"{is_stem} and exists (select 1 from partitioned where partitioned.name = {parent})"
    plain = db.execute(f"select name from topic where {of_topics} and not ({is_partition}) order by {first} limit ?", within)
    partitioned = db.execute(f"select name from partitioned where {of_topics} order by {first} limit ?", within)
    topics = sorted((name for (name,) in [*plain, *partitioned]), key=by_relevance(words))[:limit]
    of_subscriptions = "topic >= ? and topic < ? and instr(lower(name), ?) > 0 order by topic, name"
    matches: dict[tuple[str, str], None] = {}
    parents = {name for (name,) in db.execute("select name from partitioned where name >= ? and name < ?", (begin, end))}
    for topic, name in db.execute(f"select topic, name from subscription where {of_subscriptions}", (begin, end, words)):
        parent = partitioned_name(topic)
        matches[parent if parent in parents else topic, name] = None
        if len(matches) == limit:
            break
    return SearchResult(topics, sorted(matches))


def forget_leftovers(db: Database) -> None:
    """Values of topics (their keys are a word, a colon or a slash, and the topic's name) that do not exist: earlier versions left
    them."""
    separator = "case when instr(key, ':') < instr(key, '://') then instr(key, ':') else instr(key, '/') end"
    of_a_topic = f"instr(key, '://') > 0 and (length(value) = 0 or substr(key, {separator} + 1) not in (select name from topic))"
    db.execute(f"delete from value where {of_a_topic}")


def put_value(db: Database, key: str, value: bytes) -> None:
    db.execute("insert into value values (?, ?) on conflict (key) do update set value = excluded.value", (key, value))


def ledger_id_stop(db: Database) -> int:
    (stop,) = db.execute("select value from value where key = 'store/ledger-id-stop'").fetchone() or (1,)
    return int(stop)


def reserve_ledger_ids(db: Database, count: int, after: int) -> int:
    """Moves the durable bound on by `count`, beyond `after`, and returns it: the last `count` ids below it are ours to give out.
    The first id is 1. No more are reserved than are needed: a ledger with a higher id shows that the metadata is older."""
    stop = max(ledger_id_stop(db), after + 1) + count
    put_value(db, "store/ledger-id-stop", str(stop).encode())
    return stop


def by_id(db: Database, columns: str, ids: list[int]) -> Iterator[tuple[Any, ...]]:
    """Of the subscriptions with these ids."""
    for begin in range(0, len(ids), IN_MAX):
        some = ids[begin : begin + IN_MAX]
        yield from db.execute(f"select {columns} from subscription where id in ({', '.join('?' * len(some))})", some)


def subscription(row: tuple[Any, ...]) -> SubscriptionRecord:
    subscription_id, topic, name, created_ms, ledger_id, entry_id, state, properties = row
    return SubscriptionRecord(
        subscription_id, topic, name, created_ms, Position(ledger_id, entry_id), bytes(state), properties_decoder.decode(properties)
    )
