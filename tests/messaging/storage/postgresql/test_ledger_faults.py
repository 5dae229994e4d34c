"""Ledgers in a real PostgreSQL while connections are dropped, owners change and the server refuses: nothing confirmed is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import psycopg
import pytest

from messaging.storage.ledger_store import WHOLE, AppendFailed, Corrupt, Fence, Fenced, LedgerClosed, NoSuchLedger, StoreError
from messaging.storage.postgresql.ledgers import tables
from messaging.storage.postgresql.ledgers.store import PostgresqlLedgerStore
from messaging.storage.postgresql.ledgers.tables import Connection
from tests.support.databases import drop_connections
from tests.support.storage.ledger_entries import Results, append_all, read_all
from tests.support.storage.owning import fence_of, started
from tests.support.waiting import eventually

Server = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
async def store(metadata_url: str) -> AsyncIterator[PostgresqlLedgerStore]:
    made = PostgresqlLedgerStore(metadata_url)
    await started(made)
    yield made
    await made.stop()


@pytest.fixture
def server(metadata_url: str) -> Iterator[Server]:
    with psycopg.connect(metadata_url, autocommit=True) as connection:
        yield connection


async def appended(store: PostgresqlLedgerStore, ledger_id: int = 1, blocks: int = 20) -> Results:
    """Blocks that share a commit, answered."""
    writer, results = await store.create(fence_of(store), ledger_id, {}), Results()
    for number in range(blocks):
        results.append(writer, [b"%d" % number])
    await results.wait(blocks)
    return results


async def require_kept(store: PostgresqlLedgerStore, results: Results, ledger_id: int = 1) -> int:
    """Seals. What was confirmed is there, without a hole; the last entry."""
    info = await store.seal(fence_of(store), ledger_id)
    confirmed = [first for first, error in results.got if error is None]
    assert confirmed == list(range(len(confirmed))) and info.last_entry >= len(confirmed) - 1
    if info.last_entry >= 0:
        stored = await read_all(await store.open(ledger_id), info.last_entry)
        assert stored == [b"%d" % number for number in range(info.entries)]
    return info.last_entry


@pytest.mark.parametrize("function", ["lock_fences", "append"])
@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
async def test_a_connection_dropped_before_the_commit_costs_nothing(
    store: PostgresqlLedgerStore, server: Server, monkeypatch: pytest.MonkeyPatch, function: str, behind: bool
) -> None:
    """Nothing was committed for certain, so the transaction runs again."""
    real: Callable[..., Any] = getattr(tables, function)
    dropped = writing = False

    def dropping(*values: Any, **named: Any) -> Any:
        nonlocal dropped
        outcome = real(*values, **named) if behind else None
        if not dropped and writing:
            dropped = True
            drop_connections(server)
        return outcome if behind else real(*values, **named)

    writer, results = await store.create(fence_of(store), 1, {}), Results()
    writing = True
    monkeypatch.setattr(tables, function, dropping)
    for number in range(20):
        results.append(writer, [b"%d" % number])
    await results.wait(20)
    assert dropped and [error for _, error in results.got] == [None] * 20
    assert await require_kept(store, results) == 19


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
async def test_a_commit_whose_answer_was_lost_is_looked_up(
    store: PostgresqlLedgerStore, server: Server, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    writer, results = await store.create(fence_of(store), 1, {}), Results()

    def lost(connection: Connection) -> None:
        monkeypatch.undo()
        if committed:
            connection.execute("commit")
        connection.close()
        raise psycopg.OperationalError("the connection was lost")

    monkeypatch.setattr(store.thread, "commit", lost)
    for number in range(20):
        results.append(writer, [b"%d" % number])
    await results.wait(20)
    assert [error for _, error in results.got] == [None] * 20, "it is there, or was written again"
    await append_all(writer, b"20")
    assert await require_kept(store, results) == 20


async def test_without_a_server_the_appends_fail_and_the_seal_decides(
    store: PostgresqlLedgerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lost transaction is still under way: a later one waits for its end."""
    writer, results = await store.create(fence_of(store), 1, {}), Results()
    under_way: list[Connection] = []

    def lost(connection: Connection) -> None:
        monkeypatch.undo()
        monkeypatch.setattr("messaging.storage.postgresql.ledgers.thread.SETTLE_S", 0)
        under_way.append(connection)
        store.thread.connection = None  # the server goes on with it
        raise psycopg.OperationalError("the connection was lost")

    monkeypatch.setattr(store.thread, "commit", lost)
    for number in range(5):
        results.append(writer, [b"%d" % number])
    await results.wait(5)
    assert all(isinstance(error, AppendFailed) for _, error in results.got)
    sealing = asyncio.ensure_future(store.seal(fence_of(store), 1))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(sealing), 0.3)
    await asyncio.to_thread(under_way[0].execute, "commit")
    assert (await sealing).last_entry == 4, "what came late is within"
    assert await require_kept(store, results) == 4
    under_way[0].close()


async def test_a_commit_that_did_not_wait_for_its_standby_confirms_nothing(store: PostgresqlLedgerStore, server: Server) -> None:
    """The server only warns. Here a trigger does, at the same moment."""
    server.execute(
        f"""set search_path to {tables.SCHEMA};
        create function warn() returns trigger language plpgsql as
            'begin raise warning ''canceling wait for synchronous replication''; return null; end';
        create constraint trigger warns after insert on block deferrable initially deferred for each row execute function warn()
        """.encode()
    )
    results = await appended(store)
    assert all(isinstance(error, AppendFailed) and "standby" in str(error) for _, error in results.got)
    assert await require_kept(store, results) == 19, "it is there, and may be lost with this server"


async def test_a_former_owner_confirms_nothing_once_another_took_over(store: PostgresqlLedgerStore, metadata_url: str) -> None:
    """It appends as fast as it can meanwhile, and learns of it from its next transaction."""
    writer, results, told = await store.create(fence_of(store), 1, {}), Results(), list[StoreError]()
    store.on_failed = told.append
    successor = PostgresqlLedgerStore(metadata_url)

    async def work() -> None:
        for number in range(1_000_000):
            results.append(writer, [b"%d" % number])
            await asyncio.sleep(0)

    working = asyncio.ensure_future(work())
    await results.wait(50)
    await started(successor)
    last = await require_kept(successor, results)
    with pytest.raises((LedgerClosed, Fenced)):
        await working
    await writer.settled()
    confirmed = [first for first, error in results.got if error is None]
    assert 50 <= len(confirmed) <= last + 1
    assert isinstance(store.failed, Fenced) and told == [store.failed]
    for call in (store.create(fence_of(store), 2, {}), store.seal(fence_of(store), 1), store.delete(fence_of(store), 1)):
        with pytest.raises(Fenced):
            await call
    assert [info.ledger_id for info in await successor.ledgers()] == [1]
    await successor.stop()


async def test_an_older_epoch_takes_nothing_over(store: PostgresqlLedgerStore, metadata_url: str) -> None:
    other = PostgresqlLedgerStore(metadata_url)
    await other.start()
    await store.take_over(Fence(WHOLE, other.epoch + 1))
    with pytest.raises(Fenced):
        await other.take_over(fence_of(other))
    await other.stop()


async def test_readers_get_a_new_connection(store: PostgresqlLedgerStore, server: Server) -> None:
    results = await appended(store)
    reader = await store.open(1)
    for _ in range(3):
        drop_connections(server)
        assert len(await reader.read(0, entries_max=100, bytes_max=1 << 20)) == len(results.got)


async def test_the_space_of_deleted_ledgers_is_freed(store: PostgresqlLedgerStore, server: Server) -> None:
    await appended(store, 1, blocks=600)  # more than one turn
    await appended(store, 2)
    await store.delete(fence_of(store), 1)

    def blocks() -> list[Any]:
        return server.execute(f"select ledger_id, count(*) from {tables.SCHEMA}.block group by 1".encode()).fetchall()

    await eventually(lambda: blocks() == [(2, 20)], 30)
    with pytest.raises(NoSuchLedger):
        await store.open(1)
    await eventually(lambda: server.execute(f"select id from {tables.SCHEMA}.ledger".encode()).fetchall() == [(2,)], 30)


@pytest.mark.parametrize(
    ("damage", "reads", "resume"),
    [
        ("update block set data = 'x' where last_entry = 0", [], 1),
        ("update block set header = 'x' where last_entry = 5", [0, 1, 2, 3, 4], 6),
        ("delete from block where last_entry between 5 and 7", [0, 1, 2, 3, 4], 8),
        ("delete from block where last_entry = 0", [], 1),
    ],
)
async def test_damage_is_noticed(store: PostgresqlLedgerStore, server: Server, damage: str, reads: list[int], resume: int) -> None:
    await appended(store)
    server.execute(f"set search_path to {tables.SCHEMA}; {damage}".encode())
    reader = await store.open(1)
    if reads:
        assert [block.first_entry for block in await reader.read(0, entries_max=20, bytes_max=1 << 20)] == reads
    with pytest.raises(Corrupt) as caught:
        await reader.read(len(reads), entries_max=20, bytes_max=1 << 20)
    assert (caught.value.entry_id, caught.value.resume_entry) == (len(reads), resume)
    assert (await reader.read(resume, entries_max=20, bytes_max=1 << 20))[-1].last_entry == 19


# --- a server that refuses ----------------------------------------------------------------------------------------------------


async def refused(url: str) -> str:
    with pytest.raises(StoreError) as caught:
        await PostgresqlLedgerStore(url).start()
    return str(caught.value)


async def test_a_server_that_is_not_there(metadata_url: str) -> None:
    why = await refused("postgresql://magnetar:geheim@127.0.0.1:1/none")
    assert "PostgreSQL of ledger_url cannot be reached" in why and "geheim" not in why
    assert "does not exist" in await refused(f"{metadata_url}_none")


async def test_tables_of_another_release(store: PostgresqlLedgerStore, server: Server, metadata_url: str) -> None:
    server.execute(f"update {tables.SCHEMA}.store set version = 99".encode())
    assert "has format 99; this release reads version 1" in await refused(metadata_url)


async def test_a_standby_and_a_role_without_rights(server: Server, metadata_url: str) -> None:
    database = server.info.dbname
    server.execute(f'alter database "{database}" set default_transaction_read_only = on'.encode())
    assert "ledger_url is read-only, as a standby is: name the primary" in await refused(metadata_url)
    server.execute("set default_transaction_read_only = off")
    server.execute(f'alter database "{database}" reset default_transaction_read_only'.encode())
    role = f"plain_{database}"
    server.execute(f"create role {role} login".encode())
    try:
        why = await refused(metadata_url.replace("magnetar@", f"{role}@"))
    finally:
        server.execute(f"drop role {role}".encode())
    assert "the role of ledger_url lacks a right" in why and "permission denied" in why


def test_no_commit_grows_beyond_its_bounds() -> None:
    """One of each tenant in turn, until it is full."""
    from messaging.storage.postgresql.ledgers.thread import COMMIT_BYTES_MAX, ITEMS_MAX, Item, LedgerThread

    class Sized:
        def __init__(self, size_bytes: int) -> None:
            self.size_bytes = size_bytes

    def batch(sizes: Iterable[int]) -> list[Item]:
        thread = LedgerThread(lambda: pytest.fail("connects"))
        for number, size_bytes in enumerate(sizes):
            thread.items.put(f"t{number % 3}", Sized(size_bytes))  # type: ignore[arg-type]
        first = thread.items.take()
        assert first is not None
        return thread.batch_from(first)

    assert len(batch([1] * (ITEMS_MAX + 10))) == ITEMS_MAX
    assert len(batch([COMMIT_BYTES_MAX // 4] * 20)) == 4
    assert len(batch([2 * COMMIT_BYTES_MAX] * 2)) == 1
