"""What is particular to the metadata store in SQLite."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from messaging.storage.ledger_store import WHOLE, Unavailable
from messaging.storage.meta_store import PartitionedRecord, TopicRecord
from messaging.storage.sql.thread import CALLS_MAX
from messaging.storage.sqlite.meta_store import SqliteMetaStore
from tests.support.storage.owning import FENCE

TOPIC = "persistent://acme/orders/in"


async def test_sqlite_shares_commits(tmp_path: Path) -> None:
    store = SqliteMetaStore(tmp_path / "meta.sqlite3")
    await store.start()
    assert await store.acquire(WHOLE) == FENCE
    before = store.commits
    store.thread.clock = lambda: 0.0
    await asyncio.gather(*(store.cas_topic(FENCE, TopicRecord(f"persistent://a/b/{number}")) for number in range(5000)))
    assert store.commits - before <= 5000 / CALLS_MAX + 2
    await store.stop()


async def test_sqlite_survives_a_crash_of_its_process(tmp_path: Path) -> None:
    """A copy of the files, taken while the store runs, is what a killed process leaves."""
    store = SqliteMetaStore(tmp_path / "live" / "meta.sqlite3")
    await store.start()
    assert await store.acquire(WHOLE) == FENCE
    await store.cas_topic(FENCE, TopicRecord(TOPIC))
    given = await store.next_ledger_id(FENCE)
    shutil.copytree(tmp_path / "live", tmp_path / "copy")
    await store.stop()
    copy = SqliteMetaStore(tmp_path / "copy" / "meta.sqlite3")
    await copy.start()
    assert await copy.get_topic(TOPIC) is not None
    assert await copy.next_ledger_id(FENCE) > given
    await copy.stop()


async def test_sqlite_refuses_a_format_it_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "meta.sqlite3"
    db = sqlite3.connect(path)
    db.execute("pragma user_version = 99")
    db.close()
    store = SqliteMetaStore(path)
    with pytest.raises(Unavailable, match="format 99"):
        await store.start()


async def test_sqlite_gives_up_quietly_when_the_caller_does(tmp_path: Path) -> None:
    store = SqliteMetaStore(tmp_path / "meta.sqlite3")
    await store.start()
    assert await store.acquire(WHOLE) == FENCE
    task = asyncio.ensure_future(store.put_value(FENCE, "k", b"1"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.get_value("k") == b"1"
    await store.stop()


async def test_a_file_that_is_no_database_is_an_error_of_the_store(tmp_path: Path) -> None:
    """Nothing but `StoreError` escapes a store: callers decide by it, not by what stands behind the interface."""
    path = tmp_path / "meta.sqlite3"
    path.write_bytes(b"not a database, and longer than a header of one" * 100)
    store = SqliteMetaStore(path)
    with pytest.raises(Unavailable, match="metadata store"):
        await store.start()


async def test_a_partitioned_topic_of_an_earlier_release_has_its_first_version(tmp_path: Path) -> None:
    """Its record says neither version nor what is under way."""
    path = tmp_path / "meta.sqlite3"
    store = SqliteMetaStore(path)
    await store.start()
    assert await store.acquire(WHOLE) == FENCE
    await store.stop()
    with closing(sqlite3.connect(path)) as db:
        blob = msgspec.msgpack.encode({"name": TOPIC, "partitions": 4, "created_ms": 9, "properties": {}})
        db.execute("insert into partitioned values (?, ?, ?)", (TOPIC, "acme/orders", blob))
        db.commit()
    await store.start()
    stored = await store.get_partitioned(TOPIC)
    assert stored == PartitionedRecord(TOPIC, 4, 9, version=1)
    assert (await store.cas_partitioned(FENCE, replace(stored, partitions=5))).version == 2
    await store.stop()
