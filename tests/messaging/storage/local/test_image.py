"""The image of a log that is written, rolled and reclaimed meanwhile: a copy of it opens, and has what was confirmed until then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from messaging.storage.ledger_store import LedgerWriter, StoreError, Unavailable
from messaging.storage.local import LocalLedgerStore
from messaging.storage.local.image import LogImage
from tests.support.storage.ledger_entries import Results, append_all, read_all
from tests.support.storage.ledger_harness import LocalHarness, OldDisk
from tests.support.storage.owning import started
from tests.support.waiting import eventually


@pytest.fixture(params=[True, False], ids=["by itself", "by thread"])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LocalHarness]:
    made = LocalHarness(tmp_path, disk=None if request.param else OldDisk())
    await made.open()
    yield made
    await made.close()


def copy(store: LocalLedgerStore, image: LogImage, target: Path) -> None:
    target.mkdir()
    for name, text in image.small_files.items():
        (target / name).write_text(text)
    for file in image.files:
        content = (store.directory / file.name).read_bytes()[: file.stop_bytes]
        whole = file.masked(content[:4096]) + content[4096:]
        (target / file.name).write_bytes(whole.ljust(file.size_bytes, b"\0"))


class Load:
    """Appends to one ledger until it is ended; `confirmed` counts."""

    def __init__(self, writer: LedgerWriter) -> None:
        self.writer = writer
        self.sent = self.confirmed = 0
        self._ended = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while not self._ended.is_set():
            results = Results()
            results.append(self.writer, [payload(self.sent)])
            self.sent += 1
            await results.wait(1)
            self.confirmed += 1

    async def end(self) -> None:
        self._ended.set()
        await self.task


def payload(number: int) -> bytes:
    return f"{number:06d}".encode() * 300


async def content_of(directory: Path, config: LocalHarness, ledger_ids: list[int]) -> dict[int, list[bytes]]:
    store = LocalLedgerStore(directory, config.config)
    await started(store)
    try:
        assert not store.damage
        infos = {ledger_id: await store.info(ledger_id) for ledger_id in ledger_ids}
        return {
            ledger_id: await read_all(await store.open(ledger_id), info.last_entry) if info.last_entry >= 0 else []
            for ledger_id, info in infos.items()
        }
    finally:
        await store.stop()


async def test_a_copy_has_what_was_confirmed_before_the_hold_and_nothing_later(harness: LocalHarness, tmp_path: Path) -> None:
    store = harness.store
    loads = [Load(await store.create(harness.fence, ledger_id, {})) for ledger_id in (1, 2, 3)]
    await eventually(lambda: all(load.confirmed > 150 for load in loads), 30)  # several segments of 256 KiB
    store.keep_files(True)
    await store.hold()
    before = [load.confirmed for load in loads]
    image = await store.image()
    assert await asyncio.wait([load.task for load in loads], timeout=0.05) == (set(), {load.task for load in loads})
    held = [load.confirmed for load in loads]
    store.resume()
    await eventually(lambda: all(load.confirmed > count + 100 for load, count in zip(loads, held, strict=True)), 30)
    await asyncio.to_thread(copy, store, image, tmp_path / "copy")
    for load in loads:
        await load.end()
    stored = await content_of(tmp_path / "copy", harness, [1, 2, 3])
    for ledger_id, load, count, while_held in zip((1, 2, 3), loads, before, held, strict=True):
        assert stored[ledger_id] == [payload(number) for number in range(len(stored[ledger_id]))]
        # Of the last commit before the hold, receipts may leave a moment after it.
        assert count <= len(stored[ledger_id]) == while_held < load.confirmed


async def test_files_that_are_copied_stay_though_nobody_needs_them_any_more(harness: LocalHarness, tmp_path: Path) -> None:
    store = harness.store
    kept, dropped = [await store.create(harness.fence, ledger_id, {}) for ledger_id in (1, 2)]
    await append_all(kept, b"kept")
    for _ in range(8):
        await append_all(dropped, *(payload(number) for number in range(100)))
    store.keep_files(True)
    await store.hold()
    image = await store.image()
    store.resume()
    await store.delete(harness.fence, 2)
    await append_all(kept, *(payload(number) for number in range(400)))
    names = {file.name for file in image.files}
    assert len(names) > 4
    await asyncio.to_thread(store.log.thread.ask, lambda: None)  # the reclaimer was told
    assert names <= {path.name for path in store.directory.iterdir()}
    await asyncio.to_thread(copy, store, image, tmp_path / "copy")
    assert len((await content_of(tmp_path / "copy", harness, [1, 2]))[2]) == 800
    store.keep_files(False)
    harness.store.log.reclaimer.start_if_due()


async def test_what_is_asked_for_waits_while_the_log_is_held(harness: LocalHarness) -> None:
    store = harness.store
    writer = await store.create(harness.fence, 1, {})
    await store.hold()
    await store.hold()  # once more is nothing
    appending = asyncio.create_task(append_all(writer, b"later"))
    creating = asyncio.create_task(store.create(harness.fence, 2, {}))
    assert await asyncio.wait([appending, creating], timeout=0.05) == (set(), {appending, creating})
    store.resume()
    store.resume()
    await asyncio.wait_for(asyncio.gather(appending, creating), 10)


async def test_a_stop_ends_the_hold(harness: LocalHarness) -> None:
    writer = await harness.store.create(harness.fence, 1, {})
    await harness.store.hold()
    appending = asyncio.create_task(append_all(writer, b"before the stop"))
    await asyncio.wait([appending], timeout=0.01)
    await asyncio.wait_for(harness.store.stop(), 10)
    await appending
    with pytest.raises(Unavailable, match="not running"):
        await harness.store.hold()
    await harness.open()


async def test_a_directory_that_cannot_be_read_fails_the_image_and_not_the_log(harness: LocalHarness) -> None:
    store = harness.store
    writer = await store.create(harness.fence, 1, {})
    await store.hold()
    names = store.disk.names
    store.disk.names = _refuse  # type: ignore[method-assign]
    try:
        with pytest.raises(StoreError, match="cannot be read"):
            await store.image()
    finally:
        store.disk.names = names  # type: ignore[method-assign]
        store.resume()
    await append_all(writer, b"goes on")
    assert store.failed is None


def _refuse(path: Path) -> list[str]:
    raise PermissionError(13, "refused", str(path))
