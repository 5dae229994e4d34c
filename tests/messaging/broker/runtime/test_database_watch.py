"""A broker says that the database it stores in does not answer, also while no client asks for anything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from messaging.broker.runtime import database_watch
from messaging.broker.runtime.database_watch import DatabaseWatch
from messaging.storage.ledger_store import Unavailable
from tests.support.brokers.storage_broker import storage_broker
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore


async def test_what_a_database_says_is_told_until_it_answers_again() -> None:
    errors: list[Exception] = [Unavailable("connection to 10.0.0.7 failed")]

    async def ask() -> None:
        if errors:
            raise errors.pop()

    watch = DatabaseWatch({"the PostgreSQL of metadata_url": ask})
    assert watch.failing == ""
    await watch.look()
    assert watch.failing == "the PostgreSQL of metadata_url does not answer as it should", "where it is, not everybody may know"
    await watch.look()
    assert watch.failing == ""


async def test_a_database_that_never_answers_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commits wait for a standby, for instance."""
    monkeypatch.setattr(database_watch, "ANSWER_S", 0.01)
    answers, asked = asyncio.Event(), 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        await answers.wait()

    watch = DatabaseWatch({"the PostgreSQL of ledger_url": ask})
    for _ in range(3):
        await watch.look()
        assert watch.failing.startswith("the PostgreSQL of ledger_url has not answered for")
    assert asked == 1
    answers.set()
    monkeypatch.setattr(database_watch, "ANSWER_S", 10)
    await watch.look()
    await watch.look()
    assert (watch.failing, asked) == ("", 2)


async def test_a_broker_without_its_database_is_not_ready(tmp_path: Path) -> None:
    broker = await storage_broker(tmp_path, MemoryLedgerStore(), MemoryMetaStore())
    broker.databases.failing = "the PostgreSQL of metadata_url cannot be reached"
    assert broker.ready() == (False, "the PostgreSQL of metadata_url cannot be reached")
    await broker.stop()
