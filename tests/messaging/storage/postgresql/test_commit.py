"""What a commit confirms where the server has a standby to wait for: a stand-in, since all tests would wait for a real one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from messaging.storage.ledger_store import Unreachable
from messaging.storage.postgresql.commit import NotConfirmed, commit, confirm_earlier


class Server:
    """Its commits wait for a standby that never comes, until they are cancelled."""

    def __init__(self, severity: str = "WARNING") -> None:
        self.severity = severity
        self.statements: list[str] = []
        self.handlers: list[Callable[[Any], None]] = []
        self.cancelled = threading.Event()

    def add_notice_handler(self, handler: Callable[[Any], None]) -> None:
        self.handlers.append(handler)

    def remove_notice_handler(self, handler: Callable[[Any], None]) -> None:
        self.handlers.remove(handler)

    def execute(self, sql: str) -> None:
        self.statements.append(sql)
        if sql == "commit":
            assert self.cancelled.wait(30)
            for handler in self.handlers:
                handler(SimpleNamespace(severity_nonlocalized=self.severity, message_primary="canceling wait"))

    def cancel_safe(self) -> None:
        self.cancelled.set()

    @property
    def connection(self) -> psycopg.Connection[tuple[Any, ...]]:
        return cast("psycopg.Connection[tuple[Any, ...]]", self)


def test_a_commit_with_a_warning_confirms_nothing() -> None:
    server = Server()
    server.cancelled.set()
    with pytest.raises(NotConfirmed, match="did not wait for its standby: canceling wait"):
        commit(server.connection)
    server.severity = "NOTICE"
    commit(server.connection)
    assert not server.handlers


def test_a_new_connection_says_that_no_standby_confirms() -> None:
    """It wrote something, since a commit of nothing waits for nobody."""
    server = Server()
    with pytest.raises(Unreachable, match=r"no synchronous standby of the PostgreSQL of ledger_url .* synchronous_standby_names"):
        confirm_earlier(server.connection, 0, "ledger_url")
    assert "pg_logical_emit_message(true" in server.statements[1]
