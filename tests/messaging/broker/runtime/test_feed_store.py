"""The snapshot of the control plane on disk: nothing saved is lost, whatever was cut off, and a change costs its own size."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.background import BackgroundLoop
from messaging.broker.core.control.view import ControlView
from messaging.broker.runtime.feed import store as feed_store
from messaging.broker.runtime.feed.follower import FeedFollower
from messaging.broker.runtime.feed.store import FeedStore
from messaging.errors import StorageFailed
from messaging.storage.disk_reserve import SLICE_BYTES, DiskReserve


def page(version: int, key: str = "a", size: int = 10, *, full: bool = False) -> FeedApply:
    change = FeedChange(version=version, kind="tenant", key=key, state={"admin_roles": ["r" * size]})
    return FeedApply(from_version=0 if full else version - 1, to_version=version, full=full, changes=[change], feed_id="f")


def followed(folder: Path) -> FeedFollower:
    """A broker that starts over `folder`."""

    def nobody(since: int, feed_id: str, after: str) -> FeedApply:
        raise OSError("away")

    view = ControlView(superuser_roles=(), policy_defaults={}, anonymous_public=False)
    follower = FeedFollower(view, FeedStore(folder), nobody, BackgroundLoop("save_feed"))
    follower.load()
    return follower


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in folder.iterdir()}


def crashed(folder: Path, copy: Path) -> ControlView:
    """What a broker holds that starts over the files as they are now."""
    while True:
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(folder, copy)
        except (FileNotFoundError, shutil.Error):
            continue  # a compaction ended meanwhile and deleted what it replaced
        return followed(copy).view


async def test_what_was_saved_is_there_after_a_restart(tmp_path: Path) -> None:
    first = followed(tmp_path)
    await first.apply(page(1, full=True))
    await first.apply(page(2, "b"))
    await first.apply(page(3, "a", size=20))
    again = followed(tmp_path).view
    assert (again.version, again.feed_id, again.tenants) == (3, "f", first.view.tenants)
    assert modes(tmp_path) == {0o600}


async def test_a_journal_cut_off_at_any_byte_holds_the_changes_before(tmp_path: Path) -> None:
    first = followed(tmp_path / "0")
    await first.apply(page(1, full=True))
    ends = []
    for version in (2, 3, 4):
        await first.apply(page(version))
        ends.append((tmp_path / "0" / "journal-1").stat().st_size)
    whole = (tmp_path / "0" / "journal-1").read_bytes()
    state = (tmp_path / "0" / "state-1").read_bytes()
    for cut in range(len(whole)):
        folder = tmp_path / "cut" / str(cut)
        folder.mkdir(parents=True)
        (folder / "state-1").write_bytes(state)
        (folder / "journal-1").write_bytes(whole[:cut])
        held = followed(folder)
        assert held.view.version == 1 + sum(end <= cut for end in ends)
        if cut % 7 == 0:  # and it goes on from there
            await held.apply(page(held.view.version + 1, "next"))
            assert followed(folder).view.version == held.view.version


async def test_a_damaged_byte_ends_the_journal_there(tmp_path: Path) -> None:
    first = followed(tmp_path)
    await first.apply(page(1, full=True))
    await first.apply(page(2))
    at = (tmp_path / "journal-1").stat().st_size
    await first.apply(page(3))
    data = bytearray((tmp_path / "journal-1").read_bytes())
    for offset in (at, at + 4, at + 9, len(data) - 1):
        damaged = data.copy()
        damaged[offset] ^= 0xFF
        (tmp_path / "journal-1").write_bytes(damaged)
        assert followed(tmp_path).view.version == 2


async def test_a_journal_damaged_before_its_end_is_no_start_of_anything(tmp_path: Path) -> None:
    """What was damaged may have revoked a key: until the web process has told everything anew, the key would open all again."""
    first = followed(tmp_path / "whole")
    await first.apply(page(1, full=True))
    begin = 0
    for version in (2, 3, 4):
        await first.apply(page(version))
        begin = begin or (tmp_path / "whole" / "journal-1").stat().st_size
    stop = (tmp_path / "whole" / "journal-1").stat().st_size
    for offset in range(0, begin, 5):
        shutil.copytree(tmp_path / "whole", tmp_path / "copy")
        data = bytearray((tmp_path / "copy" / "journal-1").read_bytes())
        data[offset] ^= 0xFF
        (tmp_path / "copy" / "journal-1").write_bytes(data)
        held = followed(tmp_path / "copy")
        assert held.view.version == 0 and len(data) == stop
        await held.apply(page(9, "z", full=True))
        await held.apply(page(10, "y"))
        assert followed(tmp_path / "copy").view.tenants.keys() == {"z", "y"}
        shutil.rmtree(tmp_path / "copy")


async def test_what_comes_after_a_damaged_state_is_never_taken_for_older_than_it(tmp_path: Path) -> None:
    """It got a lower number: the damaged file stayed for good, was read and complained of at each start."""
    first = followed(tmp_path)
    for version in (1, 2, 3):
        await first.apply(page(version, full=True))
    assert names(tmp_path) == {"state-3"}
    (tmp_path / "state-3").write_bytes(b"rubbish")
    await followed(tmp_path).apply(page(7, full=True))
    assert names(tmp_path) == {"state-4"}
    assert followed(tmp_path).view.version == 7


async def test_a_full_disk_is_not_filled_with_drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = followed(tmp_path)
    await first.apply(page(1, full=True))

    def fail(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        for version in (2, 3, 4):
            with pytest.raises(StorageFailed, match="cannot be saved"):
                await first.apply(page(version, full=True))
    assert names(tmp_path) == {"state-1"}


@pytest.mark.parametrize("full", [False, True])
async def test_a_page_larger_than_a_slice_of_the_reserve_is_saved_with_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """It got one slice at most, and a full feed none: a key revoked on a full disk was forgotten by the next start."""
    reserve = DiskReserve(tmp_path / "reserve", 3 * SLICE_BYTES)
    assert reserve.fill()
    store = FeedStore(tmp_path / "feed", reserve)
    write = os.pwrite

    def small(descriptor: int, data: bytes, offset: int) -> int:
        if len(data) > 3 * SLICE_BYTES - reserve.held_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", small)
    large = page(1, size=2 * SLICE_BYTES + 1, full=full)
    if full:
        store.write_state(store.next_number(), large, [("tenant", "a", large.changes[0].state or {})])
    else:
        store.append(large)
    assert reserve.held_bytes == 0
    assert [one.to_version for one in FeedStore(tmp_path / "feed").load()] == [1]


async def test_a_damaged_state_and_a_folder_full_of_rubbish_are_no_start_of_anything(tmp_path: Path) -> None:
    first = followed(tmp_path)
    await first.apply(page(1, full=True))
    (tmp_path / "state-1").write_bytes((tmp_path / "state-1").read_bytes()[:-3])
    for name in ("state-x", "journal-", "state-9.draft", "README"):
        (tmp_path / name).write_bytes(b"\x00\x00\x00\x02rubbish")
    held = followed(tmp_path)
    assert held.view.version == 0
    await held.apply(page(7, full=True))
    assert followed(tmp_path).view.version == 7


@pytest.mark.parametrize("call", ["pwrite", "fsync", "replace"])
async def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    first = followed(tmp_path)
    await first.apply(page(1, full=True))
    await first.apply(page(2, "b"))
    broken = OSError(errno.ENOSPC, "No space left on device")

    def fail(*_: Any) -> Any:
        raise broken

    for update in (page(3, "c"), page(3, "c", full=True)):
        with monkeypatch.context() as patch:
            patch.setattr(Path if call == "replace" else os, call, fail)
            if call != "replace" or update.full:
                with pytest.raises(Exception, match="cannot be saved"):
                    await first.apply(update)
                assert first.view.version == 2
                assert "cannot be saved" in first.why_not_ready()
        # What was written and could not be synced may be there: nobody was told so, and the control plane says the same.
        held = crashed(tmp_path, tmp_path / "copy").tenants.keys()
        assert held == {"a", "b"} or (call == "fsync" and held == {"a", "b", "c"})
    await first.apply(page(3, "c"))
    assert first.why_not_ready() == ""
    assert followed(tmp_path).view.tenants.keys() == {"a", "b", "c"}


async def test_a_change_costs_its_own_size_whatever_others_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: properties of one tenant tripled what a policy change of another one wrote."""
    first = followed(tmp_path)
    written: list[int] = []
    pwrite = os.pwrite

    def counting(descriptor: int, data: Any, offset: int) -> int:
        written.append(len(data))
        return pwrite(descriptor, data, offset)

    await first.apply(page(1, "large", size=900_000, full=True))
    monkeypatch.setattr(os, "pwrite", counting)
    for version in range(2, 22):
        await first.apply(page(version, "small"))
    assert sum(written) < 20 * 400


async def test_a_long_journal_becomes_a_state_and_changes_meanwhile_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_store, "COMPACTED_FROM_BYTES", 2_000)
    monkeypatch.setattr(feed_store, "PAGE_ENTITIES", 3)
    folder = tmp_path / "feed"
    first = followed(folder)
    await first.apply(page(1, full=True))
    written = 0
    for version in range(2, 102):
        await first.apply(page(version, f"t{version % 10}"))
        if first.compacting is not None:
            assert crashed(folder, tmp_path / "copy").version == version, "a crash at any moment of it loses nothing"
            await first.compacting
            written += 1
    assert 2 < written < 30
    assert len(names(folder)) <= 2
    again = followed(folder).view
    assert (again.version, again.tenants) == (101, first.view.tenants)


async def test_a_compaction_that_fails_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_store, "COMPACTED_FROM_BYTES", 500)
    first = followed(tmp_path)
    await first.apply(page(1, full=True))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error")))
        for version in range(2, 22):
            await first.apply(page(version))
            if first.compacting is not None:
                await first.compacting
        assert first.saving.failures
        assert followed(tmp_path).view.version == 21
    for version in range(22, 42):
        await first.apply(page(version))
        if first.compacting is not None:
            await first.compacting
    assert len(names(tmp_path)) <= 2
    assert followed(tmp_path).view.version == 41
