"""`magnetar log inspect | verify | repair` on whole, damaged and mutilated logs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from crc32c import crc32c

from messaging.storage.ledger_store import Unavailable
from messaging.storage.local import LocalLedgerStore
from messaging.storage.local.device.disk import OsDisk
from messaging.storage.local.format.directory import DirectoryInUse, UnknownFormat, read_store_id
from messaging.storage.local.format.segment import SEAL_OFFSET, name_of, read_segment, seal_bytes
from messaging.storage.local.recover.inspect import inspect, repair, verify
from tests.support.storage.damaged_log import CONFIG, DIRECTORY, PAYLOAD, append, fill, flip, place_of, readable
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.owning import started

pytestmark = pytest.mark.asyncio


async def entries_of(disk: FakeDisk) -> tuple[list[int], list[int]]:
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    await started(store)
    entries = await readable(store, 1)
    await store.stop()
    return entries


async def test_a_whole_log() -> None:
    disk = FakeDisk()
    await fill(disk, 400)
    report = verify(DIRECTORY, disk=disk)
    assert report.ok and report.tail_bytes == 0
    assert (report.entries, report.ledgers) == (400 + 134, 2)
    lines = list(inspect(DIRECTORY, disk=disk))
    assert lines[0].startswith("log in /log: format 2") and "opened 1 times" in lines[0]
    assert any("sealed" in line for line in lines) and any("open," in line for line in lines)
    assert lines[-2].startswith("ledger 1: created in segment 1, entries 0 to ")
    before = disk.operations
    assert repair(DIRECTORY, disk=disk).actions == []
    assert disk.operations > before
    assert await entries_of(disk) == ([*range(400)], [])


async def test_every_damage_is_found_and_named() -> None:
    clean = FakeDisk()
    await fill(clean, 400)
    size = len(clean.file(DIRECTORY / name_of(1, 0)))
    end = clean.file(DIRECTORY / name_of(1, 0)).rstrip(b"\0")
    for offset in range(4096, len(end), 997):
        disk = clean.frozen()
        flip(disk, 1, offset, offset % 8)
        report = verify(DIRECTORY, disk=disk)
        assert not report.ok and "segment" in report.problems[0], (offset, size)


async def test_corrupt_entries_are_named_and_never_cut_off() -> None:
    disk = FakeDisk()
    await fill(disk, 60)
    flip(disk, 1, place_of(disk, 1, 30))
    report = repair(DIRECTORY, disk=disk)
    assert len(report.remaining) == 1 and "corrupt" in report.remaining[0]
    assert await entries_of(disk) == ([*range(30), *range(31, 60)], [30])


async def test_a_torn_tail_is_set_aside() -> None:
    disk = FakeDisk()
    await fill(disk, 60)
    place = place_of(disk, 1, 59)
    disk.file(DIRECTORY / name_of(1, 0))[place : place + len(PAYLOAD % 59)] = bytes(len(PAYLOAD % 59))
    assert verify(DIRECTORY, disk=disk).ok  # may be a write under way
    assert verify(DIRECTORY, disk=disk).tail_bytes > 0
    report = repair(DIRECTORY, disk=disk)
    assert len(report.actions) == 1 and "set aside" in report.actions[0] and not report.remaining
    assert await entries_of(disk) == ([*range(59)], [])


@pytest.mark.parametrize("damage", ["format gone", "format garbled", "epoch garbled", "head of 1", "head of 2"])
async def test_files_known_from_elsewhere_are_written_again(damage: str) -> None:
    disk = FakeDisk()
    await fill(disk, 400)
    match damage.split():
        case ["format", "gone"]:
            disk.remove(DIRECTORY / "format")
        case [name, "garbled"]:
            disk.file(DIRECTORY / name)[:] = b"?"
        case [*_, number]:
            flip(disk, int(number), 9)
    report = repair(DIRECTORY, disk=disk)
    assert len(report.actions) == 1 and "again" in report.actions[0] and not report.remaining
    assert await entries_of(disk) == ([*range(400)], [])


async def test_a_newer_format_is_no_damage() -> None:
    """It was taken for one that cannot be read, and written over."""
    clean = FakeDisk()
    await fill(clean, 400)
    for damaged in ("format", "segment", "segment without format"):
        disk = clean.frozen()
        if damaged == "format":
            disk.file(DIRECTORY / "format")[:] = b'{"format": 3, "store_id": "0000000000000001"}'
        else:
            page = disk.file(DIRECTORY / name_of(1, 0))
            page[8:12] = (3).to_bytes(4, "little")
            page[40:44] = crc32c(bytes(page[:40])).to_bytes(4, "little")
        if damaged.endswith("without format"):
            disk.remove(DIRECTORY / "format")
        before = {name: bytes(disk.file(DIRECTORY / name)) for name in disk.names(DIRECTORY)}
        with pytest.raises(UnknownFormat, match="use the release that wrote it"):
            repair(DIRECTORY, disk=disk)
        assert {name: bytes(disk.file(DIRECTORY / name)) for name in disk.names(DIRECTORY)} == before
        with pytest.raises(Unavailable):
            await LocalLedgerStore(DIRECTORY, CONFIG, disk=disk).start()


@pytest.mark.parametrize(
    ("data_stop", "footer_offset", "footer_bytes"),
    [(4096, 4096, 1 << 62), (1 << 62, 1 << 62, 100), (0, 0, 1), (8192, 4096, 100), (4096, 1 << 63, 1)],
)
async def test_a_seal_that_points_elsewhere_counts_as_none(data_stop: int, footer_offset: int, footer_bytes: int) -> None:
    disk = FakeDisk()
    await fill(disk, 400)
    path = DIRECTORY / name_of(1, 0)
    segment = read_segment(disk.open(path), path, read_store_id(disk, DIRECTORY) or 0)
    segment.data_stop, segment.footer_offset, segment.footer_bytes = data_stop, footer_offset, footer_bytes
    seal = seal_bytes(segment)
    disk.file(path)[SEAL_OFFSET : SEAL_OFFSET + len(seal)] = seal
    assert verify(DIRECTORY, disk=disk).entries == 400 + 134
    assert len(list(inspect(DIRECTORY, disk=disk))) > 3
    assert await entries_of(disk) == ([*range(400)], [])


async def test_looking_needs_no_right_to_write_and_stops_at_nothing(tmp_path: Path) -> None:
    store = LocalLedgerStore(tmp_path, CONFIG)
    fence = await started(store)
    await append(await store.create(fence, 1, {}), b"entry")
    await store.stop()
    os.mkfifo(tmp_path / name_of(7, 0))
    (tmp_path / name_of(8, 0)).mkdir()
    (tmp_path / name_of(9, 0)).symlink_to(tmp_path / "nowhere")
    file = OsDisk(read_only=True).open(tmp_path / name_of(1, 0))
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write([b"x"], 0)
    file.close()
    report = verify(tmp_path)
    assert report.entries == 1
    lines = [*inspect(tmp_path)]
    for number in (7, 8, 9):
        assert any(name_of(number, 0) in problem and "cannot be opened" in problem for problem in report.problems)
        assert any(name_of(number, 0) in line for line in lines)
    assert any(line.startswith("ledger 1: created in segment 1, entries 0 to 0") for line in lines)


async def test_no_log_here(tmp_path: Path) -> None:
    for call in (verify, repair, lambda path: list(inspect(path))):
        with pytest.raises(Unavailable, match=str(tmp_path)):
            call(tmp_path)


async def test_repair_needs_the_directory_for_itself(tmp_path: Path) -> None:
    store = LocalLedgerStore(tmp_path, CONFIG)
    await started(store)
    with pytest.raises(DirectoryInUse):
        repair(tmp_path)
    assert verify(tmp_path).ok
    await store.stop()
