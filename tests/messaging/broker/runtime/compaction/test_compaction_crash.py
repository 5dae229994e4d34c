"""A broker that is killed, or loses its power, before any operation of its disk while a topic is compacted and published to.

Whatever the moment: the next broker reads the last values up to the horizon of whichever compaction stands, then every message,
under their ids; the next compaction ends, and no ledger is left over.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from messaging.adminrpc.feed import FeedApply, FeedChange
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.persistent import persistent
from messaging.identity import create_secrets
from messaging.settings import Settings
from messaging.storage.ledger_store import EARLIEST, Position
from messaging.storage.local import LocalLedgerStore
from messaging.storage.managed.cursor_log import cursor_ledgers
from messaging.storage.managed.orphans import collect_orphans
from messaging.storage.managed.retention import NOTHING
from tests.support.brokers.broker_over import broker_over
from tests.support.compacting import Keyed, LoopCalls, Seen, batch, compact, publish, read_all, topic_of
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.memory_meta import MemoryMetaStore
from tests.support.storage.storage_lives import CONFIG, DIRECTORY, DISK_BYTES

pytestmark = pytest.mark.asyncio

BEFORE: list[list[Keyed]] = [[("a", b"1"), ("b", b"1"), ("c", b"1")], [("a", b"2")], [("d", b"1"), ("b", b"")]]
BETWEEN: list[list[Keyed]] = [[("c", b"2"), ("e", b"1")], [("a", b"3"), ("e", b"2")], [("f", b"1")]]


class Image(NamedTuple):
    """What a crash would leave. So many of the entries sent had their receipt."""

    disk: FakeDisk
    meta: MemoryMetaStore
    received: int


class Entries:
    """What was sent, in order, and the positions of those that were received."""

    def __init__(self) -> None:
        self.sent: list[list[Keyed]] = []
        self.positions: list[Position] = []

    async def publish(self, service: Broker, *entries: list[Keyed]) -> None:
        for entry in entries:
            self.sent.append(entry)
            self.positions += await publish(service, batch(entry))

    def compacted(self, count: int, horizon: Position) -> list[Seen]:
        """What a compacted read of the first so many gives."""
        every = [
            Seen(position, index, key, value)
            for position, entry in zip(self.positions[:count], self.sent, strict=False)
            for index, (key, value) in enumerate(entry)
        ]
        last = {one.key: one for one in every if one.position <= horizon}
        return [one for one in every if one.position > horizon or (last[one.key] == one and one.value)]


@asynccontextmanager
async def broker_on(disk: FakeDisk, meta: MemoryMetaStore, folder: Path) -> AsyncIterator[Broker]:
    settings = Settings(data_dir=str(folder))
    if not (folder / "secrets").exists():
        create_secrets(settings)
    service = await broker_over(settings, LocalLedgerStore(DIRECTORY, CONFIG, disk=disk), meta)
    if not service.access.view.version:
        changes = [FeedChange(version=1, kind="tenant", key="acme", state={}), namespace(1)]
        await AdminHandlers(service).feed.apply(FeedApply(from_version=0, to_version=1, full=True, changes=changes))
    try:
        yield service
    finally:
        await service.stop()


def namespace(version: int) -> FeedChange:
    return FeedChange(version=version, kind="namespace", key="acme/orders", state={"policies": {}})


async def images_of_a_compaction(folder: Path, entries: Entries) -> list[Image]:
    """One for each operation of the disk, from the beginning of a second compaction to the end of it. The first is done, and what
    it saw is only in its ledger."""
    disk, meta, images = FakeDisk(DISK_BYTES), MemoryMetaStore(), list[Image]()

    def freeze() -> None:
        assert disk.image is not None
        images.append(Image(disk.image, _copied(meta), len(entries.positions)))
        disk.image_at += 1

    async with broker_on(disk, meta, folder) as service:
        await entries.publish(service, *BEFORE)
        await compact(service, folder)
        topic = await topic_of(service)
        await topic.ledger.roll()
        await topic.ledger.trim(service.compactions.kept_from(persistent(topic), topic.ledger_list.last), NOTHING)
        await entries.publish(service, *BETWEEN)
        loop, calls = asyncio.get_running_loop(), LoopCalls(service)

        def publish_beside(method: str) -> None:
            more: list[list[Keyed]] = [[("a", b"%d" % len(entries.sent)), (f"new-{len(entries.sent)}", b"1")]]
            asyncio.run_coroutine_threadsafe(entries.publish(service, *more), loop).result(30)

        calls.before_call = publish_beside
        disk.on_image, disk.image_at = freeze, disk.operations + 1
        await compact(service, folder, calls=calls)
        disk.image_at = 0
    return images


def _copied(meta: MemoryMetaStore) -> MemoryMetaStore:
    while True:
        try:
            return copy.deepcopy(meta)
        except RuntimeError:  # changed by another thread meanwhile
            continue


async def test_a_crash_at_any_operation_of_a_compaction_leaves_exactly_the_last_values(tmp_path: Path) -> None:
    entries = Entries()
    images = await images_of_a_compaction(tmp_path, entries)
    horizons = set()
    for number, image in enumerate(images):
        disk = image.disk if number % 2 else image.disk.power_loss(Random(number))
        async with broker_on(disk, image.meta, tmp_path) as service:
            horizons.add(await _as_the_model_says(service, entries, image.received))
            await collect_orphans(service.storage)
            await compact(service, tmp_path)
            last = (await topic_of(service)).ledger_list.last
            assert await _as_the_model_says(service, entries, image.received) == last
            assert sorted(await service.storage.ledgers.ledger_ids(service.storage.owned.name)) == await _referenced(service)
    assert len(horizons) == 2, "some crashes came before the compaction was stored and some after"
    assert len(images) > 20


async def _as_the_model_says(service: Broker, entries: Entries, received: int) -> Position:
    """The horizon of the compaction that stands. An entry without a receipt may be there."""
    compacted = (await topic_of(service)).ledger_list.compacted
    horizon = compacted.horizon if compacted is not None else EARLIEST
    found = await read_all(service)
    assert found in (entries.compacted(received, horizon), entries.compacted(received + 1, horizon))
    return horizon


async def _referenced(service: Broker) -> list[int]:
    storage = service.storage
    ledgers, after = await storage.meta.referenced_ledgers(after="")
    assert after is None
    return sorted([*ledgers, *await cursor_ledgers(storage.meta, storage.owned.name)])
