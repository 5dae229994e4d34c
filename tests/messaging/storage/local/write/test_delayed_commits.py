"""The delay between two commits: what has come is read for each commit, and nothing is confirmed before it is durable."""

from __future__ import annotations

import asyncio
from array import array
from pathlib import Path

import pytest

from messaging.storage.ledger_store import StoreError
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.device.timer import LoopTimer
from messaging.storage.local.write.commit_delay import CommitDelay
from messaging.storage.next_commit import NextCommit
from tests.support.storage.ledger_entries import read_all
from tests.support.storage.ledger_harness import needs_the_kernel
from tests.support.storage.owning import started

CONFIG = LocalConfig(segment_bytes=4 << 20, reserved_bytes=1 << 20, commit_delay_us_max=500)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every commit waits."""

    def committed(delay: CommitDelay, now: float, messages: int, size_bytes: int) -> float:
        delay.delay_s = 0.0005
        return delay.delay_s

    monkeypatch.setattr(CommitDelay, "committed", committed)


async def test_a_timer_expires_once_for_each_start() -> None:
    loop, expired = asyncio.get_running_loop(), asyncio.Event()
    count = 0

    def act() -> None:
        nonlocal count
        count += 1
        expired.set()

    timer = LoopTimer(loop, act)
    for number in range(1, 4):
        timer.start(0.0002)
        await asyncio.wait_for(expired.wait(), 30)
        expired.clear()
        assert count == number
    timer.start(0.0)  # at once, not never
    await asyncio.wait_for(expired.wait(), 30)
    timer.close()


def test_waiting_readers_are_told_when_a_commit_is_due() -> None:
    next_commit, passed = NextCommit(), list[str]()
    next_commit.delay()

    def again() -> None:
        passed.append("a")
        next_commit.when_due(lambda: passed.append("later"))

    next_commit.when_due(again)
    next_commit.due()
    assert passed == ["a"] and next_commit.delayed
    next_commit.end_delay()
    assert passed == ["a", "later"] and not next_commit.delayed
    assert next_commit.number == 2


async def test_appends_are_stored_in_order_and_the_delay_ends(tmp_path: Path, always: None) -> None:
    needs_the_kernel(tmp_path)
    store = LocalLedgerStore(tmp_path / "log", CONFIG)
    writer = await store.create(await started(store), 1, {})
    confirmed: list[int] = []
    let_through = 0

    def again() -> None:
        nonlocal let_through
        let_through += 1
        if store.next_commit.delayed:
            store.next_commit.when_due(again)

    store.next_commit.when_due(again)
    done = asyncio.Event()
    for number in range(30):

        def told(error: StoreError | None, number: int = number) -> None:
            assert error is None
            assert writer.last_confirmed >= number
            confirmed.append(number)
            if number == 29:
                done.set()

        writer.append(b"", bytes([number]) * 100, array("I", [100]), told)
        await asyncio.sleep(0)
    await asyncio.wait_for(done.wait(), 30)
    await asyncio.wait_for(store.queue.idle(), 30)
    assert confirmed == list(range(30))
    assert let_through and not store.next_commit.delayed
    await store.stop()
    store = LocalLedgerStore(tmp_path / "log", CONFIG)
    await started(store)
    stored = await read_all(await store.open(1), 29)
    assert [entry[:1] for entry in stored] == [bytes([number]) for number in range(30)]
    await store.stop()
