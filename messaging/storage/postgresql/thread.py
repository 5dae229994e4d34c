"""What PostgreSQL's errors mean to `CommitThread`."""

from __future__ import annotations

import random
import time
from typing import ClassVar

import psycopg

from messaging.storage.ledger_store import Unavailable
from messaging.storage.postgresql.connection import words_of
from messaging.storage.sql.thread import CommitThread

ATTEMPTS_MAX = 12
PAUSE_S_MAX = 0.05  # between two of them, of a length left to chance: those that met do not meet again

# Classes of SQLSTATE.
_ROLLED_BACK = "40"  # not serializable after all, or a deadlock: nothing was committed, and once more it may work
_OF_ALL = (_ROLLED_BACK, "08", "25", "53", "57", "58", "XX")  # connection, transaction state, resources, operator, system, internal
_SAYS = {
    "25006": "the PostgreSQL of metadata_url is read-only, as a standby is: name the primary",
    "53100": "the disk of the PostgreSQL of metadata_url is full: free some space there",
    "53300": "the PostgreSQL of metadata_url has no connection left: raise its max_connections",
}


class PostgresqlThread(CommitThread):
    BEGIN: ClassVar[str] = "begin"

    def ends_connection(self, error: BaseException) -> bool:
        """A lost connection has no code; what the server says before it ends one has."""
        code = _code_of(error)
        return isinstance(error, psycopg.Error) and (not code or code[:2] in ("08", "25", "57", "58", "XX"))

    def ends_transaction(self, error: BaseException) -> bool:
        return isinstance(error, psycopg.Error) and (self.ends_connection(error) or _code_of(error)[:2] in _OF_ALL)

    def may_run_again(self, error: Exception, attempts: int, *, connecting: bool) -> bool:
        again = _code_of(error)[:2] == _ROLLED_BACK and attempts < ATTEMPTS_MAX
        if again:
            time.sleep(random.uniform(0, min(PAUSE_S_MAX, 0.001 * 2**attempts)))
        return again

    def told(self, error: Exception) -> Exception:
        if not isinstance(error, psycopg.Error):
            return error
        return Unavailable(_SAYS.get(_code_of(error)) or f"the metadata store in PostgreSQL failed: {words_of(error)}")


def _code_of(error: BaseException) -> str:
    """SQLSTATE; "" where there is none."""
    return (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
