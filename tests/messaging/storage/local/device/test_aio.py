"""What the kernel carries out by itself, and commits that it does: begun and ended on the loop, in turn with the log thread."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import mmap
import os
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from messaging.storage.ledger_store import Buffer
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.device.aio import AioContext, Done, aio_available
from messaging.storage.local.device.direct import PAGE_BYTES
from messaging.storage.local.format.segment import LogPosition
from messaging.storage.local.ledger_state import LedgerState
from messaging.storage.local.write.commit import CommitLayout
from messaging.storage.local.write.queue import Item
from messaging.storage.local.write.writer import LogWriter
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.fake_file import FakeAio, FakeFile
from tests.support.storage.ledger_entries import Results, read_all
from tests.support.storage.ledger_harness import needs_the_kernel
from tests.support.storage.owning import started

CONFIG = LocalConfig(segment_bytes=4 << 20, reserved_bytes=1 << 20)
FILE_BYTES = 16 * PAGE_BYTES


@asynccontextmanager
async def direct_file(path: Path) -> AsyncIterator[tuple[AioContext, int, mmap.mmap]]:
    """An AIO context of this loop, a descriptor past the page cache, and a page of memory."""
    needs_the_kernel(path.parent)
    aio = AioContext(asyncio.get_running_loop())
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
    os.posix_fallocate(descriptor, 0, FILE_BYTES)
    yield aio, descriptor, mmap.mmap(-1, PAGE_BYTES)
    aio.close()
    os.close(descriptor)


async def outcome(aio: AioContext, descriptor: int, memory: mmap.mmap, offset: int) -> OSError | None:
    ended: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    aio.write(descriptor, address, PAGE_BYTES, offset, ended.set_result)
    return await asyncio.wait_for(ended, 30)


async def test_an_asynchronous_write_is_there(tmp_path: Path) -> None:
    async with direct_file(tmp_path / "file") as (aio, descriptor, memory):
        for number in range(3):
            memory[:] = bytes([number + 1]) * PAGE_BYTES
            assert await outcome(aio, descriptor, memory, number * PAGE_BYTES) is None
        content = (tmp_path / "file").read_bytes()
        assert content == b"".join(bytes([number]) * PAGE_BYTES for number in (1, 2, 3)) + bytes(FILE_BYTES - 3 * PAGE_BYTES)


async def test_errors_come_back_where_they_arise(tmp_path: Path) -> None:
    async with direct_file(tmp_path / "file") as (aio, descriptor, memory):
        odd = await outcome(aio, descriptor, memory, 100)  # no page begins there
        assert odd is not None
        assert odd.errno == errno.EINVAL
        with pytest.raises(OSError, match="Bad file descriptor"):
            await outcome(aio, 1 << 20, memory, 0)
        read_only = os.open(tmp_path / "file", os.O_RDONLY | os.O_DIRECT)
        with pytest.raises(OSError, match="Bad file descriptor"):
            await outcome(aio, read_only, memory, 0)
        os.close(read_only)
        assert await outcome(aio, descriptor, memory, 0) is None  # and nothing is left of them


async def test_as_many_as_the_kernel_takes_all_end(tmp_path: Path) -> None:
    async with direct_file(tmp_path / "file") as (aio, descriptor, memory):
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        ended: list[OSError | None] = []
        begun, all_ended = 0, asyncio.Event()

        def done(error: OSError | None) -> None:
            ended.append(error)
            if len(ended) == begun:
                all_ended.set()

        with pytest.raises(BlockingIOError):
            while begun < 10_000:  # none is heard of meanwhile: the loop stands still
                aio.read(descriptor, address, PAGE_BYTES, begun % 16 * PAGE_BYTES, done)
                begun += 1
        assert begun >= 32
        await asyncio.wait_for(all_ended.wait(), 30)
        assert ended == [None] * begun


async def test_a_fault_of_one_who_waits_is_reported_and_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    fault = ValueError("of ours")

    def raising(error: OSError | None) -> None:
        raise fault

    async with direct_file(tmp_path / "file") as (aio, descriptor, memory):
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for _ in range(3):
            aio.read(descriptor, address, PAGE_BYTES, 0, raising)
        while len(reported) < 3:
            assert await outcome(aio, descriptor, memory, 0) is None
    assert reported == [fault] * 3


def refused(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(os, "eventfd", lambda *_: pytest.fail("an eventfd for nothing"))
    monkeypatch.setattr(ctypes, "PyDLL", lambda *_, **__: ctypes.CDLL(None))
    monkeypatch.setattr(ctypes.CDLL, "syscall", lambda *_: -1, raising=False)
    monkeypatch.setattr(ctypes, "get_errno", lambda: code)


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM, errno.EAGAIN])
async def test_a_system_that_refuses_has_a_thread_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    refused(monkeypatch, code)
    assert not aio_available()
    await append_and_read(LocalLedgerStore(tmp_path, CONFIG))


async def append_and_read(store: LocalLedgerStore, sizes: Sequence[int] = (10, 5000, 70_000, 3, 900)) -> None:
    """One commit each, and everything read back by the next owner."""
    writer, results = await store.create(await started(store), 1, {}), Results()
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    for number, payload in enumerate(payloads):
        results.append(writer, [payload])
        await results.wait(number + 1)
    assert [error for _, error in results.got] == [None] * len(payloads)
    await store.stop()
    again = LocalLedgerStore(store.directory, store.config, disk=store.disk)
    await started(again)
    assert again.damage == []
    assert await read_all(await again.open(1), len(payloads) - 1) == payloads
    await again.stop()


async def test_blocks_are_committed_without_the_log_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_the_kernel(tmp_path)
    by_thread: list[list[int]] = []
    commit = LogWriter.commit_in_thread

    def counting(writer: LogWriter, items: list[Item]) -> Any:
        by_thread.append([item[5] for item in items])
        return commit(writer, items)

    monkeypatch.setattr(LogWriter, "commit_in_thread", counting)
    store = LocalLedgerStore(tmp_path, CONFIG)
    writer, results = await store.create(await started(store), 1, {}), Results()
    made = len(by_thread)
    for number in range(50):
        results.append(writer, [bytes(1000)])
        await results.wait(number + 1)
    await store.stop()
    assert made == 2, "waiting for what was queued at the takeover, and making the ledger"
    assert len(by_thread) <= 3  # those, and a preallocated segment may have been made meanwhile


def begins_with(monkeypatch: pytest.MonkeyPatch, code: int) -> list[int]:
    """Has the fake disk answer what was begun with that error, nothing written. Returns the places of what was."""
    begun: list[int] = []

    def begin(file: FakeFile, buffers: Sequence[Buffer], offset: int, padding_bytes: int, aio: FakeAio, done: Done) -> bool:
        begun.append(offset)
        aio.later(done, OSError(code, os.strerror(code)))
        return True

    monkeypatch.setattr(FakeFile, "begin_synced", begin)
    return begun


async def test_the_thread_writes_where_the_file_system_takes_no_asynchronous_write(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = begins_with(monkeypatch, errno.EINVAL)
    await append_and_read(LocalLedgerStore("/log", CONFIG, disk=FakeDisk()))
    assert len(begun) == len(set(begun)) > 0  # once each; one that meets a job of the maintenance goes to the thread at once


async def test_a_write_that_fails_ends_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    begins_with(monkeypatch, errno.EIO)
    store = LocalLedgerStore("/log", CONFIG, disk=FakeDisk())
    writer, results = await store.create(await started(store), 1, {}), Results()
    results.append(writer, [b"lost"])
    await results.wait(1)
    assert "Input/output error" in str(results.got[0][1])
    assert store.failed is not None
    await store.stop()


async def test_the_log_thread_waits_for_what_the_loop_began(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[tuple[str, int]] = []
    begun: list[int] = []
    store = LocalLedgerStore("/log", CONFIG, disk=FakeDisk())
    begin = FakeFile.begin_synced

    def begin_and_post(
        file: FakeFile, buffers: Sequence[Buffer], offset: int, padding_bytes: int, aio: FakeAio, done: Done
    ) -> bool:
        def ended(error: OSError | None) -> None:
            order.append(("commit", offset))
            done(error)

        begun.append(offset)
        store.log.thread.post(lambda: order.append(("job", offset)))
        while store.log.thread.queued:
            os.sched_yield()
        for _ in range(1000):  # the thread has it, and every chance to go on
            os.sched_yield()
        return begin(file, buffers, offset, padding_bytes, aio, ended)

    monkeypatch.setattr(FakeFile, "begin_synced", begin_and_post)
    writer, results = await store.create(await started(store), 1, {}), Results()
    for number in range(20):
        results.append(writer, [bytes(100)])
        await results.wait(number + 1)
    await store.stop()
    assert begun
    for offset in begun:
        assert order.index(("commit", offset)) < order.index(("job", offset))


async def test_an_item_that_only_waits_uses_up_no_checkpoint() -> None:
    store = LocalLedgerStore(
        "/log", LocalConfig(segment_bytes=1 << 20, reserved_bytes=1 << 20, checkpoint_bytes=4096), disk=FakeDisk()
    )
    writer, results = await store.create(await started(store), 1, {}), Results()
    results.append(writer, [bytes(5000)])
    await results.wait(1)
    layout, active = CommitLayout(store.log.environment.epoch, 4096), store.writer.active
    assert layout.checkpoint_due(active)
    waiter = (LedgerState(-1, {}), lambda error: None, b"", b"", None, 0, 0)
    assert layout.lay_out(active, [waiter], LogPosition(1, active.offset)) is None
    assert layout.checkpoint_due(active)
    block = (LedgerState(2, {}), lambda error: None, b"", b"x", array("I", [1]), 0, 100)
    commit = layout.lay_out(active, [waiter, block], LogPosition(1, active.offset))
    assert commit is not None
    assert commit.checkpoint
    assert not layout.checkpoint_due(active)


@pytest.mark.skipif(not aio_available(), reason="needs Linux's asynchronous I/O (io_submit)")
async def test_requests_under_way_fail_when_the_aio_context_closes(tmp_path: Path) -> None:
    aio = AioContext(asyncio.get_running_loop())
    (tmp_path / "file").write_bytes(bytes(FILE_BYTES))
    memory = mmap.mmap(-1, PAGE_BYTES)
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    said: list[OSError | None] = []
    aio.read(descriptor, ctypes.addressof(ctypes.c_char.from_buffer(memory)), PAGE_BYTES, 0, said.append)
    aio.close()
    os.close(descriptor)
    assert [error and error.errno for error in said] == [errno.ECANCELED]
