"""Calls on one connection to a database, many to a commit.

One thread owns the connection. A call queues a function and waits; the thread runs what is queued inside one transaction, each call
within its own savepoint (a failed compare-and-set undoes only itself), commits once and resolves all of them together. So 1000
topics created at once cost a few syncs, not 1000.

Calls are taken in turns, which are fair between tenants, while the transaction goes on: one of each that has any. Those with the
same turn are run in the order in which they were made. A transaction has `CALLS_MAX` calls at most, and begins none later than
`RUN_S_MAX` after its first: a tenant waits for the commit under way and for its own, whatever the others have queued. Where a
transaction of reads alone keeps nobody else waiting, one that begins with a read has nothing but reads.

What fails:

- a call: it alone gets the error;
- the transaction, in a way that leaves no doubt that nothing of it was committed, and that may go better: it is run again;
- the transaction, because it met another broker's: the first time it is run again at once, then its calls are set aside, each turn
  for itself, and run later. What is behind them in the same turn waits, other turns go on. A call that alone waits for another
  broker's lock is set aside alone;
- the transaction, otherwise: every call of it gets the error. Whether it was committed is not known then, so nothing is run again.
  A connection that cannot be trusted any more is closed, and the next calls get a new one;
- the thread, never: with it every call would wait forever.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from messaging.background import BackgroundLoop
from messaging.fairness.blocking import BlockingFairQueue
from messaging.storage.ledger_store import Unavailable
from messaging.storage.sql.later_calls import PATIENCE_S, Batch, LaterCalls

T = TypeVar("T")

CALLS_MAX = 200  # of one commit; all their tasks go on in one turn of the event loop
RUN_S_MAX = 0.01  # a call that takes longer is the last of its commit


class Rows(Protocol):
    """What a statement gives: of a change, how many rows it was about."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """A connection. Parameters are question marks."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Rows: ...
    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> object: ...
    def close(self) -> None: ...


@dataclass(frozen=True, eq=False, slots=True)
class _Call:
    run: Callable[[Database], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    turn: str
    reads: bool


class _Failed(NamedTuple):
    error: Exception


class _Later(NamedTuple):
    """It met another broker's transaction."""

    error: Exception


class CommitThread:
    """`connect` runs in the thread; what it raises, the calls that wait for it raise, and the next ones try again. `health` is told
    of what goes wrong with the database itself, not with single calls. `clock` counts seconds. Each kind of database says what its
    errors mean."""

    BEGIN: ClassVar[str]
    READS_APART: ClassVar[bool] = False  # reads have transactions of their own, which take no lock that others wait for

    def __init__(self, connect: Callable[[], Database], health: BackgroundLoop | None = None) -> None:
        self.commits = 0
        self.clock: Callable[[], float] = time.monotonic
        self._connect = connect
        self._health = health or BackgroundLoop("metadata_store")
        self._db: Database | None = None
        self._calls: BlockingFairQueue[_Call] = BlockingFairQueue()
        self._later_calls: LaterCalls[_Call] = LaterCalls()
        self._new_is_next = True  # and not what was set aside
        self._thread: threading.Thread | None = None

    # What a kind of database says

    def ends_connection(self, error: BaseException) -> bool:
        """The connection is no longer believed after it."""
        raise NotImplementedError

    def ends_transaction(self, error: BaseException) -> bool:
        """Whichever call met it, none of the others can be committed."""
        raise NotImplementedError

    def may_run_again(self, error: Exception, attempts: int, *, connecting: bool) -> bool:
        """Whether it is certain that nothing was committed, and another attempt at once may go better. The transaction was left,
        and the connection, if it is not believed any more."""
        raise NotImplementedError

    def met_another(self, error: Exception) -> bool:
        """It is certain that nothing was committed, since another broker's transaction came first."""
        return False

    def met_lock(self, error: BaseException) -> bool:
        """Only this call could not go on, since another broker's transaction has not ended."""
        return False

    def begin(self, db: Database, *, reads: bool) -> None:
        """`reads`: nothing is written in this one. Only where `READS_APART`."""
        db.execute(self.BEGIN)

    def commit(self, db: Database) -> None:
        """Returns when all is durable."""
        db.execute("commit")

    def told(self, error: Exception) -> Exception:
        """What callers get in its place."""
        raise NotImplementedError

    def committed(self) -> None:
        """In the thread, after each commit."""

    # Calls

    def start(self) -> None:
        self._calls = BlockingFairQueue()
        self._thread = threading.Thread(target=self._run, name="metadata", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Waits for what is queued, then closes the connection."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._calls.end()
            await asyncio.get_running_loop().run_in_executor(None, thread.join)

    async def call(self, run: Callable[[Database], T], turn: str = "", *, reads: bool = False) -> T:
        """What `run` returns, once it is committed; it may be run more than once until then. `turn`: the tenant that it is for;
        `reads`: it writes nothing. Raises what `run` raises; `DiskFull` and `Unavailable` where the database did not do it."""
        if self._thread is None:
            raise Unavailable("the metadata store is not running: this broker starts or stops")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put(turn, _Call(run, future, loop, turn, reads))
        return await future

    # In the thread

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            outcomes = self._outcomes(batch)
            later: dict[str, list[_Call]] = {}
            for call, outcome in zip(batch.items, outcomes, strict=True):
                if isinstance(outcome, _Later):
                    later.setdefault(call.turn, []).append(call)
            for turn, calls in later.items():
                self._later_calls.add(turn, calls, batch, self.clock())
            self._resolve(batch.items, outcomes)
        self._disconnect()

    def _next(self) -> Batch[_Call] | None:
        """What to run, in turns: what was set aside, and what is new. None: it was ended."""
        while True:
            call = None
            if self._new_is_next:
                call = self._calls.take_waiting(self._may_run)
            elif (due := self._later_calls.take(self.clock())) is not None:
                self._new_is_next = True
                return due
            else:
                wait_s = self._later_calls.wait_s(self.clock())
                call = self._calls.take(wait_s, self._may_run)
                if call is None and self._calls.ended:
                    if wait_s is None:
                        return None
                    time.sleep(wait_s)
            self._new_is_next = False
            if call is not None:
                return Batch([call], 0, 0.0, self.clock() + PATIENCE_S)

    def _may_run(self, turn: str, call: _Call) -> bool:
        return turn not in self._later_calls

    def _may_read(self, turn: str, call: _Call) -> bool:
        return call.reads and self._may_run(turn, call)

    def _only_reads(self, batch: Batch[_Call]) -> bool:
        return self.READS_APART and all(call.reads for call in batch.items)

    def _outcomes(self, batch: Batch[_Call]) -> list[Any]:
        """One for each call: a value, `_Failed` or `_Later`. What is new grows by those that share the commit."""
        calls = batch.items
        for attempts in itertools.count(1):
            connecting = self._db is None
            try:
                outcomes = self._commit(self._connected(), batch)
            except BaseException as error:
                failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
                connecting = connecting and self._db is None
                self._leave(failure)
                first_meeting = batch.meetings == 0 and attempts == 1
                if self.may_run_again(failure, attempts, connecting=connecting) or (first_meeting and self.met_another(failure)):
                    continue
                if self.met_another(failure) and self.clock() < batch.give_up_s:
                    return [_Later(failure)] * len(calls)
                self._health.failed(failure)
                return [_Failed(failure)] * len(calls)
            self.commits += 1
            self._health.succeeded()
            self.committed()
            return outcomes
        raise AssertionError("unreachable")

    def _in_turns(self, batch: Batch[_Call]) -> Iterator[_Call]:
        """The calls of `batch`, and then, as far as one transaction goes, what waits: it is added to them. Those that were set
        aside are on their own, so that nobody else meets whom they met."""
        begun_s = self.clock()
        calls = batch.items
        fits = self._may_read if self._only_reads(batch) else self._may_run
        yield from list(calls)  # more than the first, where the transaction is run again
        while batch.meetings == 0 and len(calls) < CALLS_MAX and self.clock() - begun_s < RUN_S_MAX:
            call = self._calls.take_waiting(fits)
            if call is None:
                return
            calls.append(call)
            yield call

    def _connected(self) -> Database:
        if self._db is None:
            self._db = self._connect()
        return self._db

    def _commit(self, db: Database, batch: Batch[_Call]) -> list[Any]:
        """Runs the calls in one transaction. Raises what the whole of it failed with; it may have been left open then."""
        outcomes: list[Any] = []
        later: dict[str, _Later] = {}  # by turn: what is behind a call that is set aside waits for it
        give_up = self.clock() >= batch.give_up_s  # nothing is set aside any more
        self.begin(db, reads=self._only_reads(batch))
        for call in self._in_turns(batch):
            if call.turn in later:
                outcomes.append(later[call.turn])
                continue
            db.execute("savepoint one")
            try:
                outcomes.append(call.run(db))
            except BaseException as error:
                if not db.in_transaction or self.ends_transaction(error):
                    raise
                failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
                if self.met_lock(failure) and not give_up:
                    outcomes.append(later.setdefault(call.turn, _Later(failure)))
                else:
                    outcomes.append(_Failed(failure))
                db.execute("rollback to one")
            db.execute("release one")
        self.commit(db)
        return outcomes

    def _leave(self, error: Exception) -> None:
        """Ends the transaction, and the connection if it is not to be believed."""
        usable = False
        if self._db is not None and not self.ends_connection(error):
            with suppress(Exception):
                if self._db.in_transaction:
                    self._db.execute("rollback")
                usable = True
        if not usable:
            self._disconnect()

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(Exception):
                db.close()

    def _resolve(self, calls: list[_Call], outcomes: list[Any]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
        for call, outcome in zip(calls, outcomes, strict=True):
            if isinstance(outcome, _Later):
                continue
            by_loop.setdefault(call.loop, []).append((call.future, outcome))
        for loop, pairs in by_loop.items():
            try:
                loop.call_soon_threadsafe(self._deliver, pairs)
            except RuntimeError:
                pass  # the loop was closed: nobody waits any more

    def _deliver(self, pairs: list[tuple[asyncio.Future[Any], Any]]) -> None:
        for future, outcome in pairs:
            if future.done():
                continue  # the caller gave up waiting
            if not isinstance(outcome, _Failed):
                future.set_result(outcome)
                continue
            error = self.told(outcome.error)
            # No future takes this one, and those behind it would wait forever.
            future.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)
