"""Both stores as several brokers reach them, where each call is one step of its broker (`tests.simulation.interleaving`): the real
SQL on one connection of SQLite, each call in a transaction of its own, and ledgers in memory.
"""

from __future__ import annotations

import asyncio
import sqlite3
from array import array
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from messaging.storage.ledger_store import Buffer, Done, Fence, LedgerInfo, LedgerReader, StoreError, StoreStatistics
from messaging.storage.sql.meta_store import SqlMetaStore
from messaging.storage.sql.thread import Database
from messaging.storage.sqlite.meta_store import PAGES
from messaging.storage.sqlite.thread import SqliteThread
from tests.simulation.interleaving import Turns
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryLedgerWriter

T = TypeVar("T")
NOW_MS = "select 1000000"  # no lease ends by itself


class _SteppedThread(SqliteThread):
    """There is no thread."""

    def __init__(self, db: sqlite3.Connection, turns: Turns, broker: str) -> None:
        super().__init__(lambda: db)
        self._shared, self._turns, self._broker = db, turns, broker

    def start(self) -> None:
        """Nothing is to be started."""

    async def stop(self) -> None:
        """The connection is everybody's."""

    async def call(self, run: Callable[[Database], T], turn: str = "", *, reads: bool = False) -> T:
        async def transaction() -> T:
            self._shared.execute(f"pragma query_only = {int(reads)}")  # what says that it reads is refused to write
            self._shared.execute("begin" if reads else "begin immediate")
            try:
                result = run(self._shared)
            except BaseException:
                self._shared.execute("rollback")
                raise
            finally:
                self._shared.execute("pragma query_only = 0")
            self._shared.execute("commit")
            return result

        return await self._turns.step(self._broker, transaction)


def stepped_meta(db: sqlite3.Connection, turns: Turns, broker: str) -> SqlMetaStore:
    return SqlMetaStore(_SteppedThread(db, turns, broker), PAGES, NOW_MS)


class SteppedLedgers:
    """`LedgerStore` of one broker over ledgers that all share."""

    def __init__(self, shared: MemoryLedgerStore, turns: Turns, broker: str) -> None:
        self.entry_bytes_max, self.read_bytes = shared.entry_bytes_max, shared.read_bytes
        self.failed: StoreError | None = None
        self._shared, self._turns, self._broker = shared, turns, broker

    async def _step(self, act: Callable[[], Awaitable[T]]) -> T:
        return await self._turns.step(self._broker, act)

    @property
    def epoch(self) -> int:
        return self._shared.epoch

    async def start(self) -> None:
        """It was started for all."""

    async def stop(self) -> None:
        """Others go on."""

    async def take_over(self, fence: Fence) -> None:
        await self._step(partial(self._shared.take_over, fence))

    async def create(self, fence: Fence, ledger_id: int, properties: dict[str, str]) -> SteppedWriter:
        return SteppedWriter(await self._step(partial(self._shared.create, fence, ledger_id, properties)), self._step)

    async def seal(self, fence: Fence, ledger_id: int) -> LedgerInfo:
        return await self._step(partial(self._shared.seal, fence, ledger_id))

    async def open(self, ledger_id: int) -> LedgerReader:
        return await self._step(partial(self._shared.open, ledger_id))

    def forecast(self, ledger_id: int, first: int, *, entries_max: int, bytes_max: int) -> int:
        return self._shared.forecast(ledger_id, first, entries_max=entries_max, bytes_max=bytes_max)

    async def delete(self, fence: Fence, ledger_id: int) -> None:
        await self._step(partial(self._shared.delete, fence, ledger_id))

    async def info(self, ledger_id: int) -> LedgerInfo:
        return await self._step(partial(self._shared.info, ledger_id))

    async def ledgers(self) -> list[LedgerInfo]:
        return await self._step(self._shared.ledgers)

    async def ledger_ids(self, scope: str) -> list[int]:
        return await self._step(partial(self._shared.ledger_ids, scope))

    def statistics(self) -> StoreStatistics:
        return self._shared.statistics()


class SteppedWriter:
    """What is appended reaches the store in a step of its own, and is answered in it."""

    def __init__(
        self, writer: MemoryLedgerWriter, step: Callable[[Callable[[], Awaitable[StoreError | None]]], Awaitable[StoreError | None]]
    ) -> None:
        self._writer, self._step = writer, step
        self.ledger_id = writer.ledger_id
        self.last_confirmed = -1
        self.next_entry = 0
        self.length_bytes = 0
        self.pending_bytes = 0
        self._pending = set[asyncio.Task[None]]()

    def append(self, header: bytes, data: Buffer, end_offsets: array[int], done: Done) -> int:
        first, self.next_entry = self.next_entry, self.next_entry + len(end_offsets)
        self.length_bytes += len(data)
        self.pending_bytes += len(data)
        task = asyncio.get_running_loop().create_task(self._append(header, bytes(data), end_offsets, done, self.next_entry - 1))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return first

    async def _append(self, header: bytes, data: bytes, end_offsets: array[int], done: Done, last: int) -> None:
        async def act() -> StoreError | None:
            answered: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
            try:
                self._writer.append(header, data, end_offsets, answered.set_result)
            except StoreError as error:
                return error
            return await answered

        error = await self._step(act)
        self.pending_bytes -= len(data)
        if error is None:
            self.last_confirmed = last
        done(error)

    def skip_to(self, entry_id: int) -> None:
        raise AssertionError("no ledger here is sparse")

    async def close(self) -> LedgerInfo:
        if self._pending:
            await asyncio.wait(set(self._pending))
        return await self._writer.close()
