"""The end of a log that was cut or damaged: what was never confirmed is set aside, and nothing else is taken for a commit."""

from __future__ import annotations

import pytest

from messaging.storage.ledger_store import Unavailable
from messaging.storage.local.format.records import COMMIT_BYTES
from messaging.storage.local.format.segment import PAGE_BYTES, name_of
from tests.support.storage.damaged_log import DIRECTORY, PAYLOAD, append, fill, flip, readable, reopened
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.owning import fence_of


async def test_a_flipped_bit_anywhere_in_the_last_commit_sets_it_aside() -> None:
    clean = FakeDisk()
    await fill(clean, 20)
    content = clean.file(DIRECTORY / name_of(1, 0))
    start = content.index(PAYLOAD % 19) - 4 - 6 - 36 - COMMIT_BYTES
    stop = content.index(PAYLOAD % 19) + len(PAYLOAD % 19)
    assert start > PAGE_BYTES
    for offset in range(start, stop):
        disk = clean.frozen()
        flip(disk, 1, offset, offset % 8)
        store = await reopened(disk)
        assert [(damage.synced, damage.start) for damage in store.damage] == [(False, start)]
        assert await readable(store, 1) == ([*range(19)], [])
        assert any(name.startswith("segment-") for name in disk.names(DIRECTORY / "set-aside"))
        await store.stop()
        store = await reopened(disk)  # said once: the log is whole again
        assert store.damage == []
        await store.stop()


async def test_a_commit_cut_short_anywhere_is_set_aside() -> None:
    clean = FakeDisk()
    await fill(clean, 20)
    content = clean.file(DIRECTORY / name_of(1, 0))
    start = content.index(PAYLOAD % 19) - 4 - 6 - 36 - COMMIT_BYTES
    stop = content.index(PAYLOAD % 19) + len(PAYLOAD % 19)
    for cut in range(start + 1, stop, 7):
        disk = clean.frozen()
        disk.file(DIRECTORY / name_of(1, 0))[cut:stop] = bytes(stop - cut)
        store = await reopened(disk)
        assert await readable(store, 1) == ([*range(19)], [])
        writer = await store.create(fence_of(store), 3, {})
        await append(writer, b"goes on")
        await store.stop()
        store = await reopened(disk)
        assert store.damage == [] and (await store.info(3)).last_entry == 0
        await store.stop()


async def test_a_payload_that_looks_like_a_commit_is_no_commit() -> None:
    """Another store's bytes, sent as a message: the checksum is seeded with the store's id."""
    disk = FakeDisk()
    await fill(disk, 20)
    foreign = bytes(disk.file(DIRECTORY / name_of(1, 0))[PAGE_BYTES : PAGE_BYTES + 3000])
    disk = FakeDisk()
    store = await reopened(disk)
    writer = await store.create(fence_of(store), 1, {})
    await append(writer, foreign)
    await store.stop()
    content = disk.file(DIRECTORY / name_of(1, 0))
    content[content.index(foreign) - 20] ^= 1  # the real record is torn
    store = await reopened(disk)
    assert [damage.synced for damage in store.damage] == [False]
    assert (await store.info(1)).last_entry == -1
    await store.stop()


@pytest.mark.parametrize("name", ["format", "epoch"])
async def test_an_unreadable_format_or_epoch_is_refused_by_name(name: str) -> None:
    disk = FakeDisk()
    await fill(disk, 1)
    disk.file(DIRECTORY / name)[:] = b"{"
    with pytest.raises(Unavailable, match=name):
        await reopened(disk)


async def test_a_newer_format_is_refused() -> None:
    disk = FakeDisk()
    await fill(disk, 1)
    disk.file(DIRECTORY / "format")[:] = b'{"format": 3, "store_id": "1"}'
    with pytest.raises(Unavailable, match="format 3"):
        await reopened(disk)
