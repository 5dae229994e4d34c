"""A full disk stops producers, never acknowledgements; one owner a directory."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from messaging.storage.ledger_store import DiskFull, Fence, LedgerClosed, LedgerWriter, StoreError
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.format.directory import DirectoryInUse
from tests.support.storage.damaged_log import append
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.owning import started
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio

DIRECTORY = Path("/log")
CONFIG = LocalConfig(
    segment_bytes=64 << 10, commit_bytes_max=8 << 10, reserved_bytes=128 << 10, entry_bytes_max=16 << 10, checkpoint_bytes=16 << 10
)


async def fill_up(store: LocalLedgerStore, fence: Fence, first_ledger: int) -> LedgerWriter:
    """Appends until the disk is full; returns the writer that was refused."""
    writer = await store.create(fence, first_ledger, {})
    for _ in range(2000):
        try:
            await append(writer, b"x" * 4000)
        except DiskFull:
            return writer
    raise AssertionError("the disk never filled up")


async def test_a_full_disk_refuses_producers_and_serves_cursors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("messaging.storage.local.write.space_watch.SPACE_RETRY_S", 0.01)
    disk = FakeDisk(capacity_bytes=1 << 20)
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    fence = await started(store)
    cursors = await store.create(fence, 1, {"reserved": "cursor"})
    refused = await fill_up(store, fence, 2)
    with pytest.raises(LedgerClosed):
        await append(refused, b"after a failure")
    with pytest.raises(DiskFull):
        await append(await store.create(fence, 3, {}), b"x" * 4000)  # not every small record is refused yet
    await store.delete(fence, 3)
    for _ in range(60):  # about the space that is reserved
        await append(cursors, b"c" * 1000)
    assert store.failed is None
    confirmed = refused.last_confirmed
    assert (await store.seal(fence, 2)).last_entry == confirmed
    reader = await store.open(2)
    assert (await reader.read(confirmed, entries_max=1, bytes_max=1))[0].last_entry == confirmed
    await store.delete(fence, 2)
    disk.capacity_bytes += 1 << 20

    next_ledger = itertools.count(4)

    async def accepted() -> bool:
        try:
            await append(await store.create(fence, next(next_ledger), {}), b"x" * 4000)
        except DiskFull:
            return False
        return True

    await eventually(accepted)
    used = next(next_ledger) - 1
    await store.stop()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    fence = await started(store)
    last_entries = {info.ledger_id: info.last_entry for info in await store.ledgers()}
    assert (last_entries[1], last_entries[used]) == (59, 0) and 2 not in last_entries
    await store.stop()


async def test_the_kept_space_may_end_too_and_the_store_lives_on() -> None:
    disk = FakeDisk(capacity_bytes=512 << 10)
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    fence = await started(store)
    cursors = await store.create(fence, 1, {"reserved": "cursor"})
    await fill_up(store, fence, 2)
    with pytest.raises(DiskFull):
        for _ in range(1000):
            await append(cursors, b"c" * 4000)
    assert store.failed is None
    await store.stop()


@pytest.mark.parametrize(
    ("code", "kinds", "said"),
    [
        (errno.EMFILE, {"open", "sync_directory"}, "limit of open files"),
        (errno.ENFILE, {"sync_directory"}, "limit of open files"),
        (errno.ENOSPC, {"open"}, "no inodes are left"),  # while there are bytes enough
        (errno.ENOMEM, {"rename", "allocate"}, "Cannot allocate memory"),
    ],
    ids=["descriptors of the process", "descriptors of the system", "inodes", "memory"],
)
async def test_a_new_segment_waits_for_what_is_used_up(
    monkeypatch: pytest.MonkeyPatch, code: int, kinds: set[str], said: str
) -> None:
    """It ended the log until a restart: nothing is wrong with a disk on which no file can be made now."""
    monkeypatch.setattr("messaging.storage.local.write.space_watch.SPACE_RETRY_S", 0.01)
    disk = FakeDisk()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    fence = await started(store)
    writer = await store.create(fence, 1, {})
    await append(writer, b"before")
    ledger_ids = itertools.count(2)
    disk.fail(lambda kind, path, number: code if kind in kinds else False)
    with pytest.raises(DiskFull) as refused:
        while True:
            await append(writer, b"x" * 4000)
    assert said in str(refused.value)
    confirmed = writer.last_confirmed
    assert store.failed is None
    disk.heal()

    async def accepted() -> bool:
        try:
            await append(await store.create(fence, next(ledger_ids), {}), b"x" * 4000)
        except DiskFull:
            return False
        return True

    await eventually(accepted)
    assert (await store.seal(fence, 1)).last_entry == confirmed
    for _ in range(40):  # through several segments
        assert await accepted()
    await store.stop()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await started(store)
    assert store.damage == []
    assert (await store.info(1)).last_entry == confirmed
    await store.stop()


async def test_a_deletion_that_was_refused_can_be_asked_for_again() -> None:
    """The second time it was answered as done, and the ledger came back with the next start."""
    disk = FakeDisk()
    store = LocalLedgerStore(DIRECTORY, dataclasses.replace(CONFIG, reserved_bytes=0), disk=disk)
    fence = await started(store)
    writers = [await store.create(fence, number, {"reserved": "cursor"}) for number in range(1, 30)]
    disk.fail(lambda kind, path, number: errno.EMFILE if kind == "rename" else False)
    refused: list[int] = []
    with pytest.raises(DiskFull):
        while True:
            await append(writers[0], b"x" * 1000)
    for number in range(1, 30):
        try:
            await store.delete(fence, number)
        except StoreError:
            refused.append(number)
    assert refused
    disk.heal()
    for number in refused:
        await store.delete(fence, number)
    await store.stop()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await started(store)
    assert await store.ledgers() == []
    await store.stop()


async def test_a_disk_full_from_the_start_is_said() -> None:
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=FakeDisk(capacity_bytes=1000))
    with pytest.raises(DiskFull, match="/log"):
        await started(store)


async def test_two_stores_on_one_directory(tmp_path: Path) -> None:
    store = LocalLedgerStore(tmp_path / "log", CONFIG)
    await started(store)
    second = LocalLedgerStore(tmp_path / "log", CONFIG)
    with pytest.raises(DirectoryInUse, match=str(tmp_path / "log")):
        await started(second)
    await store.stop()
    await started(second)
    await second.stop()


async def test_two_processes_on_one_directory(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from messaging.storage.local import LocalConfig, LocalLedgerStore\n"
        "async def main():\n"
        "    await LocalLedgerStore(sys.argv[1], LocalConfig(segment_bytes=65536, reserved_bytes=0)).start()\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        store = LocalLedgerStore(tmp_path / "log", CONFIG)
        with pytest.raises(DirectoryInUse):
            await started(store)
        process.kill()
        process.wait()
    await started(store)  # the lock went with the process
    await store.stop()


async def test_tenants_share_a_commit_fairly() -> None:
    """One tenant's flood does not delay another's message by more than a commit or two."""
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=FakeDisk())
    fence = await started(store)
    flood = await store.create(fence, 1, {"tenant": "loud"})
    quiet = await store.create(fence, 2, {"tenant": "quiet"})
    order: list[str] = []

    def done(name: str) -> object:
        def call(error: StoreError | None) -> None:
            assert error is None
            order.append(name)

        return call

    for _ in range(200):
        flood.append(b"", b"x" * 1000, array("I", [1000]), done("loud"))  # type: ignore[arg-type]
    quiet.append(b"", b"y", array("I", [1]), done("quiet"))  # type: ignore[arg-type]
    await eventually(lambda: len(order) == 201)
    assert order.index("quiet") < 20
    await store.stop()
