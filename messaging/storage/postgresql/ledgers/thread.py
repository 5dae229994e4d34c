"""The commits of all ledgers of a broker: what was appended meanwhile becomes one transaction, which all of them share.

One thread owns the connection. Tenants take turns: one append of each that has any, up to `COMMIT_BYTES_MAX` and `ITEMS_MAX`. While
a transaction is committed the next one gathers, so that nothing ever waits for more to come.

A transaction locks the fences of what it writes for share first. Who takes a scope over changes that row, and so waits for the
transactions under the older fence; those that come later read the newer one, and what they wanted to write is refused as `Fenced`.

What fails:

- an append or a call whose fence is older: it alone, and what follows of that writer;
- the transaction before its commit was sent: nothing of it is there. It runs again where that may help, else all of it is refused;
- the commit, by a lost connection: a new connection waits for the end of the lost transaction, which still has its locks, and
  looks for one of its blocks: all of it is there, or it runs again. If no server answers, the appends fail, and `seal` decides; a
  later transaction waits instead;
- the wait of a commit for its standby: the server only warns then. Nothing of it counts as confirmed.

A commit is never cancelled, and has no time limit (`messaging/storage/postgresql/commit.py`).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import psycopg

from messaging.background import BackgroundLoop
from messaging.fairness.blocking import BlockingFairQueue
from messaging.storage.ledger_store import (
    AppendFailed,
    DiskFull,
    Fence,
    Fenced,
    LedgerClosed,
    StoreError,
    Unavailable,
)
from messaging.storage.postgresql.commit import NotConfirmed, commit
from messaging.storage.postgresql.ledgers import tables
from messaging.storage.postgresql.ledgers.tables import Connection
from messaging.storage.postgresql.ledgers.writer import Append
from messaging.storage.postgresql.thread import code_of, ends_connection, told, was_rolled_back

T = TypeVar("T")

SETTING = "ledger_url"
WHAT = "the ledger store in PostgreSQL"
COMMIT_BYTES_MAX = 2 << 20  # half of it costs a quarter more CPU for a message of large batches, and neighbours wait as long
ITEMS_MAX = 1000  # of one commit; they are answered in one turn of the event loop
ATTEMPTS_MAX = 12
SETTLE_S = 5.0  # how long a lost commit is looked for before its appends fail
SETTLE_AGAIN_S = 0.1
_LOST = f"the connection to the PostgreSQL of {SETTING} was lost during a commit: {{lost}}"


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """`fence`: None where the call does not depend on one."""

    fence: Fence | None
    run: Callable[[Connection], Any]
    future: asyncio.Future[Any]
    size_bytes = 0


class Failed(NamedTuple):
    error: StoreError


Item = Append | Call
Outcome = Any  # what a call returned, None for an append, or `Failed`


class LedgerThread:
    """`connect` runs in the thread and raises `StoreError`. `on_fenced` is called on the loop with each refusal by the database."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        health: BackgroundLoop | None = None,
        on_fenced: Callable[[Fence, Fenced], None] = lambda fence, error: None,
    ) -> None:
        self.commits = 0
        self.commit_s = 0.0
        self.written_bytes = 0
        self._connect = connect
        self._health = health or BackgroundLoop("ledger_store")
        self._on_fenced = on_fenced
        self.connection: Connection | None = None
        self._doubtful: set[str] = set()  # scopes under which a lost transaction may still be under way
        self.items: BlockingFairQueue[Item] = BlockingFairQueue()
        self.commit_lock = threading.Lock()  # whoever has it keeps transactions from beginning
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.items = BlockingFairQueue()
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="ledger-commit", daemon=True)
        self._thread.start()

    async def stop(self, patience_s: float) -> None:
        """Waits for what is queued. A commit that takes longer than `patience_s` is left to the server."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self.items.end()
        await self._loop.run_in_executor(None, thread.join, patience_s)
        if thread.is_alive():
            self._stopping.set()
            self._hang_up()
            await self._loop.run_in_executor(None, thread.join, patience_s)

    def put(self, turn: str, append: Append) -> None:
        self.items.put(turn, append)

    async def call(self, fence: Fence | None, run: Callable[[Connection], T], turn: str = "") -> T:
        """What `run` returns, once it is committed; it may run more than once until then. Where it raises `StoreError`, the
        transaction goes on."""
        if self._thread is None:
            raise Unavailable(f"{WHAT} is not running")
        future: asyncio.Future[T] = self._loop.create_future()
        self.items.put(turn, Call(fence, run, future))
        return await future

    # In the thread

    def _run(self) -> None:
        while (first := self.items.take()) is not None:
            batch = self.batch_from(first)
            try:
                with self.commit_lock:
                    outcomes = self._outcomes(batch)
            except BaseException as error:  # without the thread everything would wait forever
                outcomes = [_refusal(item, Unavailable(repr(error))) for item in batch]
                self._disconnect()
            for item, outcome in zip(batch, outcomes, strict=True):
                if isinstance(item, Append) and isinstance(outcome, Failed):
                    item.writer.failed = True
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._answer, batch, outcomes)
        self._disconnect()

    def batch_from(self, first: Item) -> list[Item]:
        batch, room = [first], COMMIT_BYTES_MAX - first.size_bytes
        while room > 0 and len(batch) < ITEMS_MAX and (item := self.items.take_waiting()) is not None:
            batch.append(item)
            room -= item.size_bytes
        return batch

    def _outcomes(self, batch: Sequence[Item]) -> list[Outcome]:
        for attempt in itertools.count(1):
            outcomes: list[Outcome] = []
            committing = False
            try:
                connection = self._connected()
            except StoreError as error:
                self._health.failed(error)
                return [_refusal(item, error) for item in batch]
            try:
                outcomes = self._write(connection, batch)
                committing = True
                self.commit(connection)
            except (psycopg.Error, NotConfirmed) as error:
                self._leave(ends_connection(error))
                if committing and ends_connection(error) and isinstance(error, psycopg.Error):
                    settled = self._settle(batch, outcomes, error)
                    if settled is None and attempt < ATTEMPTS_MAX:
                        continue
                    return settled or [_refusal(item, Unavailable(_LOST.format(lost=error))) for item in batch]
                again = was_rolled_back(error) or (not committing and ends_connection(error) and attempt < 2)
                if attempt < ATTEMPTS_MAX and again:
                    continue
                self._health.failed(error)
                reason = told(error, SETTING, WHAT) if isinstance(error, psycopg.Error) else error
                refused: StoreError = DiskFull(str(reason)) if code_of(error) == "53100" else reason
                return [_refusal(item, refused) for item in batch]
            self._health.succeeded()
            self.written_bytes += sum(item.size_bytes for item in batch)
            return outcomes
        raise AssertionError("unreachable")

    def _write(self, connection: Connection, batch: Sequence[Item]) -> list[Outcome]:
        connection.execute("begin")
        scopes = {item.fence.scope for item in batch if item.fence is not None}
        newest = tables.lock_fences(connection, scopes | self._doubtful, alone=bool(self._doubtful))
        self._doubtful.clear()
        outcomes: list[Outcome] = [_fenced(item, newest) for item in batch]
        for index, item in enumerate(batch):
            if isinstance(item, Append) and item.writer.failed:
                text = f"an earlier append to ledger {item.writer.ledger_id} failed"
                outcomes[index] = Failed(LedgerClosed(text, item.writer.ledger_id))
        appends = [item for item, outcome in zip(batch, outcomes, strict=True) if isinstance(item, Append) and outcome is None]
        if appends:
            tables.append(connection, map(_row_of, appends))
        for index, item in enumerate(batch):
            if isinstance(item, Call) and outcomes[index] is None:
                try:
                    outcomes[index] = item.run(connection)
                except StoreError as error:
                    outcomes[index] = Failed(error)
        return outcomes

    def commit(self, connection: Connection) -> None:
        begun_s = time.monotonic()
        commit(connection)
        self.commits += 1
        self.commit_s += time.monotonic() - begun_s

    def _settle(self, batch: Sequence[Item], outcomes: list[Outcome], lost: Exception) -> list[Outcome] | None:
        """The outcomes of a batch whose commit was lost; None: nothing of it was committed, for certain. Only a block tells."""
        self._health.failed(lost)
        appends = [item for item, outcome in zip(batch, outcomes, strict=True) if isinstance(item, Append) and outcome is None]
        self._doubtful |= {item.fence.scope for item in batch if item.fence is not None}
        give_up_s = time.monotonic() + SETTLE_S
        while appends and not self._stopping.is_set() and time.monotonic() < give_up_s:
            try:
                connection = self._connected()
                connection.execute("begin")
                newest = tables.lock_fences(connection, self._doubtful, alone=True)
                committed = tables.has_block(connection, appends[0].writer.ledger_id, appends[0].last)
                commit(connection)  # the locks are written down, behind what was lost: it is where commits wait to be
            except (psycopg.Error, StoreError):
                self._disconnect()
                self._stopping.wait(SETTLE_AGAIN_S)
                continue
            self._doubtful.clear()
            if not committed:
                return None
            return [_fenced(item, newest) or outcome for item, outcome in zip(batch, outcomes, strict=True)]
        error = Unavailable(_LOST.format(lost=lost))
        return [
            outcome if isinstance(outcome, Failed) else _refusal(item, error) for item, outcome in zip(batch, outcomes, strict=True)
        ]

    def _connected(self) -> Connection:
        if self.connection is None:
            self.connection = self._connect()
        return self.connection

    def _leave(self, lost: bool) -> None:
        """Ends the transaction, and the connection if it is not to be believed."""
        try:
            if not lost and self.connection is not None:
                self.connection.rollback()
                return
        except psycopg.Error:
            pass
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _hang_up(self) -> None:
        """From another thread: whatever this one waits for ends as if the connection had been lost."""
        connection = self.connection
        with suppress(OSError, psycopg.Error):
            if connection is not None:
                with socket.socket(fileno=os.dup(connection.fileno())) as line:
                    line.shutdown(socket.SHUT_RDWR)

    # On the loop

    def _answer(self, batch: Sequence[Item], outcomes: Sequence[Outcome]) -> None:
        for item, outcome in zip(batch, outcomes, strict=True):
            error = outcome.error if isinstance(outcome, Failed) else None
            if isinstance(item, Append):
                item.writer.answer(item, error)
            elif not item.future.done():
                if error is None:
                    item.future.set_result(outcome)
                else:
                    item.future.set_exception(error)
            if isinstance(error, Fenced) and item.fence is not None:
                self._on_fenced(item.fence, error)


def _row_of(append: Append) -> tables.BlockRow:
    return tables.block_row(
        append.writer.ledger_id, append.first, append.after, append.end_bytes, append.header, append.data, append.end_offsets
    )


def _fenced(item: Item, newest: dict[str, int]) -> Failed | None:
    """Unless its fence is the newest of its scope."""
    fence = item.fence
    if fence is None or newest.get(fence.scope) == fence.epoch:
        return None
    return Failed(Fenced(f"epoch {fence.epoch} does not own {fence.scope}; epoch {newest.get(fence.scope, 'none')} does"))


def _refusal(item: Item, error: StoreError) -> Failed:
    if isinstance(item, Append) and not isinstance(error, AppendFailed):
        return Failed(AppendFailed(str(error), item.writer.ledger_id))
    return Failed(error)
