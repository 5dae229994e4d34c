"""The snapshot of the index: when it is written, what it says, and that nothing depends on it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from messaging.storage.local.format.segment import name_of
from messaging.storage.local.recover.inspect import inspect, repair, verify
from messaging.storage.local.snapshot import snapshot
from tests.support.storage.damaged_log import append
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.filled_log import blocks_read_back, filled, segment_names
from tests.support.storage.owning import fence_of
from tests.support.storage.power_loss import DIRECTORY, lives, reopen_and_check
from tests.support.storage.snapshots import NEVER, ledgers_in, opened, snapshotted
from tests.support.storage.workload import Workload
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio


PATH = DIRECTORY / snapshot.NAME


def footers_read(disk: FakeDisk) -> list[str]:
    """Names of segments of which more than the header page is read from now on."""
    read: list[str] = []
    original = disk.before

    def before(kind: str, path: Path) -> None:
        if kind == "read" and path.name.startswith("segment-"):
            read.append(path.name)
        original(kind, path)

    disk.before = before  # type: ignore[method-assign]
    return read


async def test_opening_reads_no_footer_that_the_snapshot_covers() -> None:
    disk = FakeDisk()
    await snapshotted(disk)
    read = footers_read(disk)
    store = await opened(disk, NEVER)
    covered = store.log.snapshots.covered
    assert covered >= 2
    for number in range(1, covered + 1):
        assert read.count(name_of(number, 0)) == 1, "the header page, nothing else"
    assert read.count(name_of(covered + 1, 0)) > 1
    await store.stop()


async def test_with_and_without_a_snapshot_the_log_is_the_same() -> None:
    disk = FakeDisk()
    await snapshotted(disk)
    without = disk.frozen()
    without.remove(PATH)
    assert await ledgers_in(disk) == await ledgers_in(without)


@pytest.mark.parametrize("damage", ["torn", "flipped", "empty", "another store", "unknown format"])
async def test_a_damaged_snapshot_is_reported_and_footers_are_read(damage: str, caplog: pytest.LogCaptureFixture) -> None:
    disk = FakeDisk()
    await snapshotted(disk)
    expected = await ledgers_in(disk.frozen())
    content = disk.file(PATH)
    match damage:
        case "torn":
            content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
        case "flipped":
            content[Random(1).randrange(len(content))] ^= 4
        case "empty":
            del content[:]
        case _:
            stored = snapshot.read(disk, DIRECTORY, await store_id(disk))
            assert stored is not None
            if damage == "another store":
                stored.store_id += 1
            else:
                stored.format += 1
            content[:] = snapshot.encode_content(stored)
    assert not verify(DIRECTORY, disk=disk).ok
    assert str(PATH) in list(inspect(DIRECTORY, disk=disk))[1]
    store = await opened(disk, NEVER)
    assert [record.action for record in caplog.records if record.levelname == "ERROR"] == ["ledger_log_corrupt"]  # type: ignore[attr-defined]
    assert await store.ledgers() == expected
    assert snapshot.NAME not in disk.names(DIRECTORY), "it must not be believed later"
    await store.stop()
    assert verify(DIRECTORY, disk=disk).ok


async def store_id(disk: FakeDisk) -> int:
    store = await opened(disk.frozen(), NEVER)
    id_ = store.log.environment.store_id
    await store.stop()
    return id_


async def test_every_flipped_byte_is_noticed() -> None:
    disk = FakeDisk()
    await snapshotted(disk, 3, 60)
    ours = await store_id(disk)
    for offset in range(len(disk.file(PATH))):
        damaged = disk.frozen()
        damaged.file(PATH)[offset] ^= 1 << offset % 8
        with pytest.raises(snapshot.BadSnapshot):
            snapshot.read(damaged, DIRECTORY, ours)


async def test_a_snapshot_of_another_past_is_not_used() -> None:
    """It knows of a newer generation of a segment, or the seal of one that it covers is damaged."""
    disk = FakeDisk()
    await snapshotted(disk)
    expected = await ledgers_in(disk.frozen())
    ours = await store_id(disk)
    newer = disk.frozen()
    stored = snapshot.read(newer, DIRECTORY, ours)
    assert stored is not None
    stored.segments[0].generation += 1
    newer.file(PATH)[:] = snapshot.encode_content(stored)
    assert await ledgers_in(newer) == expected
    unsealed = disk.frozen()
    unsealed.file(DIRECTORY / name_of(1, 0))[2048 + 9] ^= 1
    assert await ledgers_in(unsealed) == expected


async def test_verify_finds_a_snapshot_that_is_wrong() -> None:
    disk = FakeDisk()
    await snapshotted(disk)
    assert verify(DIRECTORY, disk=disk).ok
    assert "snapshot of 6 ledgers" in list(inspect(DIRECTORY, disk=disk))[1]
    stored = snapshot.read(disk, DIRECTORY, await store_id(disk))
    assert stored is not None
    stored.columns[1] = bytes(len(stored.columns[1]))
    disk.file(PATH)[:] = snapshot.encode_content(stored)
    assert "snapshot of the index is wrong about ledger 1" in verify(DIRECTORY, disk=disk).problems[0]
    assert repair(DIRECTORY, disk=disk).remaining == []
    assert verify(DIRECTORY, disk=disk).ok


async def test_a_damaged_footer_under_a_snapshot_is_met_by_a_reader_and_repaired_by_the_next_start() -> None:
    disk = FakeDisk()
    await snapshotted(disk)
    expected = await ledgers_in(disk.frozen())
    store = await opened(disk, NEVER)
    segment = store.log.segments.by_number[1]
    await store.stop()
    content = disk.file(segment.path)
    content[segment.footer_offset + 40 : segment.footer_offset + segment.footer_bytes] = bytes(segment.footer_bytes - 40)
    store = await opened(disk, NEVER)
    assert store.damage == []
    await blocks_read_back(store, 1)
    await eventually(lambda: snapshot.NAME not in disk.names(DIRECTORY))
    await store.stop()
    store = await opened(disk, NEVER)
    assert [damage.segment for damage in store.damage] == [1]
    assert await store.ledgers() == expected
    await blocks_read_back(store, 1)
    await store.stop()
    assert await ledgers_in(disk) == expected


async def test_a_ledger_deleted_after_the_snapshot_stays_deleted_when_its_segments_are_reclaimed() -> None:
    """While the snapshot lists a ledger, its DELETED record may not go: reclaim first makes a newer snapshot."""
    disk = FakeDisk()
    store = await filled(disk, 6, 60)
    await eventually(lambda: store.log.snapshots.covered >= 2)
    for ledger_id in (1, 2, 3, 4, 5):
        await store.delete(fence_of(store), ledger_id)
    writer = await store.create(fence_of(store), 100, {})
    for _ in range(60):  # seals the segment with the DELETED records
        await append(writer, b"x" * 4000)
    await store.delete(fence_of(store), 100)
    await eventually(lambda: store.log.ledgers.deletions_pending == {} and len(segment_names(disk)) < 9)
    await store.stop()
    for left in (disk.frozen(), disk.power_loss(Random(1))):
        assert [info.ledger_id for info in await ledgers_in(left)] == [6]
        left.remove(PATH)
        assert [info.ledger_id for info in await ledgers_in(left)] == [6]


@pytest.mark.parametrize("seed", range(20))
async def test_no_deleted_ledger_comes_back_whichever_way_the_log_is_opened(seed: int) -> None:
    """Deletes, rewriting, snapshots and crashes, life after life; each life opened once with the snapshot and once without."""
    workload = Workload(Random(seed), delete_share=0.12)

    async def check_both(disk: FakeDisk) -> None:
        for path in (PATH, None):
            left = disk.frozen()
            if path is not None:
                left.remove(path)
            await reopen_and_check(left, workload)

    await lives(workload, Random(seed), 4, steps=300, power=range(20, 250), check=check_both)


async def test_a_snapshot_that_cannot_be_written_does_not_stop_reclaim() -> None:
    disk = FakeDisk()
    store = await filled(disk, 6, 60)
    await eventually(lambda: store.log.snapshots.covered >= 2)
    disk.fail(lambda kind, path, number: kind == "write" and path.name == f"{snapshot.NAME}.new")
    writer = await store.create(fence_of(store), 100, {})
    for _ in range(60):
        await append(writer, b"x" * 4000)
    for ledger_id in (1, 2, 3, 4, 5, 6, 100):
        await store.delete(fence_of(store), ledger_id)
    await eventually(lambda: len(segment_names(disk)) <= 2)
    assert snapshot.NAME not in disk.names(DIRECTORY), "an older one would know of ledgers that are gone"
    await store.stop()
    assert await ledgers_in(disk) == []


async def test_the_counts_of_a_start_from_a_snapshot_lead_to_the_same_reclaim() -> None:
    disk = FakeDisk()
    await snapshotted(disk, 8, 60)
    store = await opened(disk, NEVER)
    for ledger_id in range(1, 8):
        await store.delete(fence_of(store), ledger_id)
    await eventually(lambda: all(not name.endswith("-0000.log") for name in segment_names(disk)[:-1]))
    await store.delete(fence_of(store), 8)
    await eventually(lambda: len(segment_names(disk)) <= 1)
    await store.stop()


async def test_a_question_is_answered_by_the_log_thread() -> None:
    disk = FakeDisk()
    store = await opened(disk)
    assert await asyncio.to_thread(store.log.thread.ask, lambda: 7) == 7
    await store.stop()
