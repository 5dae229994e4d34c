"""Metadata in a real PostgreSQL while connections are dropped, owners change, and the server refuses: each call gets its answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest

from messaging.storage.ledger_store import WHOLE, Fenced, StoreError, Unavailable
from messaging.storage.meta_store import MetaConflict, TopicRecord
from messaging.storage.postgresql.connection import SCHEMA
from messaging.storage.postgresql.meta_store import PostgresqlMetaStore
from messaging.storage.sql import tables
from messaging.storage.sql.thread import Database
from tests.support.databases import drop_connections
from tests.support.waiting import eventually

TOPIC = "persistent://acme/orders/in"


@pytest.fixture
async def store(metadata_url: str) -> AsyncIterator[PostgresqlMetaStore]:
    made = PostgresqlMetaStore(metadata_url)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def server(metadata_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(metadata_url, autocommit=True) as connection:
        yield connection


async def test_a_connection_dropped_between_calls_costs_one_answer_at_most(
    store: PostgresqlMetaStore, server: psycopg.Connection[tuple[object, ...]]
) -> None:
    fence = await store.acquire(WHOLE)
    for number in range(5):
        drop_connections(server)
        try:
            await store.put_value(fence, "key", b"%d" % number)
        except Unavailable:
            await store.put_value(fence, "key", b"%d" % number)
        assert await store.get_value("key") == b"%d" % number


@pytest.mark.parametrize("statements", range(1, 9))
async def test_a_connection_dropped_at_each_statement_leaves_all_or_nothing(
    store: PostgresqlMetaStore, server: psycopg.Connection[tuple[object, ...]], statements: int
) -> None:
    """Two changes share the transaction, and the other one is somebody else's."""
    fence = await store.acquire(WHOLE)
    record = await store.cas_topic(fence, TopicRecord(TOPIC))
    left = statements

    def dropping(db: Database) -> None:
        nonlocal left
        for number in range(8):
            left -= 1
            if left == 0:
                drop_connections(server)
            db.execute("insert into value values (?, ?)", (f"part-{number}", b"x"))

    other = asyncio.ensure_future(store.cas_topic(fence, replace(record, topic_epoch=7)))
    with pytest.raises(Unavailable):
        await store.thread.call(dropping)
    try:
        await other
        done = True
    except Unavailable:
        done = False
    stored = await store.get_topic(TOPIC)
    assert stored is not None
    assert not done or stored.topic_epoch == 7, "what was confirmed is there"
    assert [await store.get_value(f"part-{number}") for number in range(8)] == [None] * 8, "and of the rest nothing"
    assert await store.cas_topic(fence, replace(stored, topic_epoch=8))


async def test_a_former_owner_changes_nothing_once_another_has_the_range(store: PostgresqlMetaStore, metadata_url: str) -> None:
    """It changes as fast as it can while the range is taken over: what the new owner read stays as it was."""
    successor = PostgresqlMetaStore(metadata_url)
    await successor.start()
    fence = await store.acquire(WHOLE)
    confirmed = -1
    working = asyncio.Event()

    async def work() -> None:
        nonlocal confirmed
        for number in range(1_000_000):
            await store.put_value(fence, "position", b"%d" % number)
            confirmed = number
            if number == 20:
                working.set()

    owner = asyncio.ensure_future(work())
    await working.wait()
    taken = await successor.acquire(WHOLE)
    at_takeover = int(await successor.get_value("position") or b"-1")
    with pytest.raises(Fenced, match=f"epoch {taken.epoch} does"):
        await owner
    assert confirmed <= at_takeover, "what was confirmed before is seen by the new owner"
    assert int(await successor.get_value("position") or b"-1") == at_takeover, "and nothing came after"
    await successor.stop()


async def test_taking_a_range_over_waits_for_the_change_under_way(
    store: PostgresqlMetaStore, metadata_url: str, server: psycopg.Connection[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would be confirmed after its new owner had read what there is."""
    begun, may_write, write = threading.Event(), threading.Event(), tables.put_value

    def slow(db: Database, key: str, value: bytes) -> None:
        begun.set()
        assert may_write.wait(30)
        write(db, key, value)

    monkeypatch.setattr(tables, "put_value", slow)
    successor = PostgresqlMetaStore(metadata_url)
    await successor.start()
    fence = await store.acquire(WHOLE)
    writing = asyncio.ensure_future(store.put_value(fence, "position", b"1"))
    await asyncio.to_thread(begun.wait)
    taking = asyncio.ensure_future(successor.acquire(WHOLE))

    def waits() -> bool:
        return taking.done() or server.execute("select 1 from pg_locks where not granted").fetchone() is not None

    await eventually(waits, 10)
    assert not taking.done()
    may_write.set()
    await writing
    await taking
    assert await successor.get_value("position") == b"1"
    await successor.stop()


async def test_brokers_that_change_at_once_lose_nothing(store: PostgresqlMetaStore, metadata_url: str) -> None:
    """Their transactions read before they write; none may work on what another one is changing."""
    others = [PostgresqlMetaStore(metadata_url) for _ in range(3)]
    for other in others:
        await other.start()
    stores = [store, *others]
    fences = [await each.acquire(f"range-{number}") for number, each in enumerate(stores)]
    given: list[int] = []

    async def again(number: int) -> None:
        for _ in range(20):
            while True:
                try:
                    given.append(await stores[number].next_ledger_id(fences[number]))
                    break
                except Unavailable:  # too often in each other's way: it is asked for again
                    continue

    await asyncio.gather(*map(again, range(4)))
    assert len(set(given)) == len(given) == 80
    made = await asyncio.gather(
        *(each.cas_topic(fence, TopicRecord(TOPIC)) for each, fence in zip(stores, fences, strict=True)), return_exceptions=True
    )
    assert sum(isinstance(outcome, TopicRecord) for outcome in made) == 1
    assert all(isinstance(outcome, TopicRecord | MetaConflict | Unavailable) for outcome in made)
    for other in others:
        await other.stop()


async def test_calls_of_others_go_on_while_one_waits_for_a_lock(
    store: PostgresqlMetaStore, server: psycopg.Connection[tuple[object, ...]]
) -> None:
    """A broker that was stopped in the middle of a transaction has it. What is behind the call keeps its place."""
    fence = await store.acquire(WHOLE)
    record = await store.cas_topic(fence, TopicRecord(TOPIC))
    server.execute(f"begin; select 1 from {SCHEMA}.topic for update".encode())
    waiting = asyncio.ensure_future(store.cas_topic(fence, replace(record, topic_epoch=7)))
    behind = asyncio.ensure_future(store.get_topic(TOPIC))
    for number in range(10):
        await store.put_value(fence, f"topic:persistent://umbrella/orders/{number}", b"x")
    assert not waiting.done() and not behind.done()
    server.execute("commit")
    changed = await waiting
    assert await behind == changed != record


async def test_a_store_that_stops_waits_for_calls_that_were_set_aside(
    store: PostgresqlMetaStore, server: psycopg.Connection[tuple[object, ...]]
) -> None:
    fence = await store.acquire(WHOLE)
    record = await store.cas_topic(fence, TopicRecord(TOPIC))
    server.execute(f"begin; select 1 from {SCHEMA}.topic for update".encode())
    waiting = asyncio.ensure_future(store.cas_topic(fence, replace(record, topic_epoch=7)))
    behind = asyncio.ensure_future(store.get_topic(TOPIC))
    await store.put_value(fence, "key", b"x")  # of another turn, and so the call met the lock before or meets it now
    stopping = asyncio.ensure_future(store.stop())
    server.execute("commit")
    await stopping
    assert await behind == await waiting


async def test_a_lock_that_is_never_given_back_is_told(
    store: PostgresqlMetaStore, server: psycopg.Connection[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("messaging.storage.sql.thread.PATIENCE_S", 0)
    fence = await store.acquire(WHOLE)
    record = await store.cas_topic(fence, TopicRecord(TOPIC))
    server.execute(f"begin; select 1 from {SCHEMA}.topic for update".encode())
    with pytest.raises(Unavailable, match="has not ended its transaction in the PostgreSQL of metadata_url"):
        await store.cas_topic(fence, record)
    server.execute("rollback")
    await store.cas_topic(fence, record)


async def test_calls_of_others_go_on_while_one_meets_other_brokers(store: PostgresqlMetaStore) -> None:
    """Again and again: what shares a transaction with it is run without it, and what is behind it keeps its place."""
    fence = await store.acquire(WHOLE)
    others: list[int] = []
    ran: list[str] = []

    def meets(db: Database) -> int:
        ran.append("first")
        if len(others) < 50:
            raise psycopg.errors.SerializationFailure("could not serialize access")
        return len(others)

    async def other(tenant: str) -> None:
        for number in range(25):
            await store.put_value(fence, f"topic:persistent://{tenant}/orders/in", b"%d" % number)
            others.append(number)

    waiting = asyncio.ensure_future(store.thread.call(meets, "acme"))
    behind = asyncio.ensure_future(store.thread.call(lambda db: ran.append("second"), "acme"))
    await asyncio.gather(other("umbrella"), other("initech"))
    assert await waiting == 50
    await behind
    assert ran[-1] == "second" and ran.count("second") == 1


async def test_a_commit_that_did_not_wait_for_its_standby_confirms_nothing(
    store: PostgresqlMetaStore, server: psycopg.Connection[tuple[object, ...]]
) -> None:
    """The server only warns. Here a trigger does, at the same moment."""
    fence = await store.acquire(WHOLE)
    server.execute(
        f"""set search_path to {SCHEMA};
        create function warn() returns trigger language plpgsql as
            'begin raise warning ''canceling wait for synchronous replication''; return null; end';
        create constraint trigger warns after insert on topic deferrable initially deferred for each row execute function warn()
        """.encode()
    )
    with pytest.raises(Unavailable, match="did not wait for its standby: canceling wait"):
        await store.cas_topic(fence, TopicRecord(TOPIC))
    assert store.thread.commits and await store.get_value("key") is None


async def test_a_commit_has_no_time_limit_and_a_statement_has(
    store: PostgresqlMetaStore, server: psycopg.Connection[tuple[object, ...]]
) -> None:
    """It waits for a standby as long as that takes. Here for a trigger."""
    fence = await store.acquire(WHOLE)
    server.execute(
        f"""set search_path to {SCHEMA};
        create function rest() returns trigger language plpgsql as 'begin perform pg_sleep(0.6); return null; end';
        create constraint trigger rests after insert on topic deferrable initially deferred for each row execute function rest()
        """.encode()
    )
    await store.thread.call(lambda db: db.execute("set statement_timeout = '300ms'"))
    assert (await store.cas_topic(fence, TopicRecord(TOPIC))).version == 1
    with pytest.raises(Unavailable, match="statement timeout"):
        await store.thread.call(lambda db: db.execute("select pg_sleep(0.6)"))


async def test_ten_brokers_may_make_the_tables_at_once(metadata_url: str) -> None:
    stores = [PostgresqlMetaStore(metadata_url) for _ in range(10)]
    await asyncio.gather(*(each.start() for each in stores))
    epochs = [(await each.acquire(WHOLE)).epoch for each in stores]
    assert epochs == sorted(set(epochs))
    for each in stores:
        await each.stop()


# --- a server that refuses ----------------------------------------------------------------------------------------------------


async def refused(url: str) -> str:
    store = PostgresqlMetaStore(url)
    with pytest.raises(StoreError) as caught:
        await store.start()
    return str(caught.value)


async def test_a_server_that_is_not_there(metadata_url: str) -> None:
    why = await refused("postgresql://magnetar:geheim@127.0.0.1:1/none")
    assert "metadata_url cannot be reached" in why and "geheim" not in why


async def test_a_standby_is_told_apart(metadata_url: str, server: psycopg.Connection[tuple[object, ...]]) -> None:
    store = PostgresqlMetaStore(metadata_url)
    await store.start()
    fence = await store.acquire(WHOLE)
    with database_setting(server, "default_transaction_read_only = on"):
        assert "is read-only, as a standby is: name the primary" in await refused(metadata_url)
        drop_connections(server)
        for _ in range(2):
            with pytest.raises(Unavailable):
                await store.put_value(fence, "key", b"x")
    await eventually_stored(store, fence)
    await store.stop()


async def eventually_stored(store: PostgresqlMetaStore, fence: object) -> None:
    for _ in range(2):  # the first one may still have the connection that was refused
        try:
            await store.put_value(fence, "key", b"again")  # type: ignore[arg-type]
            break
        except Unavailable:
            continue
    assert await store.get_value("key") == b"again"


async def test_a_server_without_connections_left(metadata_url: str, server: psycopg.Connection[tuple[object, ...]]) -> None:
    with connection_limit(server, 0):
        if not role_exists(server):
            server.execute("create role plain login")
        try:
            why = await refused(metadata_url.replace("magnetar@", "plain@"))
        finally:
            server.execute("drop role plain")
    assert "cannot be reached" in why and "too many connections" in why


async def test_tables_of_another_release(store: PostgresqlMetaStore, server: psycopg.Connection[tuple[object, ...]]) -> None:
    server.execute(f"update {SCHEMA}.format set version = 99")
    assert "has format 99; this release reads version 1" in await refused(f"{server.info.dsn}")


async def test_a_row_that_was_edited_by_hand_fails_the_call_that_reads_it(
    store: PostgresqlMetaStore, server: psycopg.Connection[tuple[object, ...]]
) -> None:
    fence = await store.acquire(WHOLE)
    await store.cas_topic(fence, TopicRecord(TOPIC))
    other = await store.cas_topic(fence, TopicRecord(f"{TOPIC}-2"))
    server.execute(f"update {SCHEMA}.topic set record = 'nonsense' where name = %s", (TOPIC,))
    with pytest.raises(Exception, match=r"(?i)malformed|expected|decode|truncated"):
        await store.get_topic(TOPIC)
    assert await store.get_topic(f"{TOPIC}-2") == other


@contextmanager
def database_setting(server: psycopg.Connection[tuple[object, ...]], setting: str) -> Iterator[None]:
    name = setting.partition(" ")[0]
    database = server.info.dbname
    server.execute(f'alter database "{database}" set {setting}'.encode())
    try:
        yield
    finally:
        server.execute(f"set {name} = off".encode())
        server.execute(f'alter database "{database}" reset {name}'.encode())


@contextmanager
def connection_limit(server: psycopg.Connection[tuple[object, ...]], limit: int) -> Iterator[None]:
    """Superusers are not bound by it."""
    database = server.info.dbname
    server.execute(f'alter database "{database}" connection limit {limit}'.encode())
    try:
        yield
    finally:
        server.execute(f'alter database "{database}" connection limit -1'.encode())


def role_exists(server: psycopg.Connection[tuple[object, ...]]) -> bool:
    return server.execute("select 1 from pg_roles where rolname = 'plain'").fetchone() is not None
