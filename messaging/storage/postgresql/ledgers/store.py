"""`LedgerStore` in PostgreSQL: for those who keep everything there, and for brokers that may take each other's topics over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import psycopg

from messaging.background import BackgroundLoop
from messaging.storage.fence_table import FenceTable, with_scope
from messaging.storage.ledger_store import (
    READ_BYTES,
    DiskFull,
    Fence,
    Fenced,
    LedgerClosed,
    LedgerExists,
    LedgerInfo,
    StoreError,
    StoreStatistics,
    Unavailable,
)
from messaging.storage.postgresql.connection import open_session
from messaging.storage.postgresql.ledgers import tables
from messaging.storage.postgresql.ledgers.reader import Connections, PostgresqlLedgerReader, forecast
from messaging.storage.postgresql.ledgers.tables import Connection
from messaging.storage.postgresql.ledgers.thread import SETTING, WHAT, LedgerThread
from messaging.storage.postgresql.ledgers.writer import PostgresqlLedgerWriter
from messaging.storage.postgresql.thread import told

T = TypeVar("T")

STOP_S = 3.0
HOLD_S = 2.0
FREE_AGAIN_S = 30.0  # until the space of deleted ledgers is freed, where that failed


class PostgresqlLedgerStore:
    """Lives on the event loop that runs `start`. `url`: as psycopg takes it. Whatever is confirmed is on the server's disk, and on
    that of a synchronous standby where the server has one. `health` is told of what goes wrong with the server.

    Beyond the interface: `on_failed` is called once, on the loop, when another broker took over the range that this one took over
    first, which is its own. `generation` and
    `name_generation` as in `messaging/storage/managed/generations.py`."""

    def __init__(self, url: str, health: BackgroundLoop | None = None, *, entry_bytes_max: int = 6 << 20) -> None:
        self.entry_bytes_max = entry_bytes_max
        self.read_bytes = READ_BYTES
        self.what = WHAT
        self.failed: StoreError | None = None
        self.on_failed: Callable[[StoreError], None] | None = None
        self.epoch = 0
        self.generation = ""
        self.thread = LedgerThread(self._connect_to_write, health, self._fenced)
        self._url = url
        self._fences = FenceTable(0)
        self._own_scope: str | None = None
        self._writers: dict[int, PostgresqlLedgerWriter] = {}  # of ledgers that this process made and has not sealed
        self._running = False
        self._held = False
        self._to_free = asyncio.Event()
        self._reading: Connections
        self._cleaning: Connections
        self._freeing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises `Unavailable`, which says what the server lacks."""
        self.failed = None
        self._writers = {}
        loop = asyncio.get_running_loop()
        self.epoch, self.generation = await loop.run_in_executor(None, self._begin)
        self._fences = FenceTable(0)  # the database refuses what is older; its epoch rises with the starts of all brokers
        self._reading, self._cleaning = Connections(self._connect_to_read), Connections(self._connect, threads=1)
        self.thread.start()
        self._running = True
        self._to_free.set()
        self._freeing = asyncio.create_task(self._free())

    async def stop(self) -> None:
        if not self._running:
            return
        self._running = False
        self.resume()
        for writer in self._writers.values():
            writer.end(LedgerClosed("the store was stopped", writer.ledger_id))
        await self.thread.stop(STOP_S)
        if self._freeing is not None:
            self._freeing.cancel()
            with suppress(asyncio.CancelledError):
                await self._freeing
        loop = asyncio.get_running_loop()
        for connections in (self._reading, self._cleaning):
            await loop.run_in_executor(None, connections.close)

    async def take_over(self, fence: Fence) -> None:
        self._check_running()
        self._own_scope = self._own_scope or fence.scope
        if self._fences.admit(fence):
            former = [writer for writer in self._writers.values() if writer.fence.scope == fence.scope]
            for writer in former:
                writer.end(Fenced(f"epoch {fence.epoch} took {fence.scope} over", writer.ledger_id))
            for writer in former:
                await writer.settled()
        await self.thread.call(None, lambda connection: tables.take_over(connection, fence))

    async def create(self, fence: Fence, ledger_id: int, properties: dict[str, str]) -> PostgresqlLedgerWriter:
        self._check(fence)
        stored = with_scope(properties, fence.scope)
        writer = PostgresqlLedgerWriter(ledger_id, fence, stored, self.entry_bytes_max, self.thread.put, self.seal)
        try:
            await self.thread.call(fence, lambda connection: tables.create(connection, ledger_id, fence.scope, stored), writer.turn)
        except (LedgerExists, Fenced, DiskFull):
            raise
        except StoreError as error:
            raise Unavailable(f"ledger {ledger_id} could not be created: {error}", ledger_id) from error
        self._writers[ledger_id] = writer
        try:
            self._check(fence)
        except StoreError as error:  # fenced or stopped while it was created
            writer.end(error)
        return writer

    async def seal(self, fence: Fence, ledger_id: int) -> LedgerInfo:
        self._check(fence)
        writer = await self._ended(ledger_id, LedgerClosed(f"ledger {ledger_id} is being sealed", ledger_id))
        info = await self.thread.call(fence, lambda connection: tables.seal(connection, ledger_id))
        if writer is not None:
            writer.end(Fenced(f"ledger {ledger_id} is sealed", ledger_id))
            self._writers.pop(ledger_id, None)
        return info

    async def open(self, ledger_id: int) -> PostgresqlLedgerReader:
        if ledger_id not in self._writers:
            await self._read(lambda connection: tables.ledger(connection, ledger_id))
        return PostgresqlLedgerReader(ledger_id, self._reading, lambda: self._confirmed(ledger_id))

    def forecast(self, ledger_id: int, first: int, *, entries_max: int, bytes_max: int) -> int | Awaitable[int]:
        writer = self._writers.get(ledger_id)
        if first < 0 or (writer is not None and (writer.sparse or first > writer.last_confirmed)):
            return 0
        return forecast(self._reading, ledger_id, first, entries_max, bytes_max, self._confirmed(ledger_id))

    async def delete(self, fence: Fence, ledger_id: int) -> None:
        self._check(fence)
        await self._ended(ledger_id, LedgerClosed(f"ledger {ledger_id} was deleted", ledger_id))
        try:
            await self.thread.call(fence, lambda connection: tables.delete(connection, ledger_id))
        except Fenced:
            raise
        except StoreError as error:
            raise Unavailable(f"ledger {ledger_id} could not be deleted: {error}", ledger_id) from error
        self._writers.pop(ledger_id, None)
        self._to_free.set()

    async def info(self, ledger_id: int) -> LedgerInfo:
        info = await self._read(lambda connection: tables.ledger(connection, ledger_id))
        writer = self._writers.get(ledger_id)
        if writer is not None:
            info.last_entry, info.length_bytes = writer.last_confirmed, writer.confirmed_bytes
        return info

    async def ledgers(self) -> list[LedgerInfo]:
        return await self._read(tables.ledgers)

    async def ledger_ids(self, scope: str) -> list[int]:
        return await self._read(lambda connection: tables.ledger_ids(connection, scope))

    async def name_generation(self, generation: str) -> None:
        """Durable when it returns. Raises `StoreError`."""
        await self.thread.call(None, lambda connection: tables.name_generation(connection, generation))
        self.generation = generation

    async def read_generation(self) -> str:
        """Raises `StoreError`."""
        self.generation = await self._read(tables.generation)
        return self.generation

    async def ask(self) -> None:
        """Returns when the server has answered, behind all that waits. Raises `StoreError`."""
        await self.thread.call(None, lambda connection: None)

    async def hold(self) -> None:
        """Returns when no transaction is under way, and none begins until `resume`. Raises `Unavailable`."""
        if not self._held:
            loop = asyncio.get_running_loop()
            if not await loop.run_in_executor(None, self.thread.commit_lock.acquire, True, HOLD_S):
                raise Unavailable(f"{WHAT} has not ended a commit within {HOLD_S:g} s: try again")
            self._held = True

    def resume(self) -> None:
        if self._held:
            self._held = False
            self.thread.commit_lock.release()

    async def image(self) -> None:
        """What is stored is in the database alone."""

    def keep_files(self, kept: bool) -> None:
        """There are none."""

    def statistics(self) -> StoreStatistics:
        """What the server holds is known to it alone."""
        return StoreStatistics(self.thread.commits, self.thread.commit_s, self.thread.written_bytes, None, None)

    async def _ended(self, ledger_id: int, reason: StoreError) -> PostgresqlLedgerWriter | None:
        """The ledger's writer, once it takes nothing more and has its answers."""
        writer = self._writers.get(ledger_id)
        if writer is not None:
            writer.end(reason)
            await writer.settled()
        return writer

    async def _read(self, run: Callable[[Connection], T]) -> T:
        self._check_running()
        return await self._reading.call(run)

    async def _free(self) -> None:
        """Frees the space of deleted ledgers, a little at a time."""
        while True:
            await self._to_free.wait()
            self._to_free.clear()
            try:
                while await self._cleaning.call(tables.free):
                    pass
            except StoreError:
                await asyncio.sleep(FREE_AGAIN_S)
                self._to_free.set()

    def _confirmed(self, ledger_id: int) -> int | None:
        writer = self._writers.get(ledger_id)
        return None if writer is None else writer.last_confirmed

    def _check_running(self) -> None:
        if not self._running:
            raise Unavailable(f"{WHAT} is not running")

    def _check(self, fence: Fence) -> None:
        self._check_running()
        self._fences.check(fence)

    def _fenced(self, fence: Fence, error: Fenced) -> None:
        if fence.scope == self._own_scope and self.failed is None:
            self.failed = error
            if self.on_failed is not None:
                self.on_failed(error)

    # In threads

    def _begin(self) -> tables.StoreRow:
        connection = open_session(self._url, SETTING)
        try:
            return tables.begin(connection, SETTING)
        except psycopg.Error as error:
            raise told(error, SETTING, WHAT) from error
        finally:
            connection.close()

    def _connect(self) -> Connection:
        connection = open_session(self._url, SETTING)
        try:
            tables.select_schema(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_to_read(self) -> Connection:
        """All statements of a read see the same state."""
        connection = self._connect()
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        return connection

    def _connect_to_write(self) -> Connection:
        connection = self._connect()
        connection.execute("set statement_timeout = 0")  # an append waits for a slow disk as long as that takes
        return connection
