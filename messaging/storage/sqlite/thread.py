"""What SQLite's errors mean to `CommitThread`, how brokers that share a file take turns, and what is done about a full disk.

SQLite by itself looks only every 100 ms whether a lock is free: beside a broker that commits all the time the others would wait for
seconds, and then fail. So they look a hundred times as often, and each that met another one leaves it a gap before its next commit.
Reads take no such lock: a list of 100,000 topics keeps no other broker from committing, nor its commit the list.

Where the disk is full, a transaction is run again with the space of the write-ahead log, whose content is moved into the database,
or with space from the reserve, until that is used up.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from messaging.background import BackgroundLoop
from messaging.storage.disk_reserve import NO_RESERVE, DiskReserve
from messaging.storage.ledger_store import DiskFull, Unavailable
from messaging.storage.sql.thread import CommitThread, Database

LOCK_S_MAX = 5.0  # so long another broker's transaction is waited for
LOOK_S = 0.001
GAP_S = 0.002
SHARED_S = 1.0  # after another broker was met

# After these the connection is no longer believed: its file, or what it knows of it, may be broken.
BROKEN = frozenset(
    {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_MISUSE}
)
# These end the whole transaction, whichever call met them.
OF_ALL = BROKEN | {sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM}


def code_of(error: BaseException) -> int:
    """The primary result code of SQLite; `SQLITE_MISUSE` for what the module itself refuses, as a connection that was closed."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
    return sqlite3.SQLITE_OK


class SqliteThread(CommitThread):
    BEGIN: ClassVar[str] = "begin immediate"
    READS_APART: ClassVar[bool] = True

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], health: BackgroundLoop | None = None, reserve: DiskReserve = NO_RESERVE
    ) -> None:
        def connected() -> sqlite3.Connection:
            db = connect()
            db.execute("pragma busy_timeout = 0")  # it is `begin` that waits
            return db

        super().__init__(connected, health)
        self.reserve = reserve
        self._shared_until_s = 0.0

    def begin(self, db: Database, *, reads: bool) -> None:
        begun_s = self.clock()
        if begun_s < self._shared_until_s and not reads:
            time.sleep(GAP_S)
        while True:
            try:
                if reads:
                    _begin_reading(db)
                else:
                    db.execute(self.BEGIN)
                return
            except sqlite3.OperationalError as error:
                now_s = self.clock()
                if code_of(error) != sqlite3.SQLITE_BUSY or now_s - begun_s > LOCK_S_MAX:
                    raise
                self._shared_until_s = now_s + SHARED_S
            time.sleep(LOOK_S)

    def ends_connection(self, error: BaseException) -> bool:
        return code_of(error) in BROKEN

    def ends_transaction(self, error: BaseException) -> bool:
        return code_of(error) in OF_ALL

    def may_run_again(self, error: Exception, attempts: int, *, connecting: bool) -> bool:
        code = code_of(error)
        if code == sqlite3.SQLITE_FULL:
            return self._make_space()
        # The files beside the database, and what a file system notices only when it syncs, are refused in other words.
        refused = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and self.reserve.disk_full and self.reserve.release()
        return refused and connecting

    def told(self, error: Exception) -> Exception:
        if not isinstance(error, sqlite3.Error):
            return error
        if code_of(error) == sqlite3.SQLITE_FULL:
            return DiskFull("the disk is full and the reserve for metadata is used up: free some space")
        return Unavailable(f"the metadata store failed: {error}")

    def committed(self) -> None:
        self.reserve.fill_at_times()

    def _make_space(self) -> bool:
        """Whether there is some now. A little from the reserve may be what the log needs to be moved into the database."""
        if isinstance(self._db, sqlite3.Connection) and shrink_log(self._db):
            return True
        released = self.reserve.release()
        if released and isinstance(self._db, sqlite3.Connection):
            shrink_log(self._db)
        return released


def _begin_reading(db: Database) -> None:
    """From here on the transaction sees the database as it is now. That may have to wait where another broker has just opened it
    after a crash, or closes it; no statement behind it has to."""
    db.execute("begin")
    try:
        db.execute("select 1 from sqlite_master limit 1").fetchall()
    except sqlite3.Error:
        if db.in_transaction:
            db.execute("rollback")
        raise


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
