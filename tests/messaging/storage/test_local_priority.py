"""The log's thread goes first beside readers of the disk, where the system lets it; it alone, and not for longer."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from messaging.storage.local.priority import go_back, go_first, may_go_first
from messaging.storage.local.store import LocalLedgerStore
from tests.messaging.storage.test_local_damage import append

needs_permission = pytest.mark.skipif(not may_go_first(), reason="needs the capability SYS_NICE, or `ulimit -r 1`")


def in_thread(do: Callable[[], object]) -> object:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(do).result()


def policy(thread_id: int = 0) -> int:
    return os.sched_getscheduler(thread_id) & ~os.SCHED_RESET_ON_FORK


@needs_permission
def test_a_thread_goes_first_but_not_those_that_it_starts() -> None:
    def policies() -> list[object]:
        seen: list[object] = [go_first(), policy(), in_thread(policy)]
        go_back()
        return [*seen, policy(), in_thread(policy)]

    assert in_thread(policies) == [True, os.SCHED_RR, os.SCHED_OTHER, os.SCHED_OTHER, os.SCHED_OTHER]
    assert policy() == os.SCHED_OTHER


def test_without_permission_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert not may_go_first()
    assert not go_first()
    monkeypatch.delattr(os, "sched_setscheduler")  # a system that knows no such thing
    assert not go_first()


async def read(store: LocalLedgerStore) -> None:
    reader = await store.open(1)
    assert len(await reader.read(0, entries_max=1, bytes_max=100)) == 1


@needs_permission
async def test_the_log_thread_goes_first_while_somebody_reads(tmp_path: Path) -> None:
    def first() -> list[str]:
        running = [thread for thread in threading.enumerate() if thread.native_id is not None]
        return [thread.name for thread in running if policy(thread.native_id or 0) == os.SCHED_RR]

    store = LocalLedgerStore(tmp_path)
    writer = await store.create(await store.start(), 1, {})
    try:
        await append(writer, b"message")
        assert first() == []
        await read(store)
        await append(writer, b"message")
        assert first() == ["ledger-log"]
        store._log.read_s = -math.inf  # long ago
        await append(writer, b"message")
        assert first() == []
    finally:
        await store.stop()


async def test_where_it_may_not_the_log_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setscheduler", raising=False)
    store = LocalLedgerStore(tmp_path)
    writer = await store.create(await store.start(), 1, {})
    try:
        await append(writer, b"message")
        for read_s in (math.inf, -math.inf, math.inf):
            store._log.read_s = read_s
            await append(writer, b"message")
        await read(store)
    finally:
        await store.stop()
