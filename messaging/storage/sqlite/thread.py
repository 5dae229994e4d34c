"""Calls on one SQLite connection, many to a commit.

One thread owns the connection. A call queues a function and waits; the thread runs what is queued inside one transaction, each call
within its own savepoint (a failed compare-and-set undoes only itself), commits once and resolves all of them together. So 1000
topics created at once cost a few syncs, not 1000.

Calls are taken in turns, which are fair between tenants, while the transaction goes on: one of each that has any. Those with the
same turn are run in the order in which they were made. A transaction has `CALLS_MAX` calls at most, and begins none later than
`RUN_S_MAX` after its first: a tenant waits for the commit under way and for its own, whatever the others have queued.

What fails:

- a call: it alone gets the error;
- the transaction, because the disk is full: it is run again with the space of the write-ahead log, whose content is moved into the
  database, or with space from the reserve, until that is used up;
- the transaction, otherwise: every call of it gets the error. Whether it was committed is not known then, so nothing is run again.
  A connection that cannot be trusted any more is closed, and the next calls get a new one;
- the thread, never: with it every call would wait forever.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from messaging.background import BackgroundLoop
from messaging.fairness.blocking import BlockingFairQueue
from messaging.storage.disk_reserve import NO_RESERVE, DiskReserve
from messaging.storage.ledger_store import DiskFull, Unavailable

T = TypeVar("T")

CALLS_MAX = 200  # of one commit; all their tasks go on in one turn of the event loop
RUN_S_MAX = 0.01  # a call that takes longer is the last of its commit
# After these the connection is no longer believed: its file, or what it knows of it, may be broken.
BROKEN = frozenset(
    {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_MISUSE}
)
# These end the whole transaction, whichever call met them.
OF_ALL = BROKEN | {sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM}


@dataclass(frozen=True, eq=False, slots=True)
class _Call:
    run: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class _Failed(NamedTuple):
    error: Exception


def code_of(error: BaseException) -> int:
    """The primary result code of SQLite; `SQLITE_MISUSE` for what the module itself refuses, as a connection that was closed."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
    return sqlite3.SQLITE_OK


class SqliteThread:
    """`connect` runs in the thread; what it raises, the calls that wait for it raise, and the next ones try again. `health` is told
    of what goes wrong with the file itself, not with single calls. `clock` counts seconds."""

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], health: BackgroundLoop | None = None, reserve: DiskReserve = NO_RESERVE
    ) -> None:
        self.commits = 0
        self.clock: Callable[[], float] = time.monotonic
        self.reserve = reserve
        self._connect = connect
        self._health = health or BackgroundLoop("metadata_store")
        self._db: sqlite3.Connection | None = None
        self._calls: BlockingFairQueue[_Call] = BlockingFairQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._calls = BlockingFairQueue()
        self._thread = threading.Thread(target=self._run, name="meta-sqlite", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Waits for what is queued, then closes the connection."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._calls.end()
            await asyncio.get_running_loop().run_in_executor(None, thread.join)

    async def call(self, run: Callable[[sqlite3.Connection], T], turn: str = "") -> T:
        """What `run` returns, once it is committed; it may be run more than once until then. `turn`: the tenant that it is for.
        Raises what `run` raises; `DiskFull` and `Unavailable` where SQLite did not do it."""
        if self._thread is None:
            raise RuntimeError("the metadata store is not running")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put(turn, _Call(run, future, loop))
        return await future

    # In the thread

    def _run(self) -> None:
        while (first := self._calls.take()) is not None:
            calls = [first]
            outcomes = self._outcomes(calls)
            _resolve(calls, outcomes)
        self._disconnect()

    def _outcomes(self, calls: list[_Call]) -> list[Any]:
        """One for each call: a value, or `_Failed`. `calls` grows by those that share the commit."""
        while True:
            connecting = self._db is None
            try:
                outcomes = _commit(self._connected(), self._in_turns(calls))
            except BaseException as error:
                failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
                if self._may_run_again(failure, connecting):
                    continue
                self._health.failed(failure)
                return [_Failed(failure)] * len(calls)
            self.commits += 1
            self._health.succeeded()
            self.reserve.fill_at_times()
            return outcomes

    def _in_turns(self, calls: list[_Call]) -> Iterator[_Call]:
        """`calls`, and then, as far as one transaction goes, what waits: it is added to them."""
        begun_s = self.clock()
        yield from list(calls)  # more than the first, where the transaction is run again
        while len(calls) < CALLS_MAX and self.clock() - begun_s < RUN_S_MAX:
            call = self._calls.take_waiting()
            if call is None:
                return
            calls.append(call)
            yield call

    def _connected(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = self._connect()
        return self._db

    def _may_run_again(self, error: Exception, connecting: bool) -> bool:
        """Leaves the transaction; whether it is certain that nothing of it was committed, and there is space for it now."""
        code = code_of(error)
        usable = False
        if self._db is not None and code not in BROKEN:
            with suppress(Exception):
                if self._db.in_transaction:
                    self._db.execute("rollback")
                usable = True
        connecting = connecting and self._db is None
        if not usable:
            self._disconnect()
        if code == sqlite3.SQLITE_FULL:
            return self._make_space()
        # The files beside the database, and what a file system notices only when it syncs, are refused in other words.
        refused = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and self.reserve.disk_full and self.reserve.release()
        return refused and connecting

    def _make_space(self) -> bool:
        """Whether there is some now. A little from the reserve may be what the log needs to be moved into the database."""
        if self._db is not None and shrink_log(self._db):
            return True
        released = self.reserve.release()
        if released and self._db is not None:
            shrink_log(self._db)
        return released

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(Exception):
                db.close()


def shrink_log(db: sqlite3.Connection) -> bool:
    """Moves the content of the write-ahead log into the database and gives the log's space back to the disk. Whether there was any:
    not if the database had to grow and could not."""
    try:
        _, _, path = db.execute("pragma database_list").fetchone()
        log = Path(f"{path}-wal")
        before = log.stat().st_size
        db.execute("pragma wal_checkpoint(truncate)")
        return log.stat().st_size < before
    except (sqlite3.Error, OSError):
        return False


def _commit(db: sqlite3.Connection, calls: Iterable[_Call]) -> list[Any]:
    """Runs the calls in one transaction. Raises what the whole of it failed with; it may have been left open then."""
    outcomes: list[Any] = []
    db.execute("begin immediate")
    for call in calls:
        db.execute("savepoint one")
        try:
            outcomes.append(call.run(db))
        except BaseException as error:
            if not db.in_transaction or code_of(error) in OF_ALL:
                raise
            outcomes.append(_Failed(error if isinstance(error, Exception) else RuntimeError(repr(error))))
            db.execute("rollback to one")
        db.execute("release one")
    db.execute("commit")
    return outcomes


def _resolve(calls: list[_Call], outcomes: list[Any]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for call, outcome in zip(calls, outcomes, strict=True):
        by_loop.setdefault(call.loop, []).append((call.future, outcome))
    for loop, pairs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_deliver, pairs)
        except RuntimeError:
            pass  # the loop was closed: nobody waits any more


def _deliver(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in pairs:
        if future.done():
            continue  # the caller gave up waiting
        if isinstance(outcome, _Failed):
            future.set_exception(_told(outcome.error))
        else:
            future.set_result(outcome)


def _told(error: Exception) -> Exception:
    if isinstance(error, sqlite3.Error):
        if code_of(error) == sqlite3.SQLITE_FULL:
            return DiskFull("the disk is full and the reserve for metadata is used up: free some space")
        return Unavailable(f"the metadata store failed: {error}")
    # No future takes this one, and those behind it would wait forever.
    return RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
