"""Reading ledgers in PostgreSQL: connections of their own, in a few threads, so that no commit waits for a read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import psycopg

from messaging.storage.ledger_store import SPARSE, Block, NoSuchEntry, StoreError, Unavailable
from messaging.storage.postgresql.ledgers import tables
from messaging.storage.postgresql.ledgers.tables import Connection
from messaging.storage.postgresql.ledgers.thread import SETTING, WHAT
from messaging.storage.postgresql.thread import ends_connection, told

T = TypeVar("T")

READ_THREADS = 2
BLOCKS_MAX = 1000  # of one read


class Connections:
    """`connect` runs in a thread and raises `StoreError`."""

    def __init__(self, connect: Callable[[], Connection], threads: int = READ_THREADS) -> None:
        self._connect = connect
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ledger-read")
        self._of_thread = threading.local()
        self._all: list[Connection] = []

    async def call(self, run: Callable[[Connection], T]) -> T:
        """What `run` returns, which runs in one transaction. Raises `StoreError`."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, run)
        except RuntimeError as error:
            raise Unavailable(f"{WHAT} is not running: {error}") from None

    def close(self) -> None:
        """Blocks until what is being read is read."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for connection in self._all:
            with suppress(psycopg.Error):
                connection.close()

    def _run(self, run: Callable[[Connection], T]) -> T:
        """Once more where the connection was lost, which costs a reader nothing."""
        for last_try in (False, True):
            connection: Connection | None = getattr(self._of_thread, "connection", None)
            try:
                if connection is None:
                    connection = self._of_thread.connection = self._connect()
                    self._all.append(connection)
                with connection.transaction():
                    return run(connection)
            except psycopg.Error as error:
                if connection is not None and ends_connection(error):
                    self._forget(connection)
                    if not last_try:
                        continue
                raise told(error, SETTING, WHAT) from error
        raise AssertionError("unreachable")

    def _forget(self, connection: Connection) -> None:
        self._of_thread.connection = None
        self._all.remove(connection)
        with suppress(psycopg.Error):
            connection.close()


class PostgresqlLedgerReader:
    """`confirmed`: the last confirmed entry as the ledger's own writer knows it; None where there is no writer here."""

    def __init__(self, ledger_id: int, connections: Connections, confirmed: Callable[[], int | None]) -> None:
        self.ledger_id = ledger_id
        self._connections = connections
        self._confirmed = confirmed

    async def read(self, first: int, *, entries_max: int, bytes_max: int) -> list[Block]:
        confirmed = self._confirmed()

        def run(connection: Connection) -> list[Block]:
            last = _last(connection, self.ledger_id, confirmed)
            if not 0 <= first <= last:
                raise NoSuchEntry(f"ledger {self.ledger_id} ends at entry {last}; {first} was asked for", self.ledger_id)
            sizes = tables.block_sizes(connection, self.ledger_id, first, last, min(entries_max + 1, BLOCKS_MAX))
            end = _end(sizes, first, entries_max, bytes_max) if sizes else last
            return tables.blocks(connection, self.ledger_id, first, end)

        try:
            return await self._connections.call(run)
        except StoreError as error:
            error.ledger_id = self.ledger_id
            raise

    async def aclose(self) -> None:
        return None


async def forecast(
    connections: Connections, ledger_id: int, first: int, entries_max: int, bytes_max: int, confirmed: int | None
) -> int:
    """See `LedgerStore`. By the same rule as a read."""

    def run(connection: Connection) -> int:
        last = _last(connection, ledger_id, confirmed, dense=True)
        if not 0 <= first <= last:
            return 0
        sizes = tables.block_sizes(connection, ledger_id, first, last, min(entries_max + 1, BLOCKS_MAX))
        return _end(sizes, first, entries_max, bytes_max) + 1 - first if sizes else 0

    try:
        return await connections.call(run)
    except StoreError:
        return 0


def _last(connection: Connection, ledger_id: int, confirmed: int | None, *, dense: bool = False) -> int:
    """The last entry that may be read. `dense`: -1 for a sparse ledger."""
    info = tables.ledger(connection, ledger_id)
    if dense and SPARSE in info.properties:
        return -1
    return info.last_entry if confirmed is None else confirmed


def _end(sizes: Sequence[tuple[int, int, int]], first: int, entries_max: int, bytes_max: int) -> int:
    """Where a read ends: the last entry of the last block that it takes, which is one at least."""
    end = entries = size_bytes = 0
    for index, (first_entry, last_entry, block_bytes) in enumerate(sizes):
        size_bytes += block_bytes
        if index and (size_bytes > bytes_max or entries >= entries_max):
            break
        entries += last_entry + 1 - max(first, first_entry)
        end = last_entry
    return end
