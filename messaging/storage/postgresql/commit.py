"""Commits that wait for the server's disk, and for that of a synchronous standby where it has one.

A server whose wait for the standby is ended, by an administrator or by its stop, has committed already: it says so in a warning
only, and the transaction is lost if a standby is promoted. So a commit with a warning confirms nothing. Nor do we end the wait: the
server's limits of time for statements do not, since it takes them off before it commits.
"""

from __future__ import annotations

import threading
from typing import Any

import psycopg

from messaging.storage.ledger_store import Unavailable, Unreachable


class NotConfirmed(Unavailable):
    """The transaction is on the primary, and it is not known whether a standby has it."""


def commit(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Ends a transaction. Blocks. Raises `NotConfirmed`, with which the connection is to be closed."""
    warnings: list[str] = []

    def noticed(notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            warnings.append(notice.message_primary or "")

    connection.add_notice_handler(noticed)
    try:
        connection.execute("commit")
    finally:
        connection.remove_notice_handler(noticed)
    if warnings:
        raise NotConfirmed(f"PostgreSQL did not wait for its standby: {warnings[0]}")


def confirm_earlier(connection: psycopg.Connection[tuple[Any, ...]], wait_s: int, setting: str) -> None:
    """Returns when all that this connection can read is where commits wait to be: what a lost connection left may not be yet.
    Raises `Unreachable` after `wait_s`."""
    ends = threading.Timer(wait_s, connection.cancel_safe)
    ends.start()
    try:
        connection.execute("begin")
        connection.execute("select pg_logical_emit_message(true, 'magnetar', '')")  # a commit that wrote nothing would not wait
        commit(connection)
    except NotConfirmed as error:
        raise Unreachable(
            f"no synchronous standby of the PostgreSQL of {setting} confirms what is committed: start one, or change its "
            "synchronous_standby_names"
        ) from error
    finally:
        ends.cancel()
