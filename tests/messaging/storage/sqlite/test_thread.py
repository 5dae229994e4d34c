"""The thread of the metadata store: whatever goes wrong, every call gets its answer, and the next ones are served."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from messaging.storage.disk_reserve import SLICE_BYTES, DiskReserve
from messaging.storage.ledger_store import WHOLE, DiskFull, Position, Unavailable
from messaging.storage.meta_store import MetaConflict, PartitionedRecord, TopicRecord
from messaging.storage.sql.thread import CALLS_MAX, RUN_S_MAX, Database
from messaging.storage.sqlite.meta_store import SqliteMetaStore
from messaging.storage.sqlite.thread import GAP_S, LOOK_S, SHARED_S, SqliteThread
from tests.support.storage.owning import FENCE

pytestmark = pytest.mark.asyncio


def sqlite_error(code: int, text: str = "injected") -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


class Connection:
    """A real connection whose statements fail on demand."""

    def __init__(self, path: Path, fail: Callable[[str], None]) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("pragma synchronous = off")
        self._db.execute("create table if not exists t (k integer primary key)")
        self._fail = fail

    def execute(self, sql: str, *values: Any) -> Any:
        self._fail(sql)
        return self._db.execute(sql, *values)

    @property
    def in_transaction(self) -> bool:
        return self._db.in_transaction

    def close(self) -> None:
        self._db.close()


class World:
    def __init__(self, folder: Path) -> None:
        self.faults: dict[str, list[BaseException]] = {}
        self.connected = 0
        self.refuse_connecting: list[Exception] = []
        self.path = folder / "db.sqlite3"
        self.reserve = DiskReserve(folder / "reserve", 3 * SLICE_BYTES)
        self.thread = SqliteThread(self.connect, reserve=self.reserve)  # type: ignore[arg-type,unused-ignore]

    def connect(self) -> Any:
        if self.refuse_connecting:
            raise self.refuse_connecting.pop(0)
        self.connected += 1
        return Connection(self.path, self.fail)

    def fail(self, sql: str) -> None:
        waiting = self.faults.get(sql.partition(" ")[0])
        if waiting:
            raise waiting.pop(0)

    async def insert(self, number: int) -> int:
        def run(db: Database) -> int:
            db.execute("insert into t values (?)", (number,))
            return number

        return await asyncio.wait_for(self.thread.call(run), 10)

    async def numbers(self) -> list[int]:
        return await asyncio.wait_for(self.thread.call(lambda db: [row[0] for row in db.execute("select k from t order by k")]), 10)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    world.thread.start()
    yield world
    await world.thread.stop()


@pytest.mark.parametrize("raised", [ValueError("no"), StopIteration(), SystemExit(1), MetaConflict("x"), KeyboardInterrupt()])
async def test_an_error_of_a_call_is_its_own(world: World, raised: BaseException) -> None:
    def bad(db: Database) -> None:
        db.execute("insert into t values (99)")
        raise raised

    outcomes = await asyncio.gather(world.insert(1), world.thread.call(bad), world.insert(2), return_exceptions=True)
    assert (outcomes[0], outcomes[2]) == (1, 2)
    assert isinstance(outcomes[1], (type(raised), RuntimeError)) and isinstance(outcomes[1], Exception)
    assert await world.numbers() == [1, 2]
    assert world.connected == 1


@pytest.mark.parametrize("statement", ["begin", "savepoint", "insert", "release", "commit"])
@pytest.mark.parametrize(
    "error", [*map(sqlite_error, (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_BUSY)), OSError(errno.EIO, "")]
)
async def test_each_statement_may_fail_and_the_next_call_is_served(
    world: World, statement: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("messaging.storage.sqlite.thread.LOCK_S_MAX", -1.0)
    await world.insert(0)
    world.faults[statement] = [error]
    with pytest.raises((Unavailable, OSError)):
        await world.insert(1)
    assert await world.insert(2) == 2
    assert await world.numbers() == [0, 2]


async def test_a_transaction_that_cannot_be_left_costs_the_connection(world: World) -> None:
    """The thread ended with the rollback that failed, and every later call waited for ever."""
    await world.insert(0)
    world.faults = {"commit": [sqlite_error(sqlite3.SQLITE_BUSY)], "rollback": [sqlite_error(sqlite3.SQLITE_IOERR)]}
    with pytest.raises(Unavailable):
        await world.insert(1)
    assert await world.insert(2) == 2
    assert (await world.numbers(), world.connected) == ([0, 2], 2)


async def test_a_connection_that_was_closed_is_opened_again(world: World) -> None:
    await world.insert(0)
    assert world.thread._db is not None
    world.thread._db.close()
    with pytest.raises(Unavailable):
        await world.insert(1)
    assert await world.insert(2) == 2


async def test_a_file_that_cannot_be_opened_is_tried_again_by_the_next_call(world: World) -> None:
    """One failure to open it was for good."""
    world.refuse_connecting = [sqlite_error(sqlite3.SQLITE_CANTOPEN), sqlite3.DatabaseError("format 99")]
    for _ in range(2):
        with pytest.raises(Unavailable):
            await world.insert(1)
    assert await world.insert(1) == 1


async def test_a_full_disk_takes_from_the_reserve_until_that_is_used_up(world: World) -> None:
    assert world.reserve.fill()
    full = sqlite_error(sqlite3.SQLITE_FULL)
    world.faults["insert"] = [full, full]
    assert await world.insert(1) == 1, "with the second slice"
    assert world.reserve.path.stat().st_size == SLICE_BYTES or world.reserve.whole  # or made whole again: there is space in truth
    world.reserve.fill = lambda: False  # type: ignore[method-assign]
    world.faults["commit"] = [full] * 10
    with pytest.raises(DiskFull, match="free some space"):
        await world.insert(2)
    assert world.reserve.path.stat().st_size == 0
    world.faults.clear()
    assert await world.insert(3) == 3


async def test_calls_given_before_the_stop_are_answered(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.thread.start()
    waiting = [asyncio.ensure_future(world.thread.call(lambda db, number=number: number)) for number in range(20)]  # type: ignore[misc]
    await asyncio.sleep(0)
    await world.thread.stop()
    assert await asyncio.wait_for(asyncio.gather(*waiting), 10) == list(range(20))
    with pytest.raises(Unavailable, match="not running"):  # as while a broker ends: whoever asks is to try again elsewhere
        await world.insert(21)


class Queue:
    """Calls wait behind the first, which is in its transaction, and note their names when they are run. The clock stands still."""

    def __init__(self, thread: SqliteThread) -> None:
        self.thread = thread
        self.ran: list[str] = []
        self.answered: list[str] = []
        self.now_s = 0.0
        thread.clock = lambda: self.now_s
        self._begun, self._go_on = threading.Event(), threading.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def block(self, *, reads: bool = False) -> None:
        def first(db: Database) -> None:
            self._begun.set()
            self._go_on.wait(10)

        self._add(first, "blocking", "", reads)
        await asyncio.to_thread(self._begun.wait, 10)

    async def put(self, tenant: str, *names: str, takes_s: float = 0) -> None:
        for name in names:

            def run(db: Database, name: str = name) -> None:
                self.ran.append(name)
                self.now_s += takes_s

            self._add(run, name, tenant)
        await asyncio.sleep(0)

    def _add(self, run: Callable[[Database], None], name: str, tenant: str, reads: bool = False) -> None:
        async def call() -> None:
            await self.thread.call(run, tenant, reads=reads)
            self.answered.append(name)

        self._tasks.append(asyncio.ensure_future(call()))

    async def run(self) -> None:
        self._go_on.set()
        await asyncio.wait_for(asyncio.gather(*self._tasks), 10)


async def test_a_call_waits_behind_one_of_each_other_tenant(world: World) -> None:
    """It waited behind whole commits of 2,000 calls of another tenant."""
    calls = Queue(world.thread)
    await calls.block()
    storm = [f"storm-{number}" for number in range(5 * CALLS_MAX)]
    await calls.put("mob", *storm)
    await calls.put("inc", "inc")
    await calls.put("neighbour", "opening")
    before = world.thread.commits
    await calls.run()
    assert calls.ran.index("opening") <= 2, "one of each of the others"
    assert calls.answered.index("opening") <= CALLS_MAX, "with the commit that was under way"
    assert [name for name in calls.ran if name in set(storm)] == storm, "those of a tenant in their order"
    assert world.thread.commits - before == -(-(len(storm) + 3) // CALLS_MAX)


async def test_a_commit_begins_no_call_after_its_time(world: World) -> None:
    calls = Queue(world.thread)
    await calls.block()
    await calls.put("mob", *(f"slow-{number}" for number in range(6)), takes_s=RUN_S_MAX / 2)
    before = world.thread.commits
    await calls.run()
    assert world.thread.commits - before == 3


async def test_calls_of_a_commit_that_is_run_again_are_those_that_were_in_it(world: World) -> None:
    assert world.reserve.fill()
    calls = Queue(world.thread)
    await calls.block()
    await calls.put("a", "a1", "a2")
    await calls.put("b", "b1")
    world.faults["commit"] = [sqlite_error(sqlite3.SQLITE_FULL)]
    await calls.run()
    assert calls.ran == ["a1", "b1", "a2"] * 2
    assert calls.answered == ["blocking", "a1", "b1", "a2"]


class Shrunk(DiskReserve):
    """What was given to others does not come back by itself."""

    space = False

    def fill(self) -> bool:
        return super().fill() if self.space else self.whole


async def test_a_full_disk_refuses_new_topics_and_serves_those_there_are(tmp_path: Path) -> None:
    reserve = Shrunk(tmp_path / "reserve", 2 * SLICE_BYTES)
    reserve.space = True
    reserve.fill()
    store = SqliteMetaStore(tmp_path / "meta.sqlite3", reserve=reserve)
    await store.start()
    assert await store.acquire(WHOLE) == FENCE
    record = await store.cas_topic(FENCE, TopicRecord("persistent://a/b/old"))
    reserve.space = False
    assert reserve.release()
    for making in (
        store.cas_topic(FENCE, TopicRecord("persistent://a/b/new")),
        store.cas_partitioned(FENCE, PartitionedRecord("persistent://a/b/p", 2)),
    ):
        with pytest.raises(DiskFull, match="free some space"):
            await making
    await store.cas_topic(FENCE, record)
    await store.create_subscription(FENCE, record.name, "s", created_ms=1, mark_delete=Position(-1, -1), properties={})
    await store.delete_topic(FENCE, record.name)
    reserve.space = True
    await store.cas_topic(FENCE, TopicRecord("persistent://a/b/new"))
    assert reserve.whole
    await store.stop()


async def test_leftovers_of_deleted_topics_of_earlier_versions_go_with_a_start(tmp_path: Path) -> None:
    store = SqliteMetaStore(tmp_path / "meta.sqlite3")
    await store.start()
    assert await store.acquire(WHOLE) == FENCE
    await store.cas_topic(FENCE, TopicRecord("persistent://a/b/there"))
    kept = {"dedup:persistent://a/b/there": b"1", "delayed/persistent://a/b/there": b"1", "cursor-ledgers": b"[1]"}
    left = {"dedup:persistent://a/b/gone": b"1", "delayed/persistent://a/b/gone": b"1", "dedup:persistent://a/b/ended": b""}
    for key, value in (kept | left).items():
        await store.put_value(FENCE, key, value)
    await store.stop()
    await store.start()
    assert {key: await store.get_value(key) for key in kept} == kept
    assert [await store.get_value(key) for key in left] == [None, None, None]
    await store.stop()


async def test_a_broker_that_commits_all_the_time_leaves_turns_to_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They share the file. By SQLite's own way of waiting, up to 100 ms, the others would be late for nearly every gap."""
    pauses: list[float] = []
    monkeypatch.setattr("messaging.storage.sqlite.thread.time.sleep", pauses.append)
    now_s = 100.0
    world.thread.clock = lambda: now_s
    await world.insert(0)
    assert pauses == [], "nobody else is there"
    world.faults["begin"] = [sqlite_error(sqlite3.SQLITE_BUSY)] * 3
    await world.insert(1)
    assert pauses == [LOOK_S] * 3
    await world.insert(2)
    assert pauses[3:] == [GAP_S], "there may be others, and they look while it waits"
    now_s += SHARED_S
    await world.insert(3)
    assert len(pauses) == 4 and LOOK_S < GAP_S
    assert await world.numbers() == [0, 1, 2, 3]


async def test_a_lock_that_does_not_end_fails_the_call_at_last(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.insert(0)
    monkeypatch.setattr("messaging.storage.sqlite.thread.LOCK_S_MAX", 0.05)
    holding = sqlite3.connect(world.path, isolation_level=None)
    holding.execute("begin immediate")
    with pytest.raises(Unavailable, match="database is locked"):
        await world.insert(1)
    holding.execute("rollback")
    holding.close()
    assert await world.insert(2) == 2


@pytest.mark.parametrize("held", ["read", "write"])
async def test_reads_and_commits_of_brokers_that_share_the_file_do_not_wait_for_each_other(tmp_path: Path, held: str) -> None:
    """Each read took the lock of writers: while one broker listed 100,000 topics no other could open one, or list its own."""
    here, there = SqliteMetaStore(tmp_path / "meta.sqlite3"), SqliteMetaStore(tmp_path / "meta.sqlite3")
    await here.start()
    await there.start()
    fence = await here.acquire(WHOLE)
    await here.cas_topic(fence, TopicRecord("persistent://a/b/t"))
    begun, go_on = threading.Event(), threading.Event()

    def hold(db: Database) -> int:
        rows = db.execute("select 1 from topic").fetchall()
        begun.set()
        assert go_on.wait(10)
        return len(rows)

    holding = asyncio.ensure_future(there.thread.call(hold, reads=held == "read"))
    await asyncio.to_thread(begun.wait, 10)
    assert await asyncio.wait_for(here.list_topics("a/b"), 5) == ["persistent://a/b/t"]
    if held == "read":
        await asyncio.wait_for(here.cas_topic(fence, TopicRecord("persistent://a/b/u")), 5)
    assert not holding.done()
    go_on.set()
    assert await holding == 1
    assert len(await there.list_topics("a/b")) == (2 if held == "read" else 1), "the next one sees what was committed"
    await here.stop()
    await there.stop()


async def test_a_transaction_of_reads_takes_no_writes_and_keeps_the_order_of_a_tenant(world: World) -> None:
    def read(db: Database) -> list[int]:
        return [number for (number,) in db.execute("select k from t order by k")]

    async def insert(number: int, tenant: str) -> None:
        await world.thread.call(lambda db: db.execute("insert into t values (?)", (number,)) and None, tenant)

    calls = Queue(world.thread)
    await calls.block(reads=True)
    before = world.thread.commits
    asked = [
        asyncio.ensure_future(call)
        for call in (
            world.thread.call(read, "a", reads=True),
            insert(1, "a"),
            world.thread.call(read, "a", reads=True),
            insert(2, "b"),
            world.thread.call(read, "c", reads=True),
        )
    ]
    await asyncio.sleep(0)
    await calls.run()
    first, _, second, _, other = await asyncio.gather(*asked)
    assert (first, other, second) == ([], [], [1, 2])
    assert world.thread.commits - before == 2, "the reads, and with the first write all the rest"


class MeetsOthers(SqliteThread):
    """As where several brokers' transactions meet; `begun`: whether each was for reads alone."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        super().__init__(connect)
        self.begun: list[bool] = []

    def met_another(self, error: Exception) -> bool:
        return "met another" in str(error)

    def begin(self, db: Database, *, reads: bool) -> None:
        self.begun.append(reads)
        super().begin(db, reads=reads)


async def test_what_is_set_aside_with_a_read_first_is_no_transaction_of_reads(tmp_path: Path) -> None:
    """The first call alone decided: what was written behind it began without the lock of writers."""
    world, gate, frozen = World(tmp_path), threading.Event(), [True]
    thread, base = MeetsOthers(world.connect), time.monotonic()
    thread.clock = lambda: 0.0 if frozen else time.monotonic() - base  # until all three share a transaction
    world.faults["commit"] = [sqlite_error(sqlite3.SQLITE_BUSY, "met another") for _ in range(2)]

    def first(db: Database) -> None:
        assert gate.wait(30)
        db.execute("insert into t values (1)")

    def last(db: Database) -> None:
        frozen.clear()
        db.execute("insert into t values (2)")

    def count(db: Database) -> int:
        return int(db.execute("select count(*) from t").fetchone()[0])

    thread.start()
    calls = [thread.call(first, "a"), thread.call(count, "b", reads=True), thread.call(last, "b")]
    asked = [asyncio.ensure_future(call) for call in calls]
    await asyncio.sleep(0)  # each is queued by its first step
    gate.set()
    await asyncio.gather(*asked)
    assert await thread.call(count, reads=True) == 2
    await thread.stop()
    assert thread.begun[:2] == [False, False] and sorted(thread.begun[2:]) == [False, False, True], (
        "only the last count reads alone"
    )
