"""A file of the log that was removed, or comes from an older backup, is noticed: what was confirmed is there, or the log is refused
with what to do."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress

import pytest

from messaging.storage.ledger_store import DiskFull, StoreError, Unavailable
from messaging.storage.local import LocalLedgerStore
from messaging.storage.local.format import manifest
from messaging.storage.local.format.directory import read_epoch
from messaging.storage.local.format.manifest import Manifest, Range
from messaging.storage.local.format.segment import LogPosition, name_of
from messaging.storage.local.recover.inspect import repair
from tests.support.storage.damaged_log import CONFIG, DIRECTORY, PAYLOAD, append, readable
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.filled_log import filled, segment_names
from tests.support.storage.owning import fence_of, started
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio

ENTRIES = 700


async def written(disk: FakeDisk, first: int, count: int) -> None:
    """One life of a store: appends to ledger 1, and says at the end how far it came."""
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    fence = await started(store)
    ledger_id = first + 1
    writer = await store.create(fence, ledger_id, {})
    for entry in range(count):
        await append(writer, PAYLOAD % entry)
    await store.name_generation(f"generation {first}")
    await store.stop()


async def opened(disk: FakeDisk) -> LocalLedgerStore:
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await started(store)
    return store


async def refused(disk: FakeDisk, said: str) -> None:
    for _ in range(2):  # the first try changes nothing
        store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
        with pytest.raises(Unavailable, match=said):
            await store.start()


async def test_a_segment_that_was_removed_is_missed_until_it_is_given_up() -> None:
    clean = FakeDisk()
    await written(clean, 0, ENTRIES)
    names = segment_names(clean)
    assert len(names) >= 3
    for name in names:
        disk = clean.frozen()
        disk.remove(DIRECTORY / name)
        await refused(disk, f"1 segments are missing .{name[:18]}.*restore the whole.*magnetar log repair")
    report = repair(DIRECTORY, disk=disk)
    assert report.remaining
    await (await opened(disk)).stop()


async def test_segments_that_an_earlier_release_reclaimed_are_given_up_as_the_error_says_and_nothing_is_lost() -> None:
    """It knows no manifest: which segments it deleted is not told from a loss."""
    disk = FakeDisk()
    await written(disk, 0, ENTRIES)
    await written(disk, 1, 20)
    former = manifest.read(disk, DIRECTORY)
    assert former is not None
    store = await opened(disk)
    await store.delete(fence_of(store), 1)
    await eventually(lambda: len(segment_names(disk)) < 3)
    await store.stop()
    manifest.write(disk, DIRECTORY, Manifest(former.generation, former.end, former.removed))  # as it was when that release began
    await refused(disk, "segments are missing.*earlier release.*nothing is lost: run `magnetar log repair`, and start again")
    repair(DIRECTORY, disk=disk)
    store = await opened(disk)
    assert await readable(store, 2) == ([*range(20)], [])
    await store.stop()


async def test_a_newest_segment_that_is_older_than_the_rest_is_noticed() -> None:
    disk = FakeDisk()
    await written(disk, 0, 20)
    older = bytes(disk.file(DIRECTORY / name_of(1, 0)))
    await written(disk, 1, 20)
    disk.file(DIRECTORY / name_of(1, 0))[:] = older
    await refused(disk, r"segment 1 ends at byte \d+, but had come to byte \d+: it is older than the rest")
    assert any("older than the rest" in remaining for remaining in repair(DIRECTORY, disk=disk).remaining)
    store = await opened(disk)
    assert await readable(store, 1) == ([*range(20)], [])
    await store.stop()


async def test_rot_at_the_end_is_damage_and_no_torn_commit() -> None:
    """The manifest knows that the last commit was durable, which no later commit says."""
    disk = FakeDisk()
    await written(disk, 0, 20)
    assert disk.damage(PAYLOAD % 19)
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await started(store)
    assert [damage.synced for damage in store.damage] == [True]
    assert (await readable(store, 1))[0] == [*range(19)]
    await store.stop()


def _removed(disk: FakeDisk) -> None:
    disk.remove(DIRECTORY / "epoch")


def _older(disk: FakeDisk) -> None:
    disk.file(DIRECTORY / "epoch")[:] = b'{"epoch": 0}'


@pytest.mark.parametrize(("lost", "said"), [(_removed, "no file named epoch"), (_older, "epoch is older than the log")])
async def test_no_epoch_begins_twice(lost: Callable[[FakeDisk], None], said: str) -> None:
    """Commits of an epoch that was there before were confirmed, and cut off as a torn tail by the next start."""
    disk = FakeDisk()
    await written(disk, 0, 20)
    await written(disk, 1, 20)
    newest = read_epoch(disk, DIRECTORY)
    lost(disk)
    await refused(disk, f"{said}.*magnetar log repair")
    lost(disk)
    report = repair(DIRECTORY, disk=disk)
    assert [action for action in report.actions if "epoch" in action] and not report.remaining
    assert read_epoch(disk, DIRECTORY) > newest
    await written(disk, 2, 20)
    store = await opened(disk)
    assert store.damage == []
    for ledger_id in (1, 2, 3):
        assert (await readable(store, 1)) == ([*range(20)], [])
        assert (await store.info(ledger_id)).last_entry == 19
    await store.stop()


async def test_segments_that_were_reclaimed_are_not_missed() -> None:
    disk = FakeDisk()
    store = await filled(disk, 10, 60)
    await store.name_generation("before")
    before = segment_names(disk)
    for ledger_id in range(1, 11):
        await store.delete(fence_of(store), ledger_id)
    await eventually(lambda: len(segment_names(disk)) <= 2)
    killed = disk.frozen()
    await store.stop()
    for left in (killed, disk):
        again = LocalLedgerStore(DIRECTORY, store.config, disk=left)
        await started(again)
        assert again.generation == "before" and again.damage == []
        await again.stop()
    written_down = manifest.read(disk, DIRECTORY)
    assert written_down is not None and written_down.removed is not None
    assert sum(last - first + 1 for first, last in written_down.removed) >= len(before) - 2


async def test_a_log_without_a_manifest_is_taken_as_it_is() -> None:
    """As earlier releases left it: some segments were reclaimed, and nothing says which."""
    disk = FakeDisk()
    store = await filled(disk, 10, 60)
    for ledger_id in range(1, 11):
        await store.delete(fence_of(store), ledger_id)
    await eventually(lambda: store.log.reclaimer.removed > 0)
    await store.stop()
    disk.remove(DIRECTORY / manifest.NAME)
    store = LocalLedgerStore(DIRECTORY, store.config, disk=disk)
    await started(store)
    assert store.generation == ""
    await store.stop()


async def test_on_a_full_disk_a_manifest_says_less_and_stays_true() -> None:
    disk = FakeDisk()
    await written(disk, 0, 20)
    disk.fail(lambda kind, path, number: errno.ENOSPC if path.name == "manifest.new" else False)
    manifest.write(
        disk, DIRECTORY, Manifest("another", LogPosition(9, 9), tuple(Range(number, number) for number in range(1, 999, 2)))
    )
    disk.heal()
    assert manifest.read(disk, DIRECTORY) == Manifest("another")


async def test_an_unreadable_manifest_is_refused_and_made_anew() -> None:
    disk = FakeDisk()
    await written(disk, 0, 20)
    disk.file(DIRECTORY / manifest.NAME)[:] = b"?"
    await refused(disk, "manifest cannot be read.*magnetar log repair")
    assert any("manifest" in action for action in repair(DIRECTORY, disk=disk).actions)
    store = await opened(disk)
    assert await readable(store, 1) == ([*range(20)], [])
    await store.stop()


async def test_a_segment_whose_making_failed_leaves_no_gap() -> None:
    disk = FakeDisk()
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    fence = await started(store)
    await store.name_generation("one")
    writer = await store.create(fence, 1, {})
    refusals = iter([errno.EMFILE] * 3)
    disk.fail(lambda kind, path, number: next(refusals, False) if kind == "rename" and "segment" in path.name else False)
    confirmed = 0
    ledger_id = 1
    while confirmed < ENTRIES:
        try:
            await append(writer, PAYLOAD % confirmed)
            confirmed += 1
        except StoreError:
            ledger_id += 1
            with suppress(DiskFull):
                writer = await store.create(fence, ledger_id, {})
    await store.stop()
    assert ledger_id > 1
    store = await opened(disk)
    assert store.damage == []
    await store.stop()
