"""What PostgreSQL's errors mean to `CommitThread`."""

from __future__ import annotations

from typing import ClassVar, cast

import psycopg

from messaging.storage.ledger_store import Unavailable
from messaging.storage.postgresql.commit import NotConfirmed
from messaging.storage.postgresql.connection import PostgresqlConnection, words_of
from messaging.storage.sql.thread import CommitThread, Database

# Classes of SQLSTATE.
_ROLLED_BACK = "40"  # not serializable after all, or a deadlock: nothing was committed, and once more it may work
_LOCKED = "55P03"
_OF_ALL = (_ROLLED_BACK, "08", "25", "53", "57", "58", "XX")  # connection, transaction state, resources, operator, system, internal
_SAYS = {
    "25006": "the PostgreSQL of {setting} is read-only, as a standby is: name the primary",
    "55P03": "another broker has not ended its transaction in the PostgreSQL of {setting}: is it stopped?",
    "42501": "the role of {setting} lacks a right in PostgreSQL: {words}",
    "53100": "the disk of the PostgreSQL of {setting} is full: free some space there",
    "53300": "the PostgreSQL of {setting} has no connection left: raise its max_connections",
}


class PostgresqlThread(CommitThread):
    BEGIN: ClassVar[str] = "begin"

    def ends_connection(self, error: BaseException) -> bool:
        return ends_connection(error)

    def ends_transaction(self, error: BaseException) -> bool:
        return ends_connection(error) or (isinstance(error, psycopg.Error) and code_of(error)[:2] in _OF_ALL)

    def may_run_again(self, error: Exception, attempts: int, *, connecting: bool) -> bool:
        return False

    def met_another(self, error: Exception) -> bool:
        return was_rolled_back(error)

    def met_lock(self, error: BaseException) -> bool:
        return code_of(error) == _LOCKED

    def commit(self, db: Database) -> None:
        cast(PostgresqlConnection, db).commit()

    def told(self, error: Exception) -> Exception:
        return told(error, "metadata_url", "the metadata store in PostgreSQL") if isinstance(error, psycopg.Error) else error


def ends_connection(error: BaseException) -> bool:
    """A lost connection has no code; what the server says before it ends one has."""
    code = code_of(error)
    lost = isinstance(error, psycopg.Error) and (not code or code[:2] in ("08", "25", "57", "58", "XX"))
    return lost or isinstance(error, NotConfirmed)


def was_rolled_back(error: BaseException) -> bool:
    """In favour of somebody else's transaction: once more it may work."""
    return code_of(error)[:2] == _ROLLED_BACK


def told(error: psycopg.Error, setting: str, what: str) -> Unavailable:
    """What callers get in place of `error`. `setting`: where the operator wrote the URL; `what` failed."""
    says = _SAYS.get(code_of(error), "{what} failed: {words}")
    return Unavailable(says.format(setting=setting, what=what, words=words_of(error)))


def code_of(error: BaseException) -> str:
    """SQLSTATE; "" where there is none."""
    return (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
