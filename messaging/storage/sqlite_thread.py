"""Calls on one SQLite connection, many to a commit.

One thread owns the connection. A call queues a function and waits; the thread takes everything queued, runs it inside one
transaction in call order, each call within its own savepoint (a failed compare-and-set undoes only itself), commits once and
resolves all of them together. So 1000 topics created at once cost one sync, not 1000.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from messaging.background import BackgroundLoop
from messaging.storage.seam import Unavailable

T = TypeVar("T")
_Call = tuple[Callable[[sqlite3.Connection], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]

CALLS_MAX = 2000  # of one commit


class SqliteThread:
    """`connect` runs in the thread; what it raises, every call raises. `health` is told of what goes wrong with the file itself,
    not with single calls."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], health: BackgroundLoop | None = None) -> None:
        self.commits = 0
        self._connect = connect
        self._health = health or BackgroundLoop("metadata_store")
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="meta-sqlite", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Waits for what is queued, then closes the connection."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._calls.put(None)
            await asyncio.get_running_loop().run_in_executor(None, thread.join)

    async def call(self, run: Callable[[sqlite3.Connection], T]) -> T:
        """What `run` returns, once it is committed. Raises what `run` raises; `Unavailable` where SQLite did not do it."""
        if self._thread is None:
            raise RuntimeError("the metadata store is not running")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put((run, future, loop))
        return await future

    def _run(self) -> None:
        """The thread: opens, commits what is queued until told to stop, closes. It ends for nothing else: with it every call would
        wait for ever."""
        try:
            db = self._connect()
        except Exception as error:
            self._health.failed(error)
            self._refuse(error)
            return
        with_stop = False
        while not with_stop:
            calls, with_stop = _gather(self._calls)
            if not calls:
                continue
            outcomes, failure = _commit(db, calls)
            if failure is None:
                self.commits += 1
                self._health.succeeded()
            else:
                self._health.failed(failure)
                db = self._usable(db)
            _resolve(calls, outcomes)
        db.close()

    def _usable(self, db: sqlite3.Connection) -> sqlite3.Connection:
        """`db`, out of the transaction that failed, or a new connection; the old one where there is none just now."""
        try:
            if db.in_transaction:
                db.execute("rollback")
            return db
        except Exception as error:
            self._health.failed(error)
        try:
            fresh = self._connect()
        except Exception as error:
            self._health.failed(error)
            return db
        db.close()
        return fresh

    def _refuse(self, error: Exception) -> None:
        while (call := self._calls.get()) is not None:
            _resolve([call], [error])


def _gather(calls: queue.SimpleQueue[_Call | None]) -> tuple[list[_Call], bool]:
    """Waits for one call and takes what else is queued. The flag says that the stop mark was among it."""
    gathered: list[_Call] = []
    call = calls.get()
    while call is not None:
        gathered.append(call)
        if len(gathered) == CALLS_MAX:
            return gathered, False
        try:
            call = calls.get_nowait()
        except queue.Empty:
            return gathered, False
    return gathered, True


def _commit(db: sqlite3.Connection, calls: list[_Call]) -> tuple[list[Any], Exception | None]:
    """Runs the calls in one transaction. Returns one outcome each, a value or the exception it failed with; and what the whole
    transaction failed with, which may have been left open then."""
    outcomes: list[Any] = []
    try:
        db.execute("begin immediate")
        for run, _, _ in calls:
            db.execute("savepoint one")
            try:
                outcomes.append(run(db))
            except Exception as error:
                outcomes.append(error)
                db.execute("rollback to one")
            db.execute("release one")
        db.execute("commit")
    except Exception as error:
        return [error] * len(calls), error
    return outcomes, None


def _resolve(calls: list[_Call], outcomes: list[Any]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for (_, future, loop), outcome in zip(calls, outcomes, strict=True):
        by_loop.setdefault(loop, []).append((future, outcome))
    for loop, pairs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_deliver, pairs)
        except RuntimeError:
            pass  # the loop was closed: nobody waits any more


def _deliver(pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in pairs:
        if future.done():
            continue  # the caller gave up waiting
        if isinstance(outcome, sqlite3.Error):
            future.set_exception(Unavailable(f"the metadata store did not do it: {outcome}"))
        elif isinstance(outcome, Exception):
            # No future takes this one, and those behind it would wait for ever.
            future.set_exception(RuntimeError(repr(outcome)) if isinstance(outcome, StopIteration) else outcome)
        else:
            future.set_result(outcome)
