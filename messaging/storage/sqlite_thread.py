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

from messaging.storage.seam import Unavailable

T = TypeVar("T")
_Call = tuple[Callable[[sqlite3.Connection], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]

CALLS_MAX = 2000  # of one commit


class SqliteThread:
    """`connect` runs in the thread; what it raises, every call raises."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self.commits = 0
        self._connect = connect
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
        """The thread: opens, commits what is queued until told to stop, closes."""
        try:
            db = self._connect()
        except Exception as error:
            self._refuse(error)
            return
        with_stop = False
        while not with_stop:
            calls, with_stop = _gather(self._calls)
            if calls:
                outcomes = _commit(db, calls)
                self.commits += 1
                _resolve(calls, outcomes)
        db.close()

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


def _commit(db: sqlite3.Connection, calls: list[_Call]) -> list[Any]:
    """Runs the calls in one transaction. Returns one outcome each: a value, or the exception it failed with."""
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
        if db.in_transaction:
            db.execute("rollback")
        return [error] * len(calls)
    return outcomes


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
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
