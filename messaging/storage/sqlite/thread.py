"""What SQLite's errors mean to `CommitThread`, and what is done about a full disk.

Where the disk is full, a transaction is run again with the space of the write-ahead log, whose content is moved into the database,
or with space from the reserve, until that is used up.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from messaging.background import BackgroundLoop
from messaging.storage.disk_reserve import NO_RESERVE, DiskReserve
from messaging.storage.ledger_store import DiskFull, Unavailable
from messaging.storage.sql.thread import CommitThread

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

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], health: BackgroundLoop | None = None, reserve: DiskReserve = NO_RESERVE
    ) -> None:
        super().__init__(connect, health)
        self.reserve = reserve

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
