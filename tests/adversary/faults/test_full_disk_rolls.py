"""The disk is full while a topic goes on to its next ledger, at each operation in turn: nothing that got a receipt is missing."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.messages import MessagePosition
from messaging.errors import MagnetarError
from messaging.storage.ledger_store import DiskFull
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.managed.retention import LedgerLimits
from tests.simulation.alone import alone, simulated
from tests.support.brokers.storage_broker import Sender, storage_broker, stored_numbers
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.storage.faulty_meta import FaultyMetaStore
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore
from tests.support.waiting import eventually

DIRECTORY = Path("/log")
CONFIG = LocalConfig(
    segment_bytes=64 << 10, commit_bytes_max=32 << 10, reserved_bytes=64 << 10, entry_bytes_max=16 << 10, checkpoint_bytes=16 << 10
)
ROLLING = LedgerLimits(entries_max=2)
MESSAGES = 24
TRIES_MAX = 50


async def no_matter() -> None: ...


class Run:
    """A deduplicated topic on a disk that fails, and the client that sends everything until it has its receipt."""

    def __init__(self, folder: Path, disk: FakeDisk, meta: FaultyMetaStore) -> None:
        self.folder, self.disk, self.meta = folder, disk, meta
        self.receipts: dict[int, tuple[int, int]] = {}
        self.on_refused: Callable[[], Awaitable[None]] = no_matter
        self.store: LocalLedgerStore
        self.service: Broker

    async def start(self) -> None:
        self.store = LocalLedgerStore(DIRECTORY, CONFIG, disk=self.disk)
        self.service = await storage_broker(self.folder, self.store, self.meta, limits=ROLLING, deduplication=True)

    async def stop(self) -> None:
        await self.service.stop()
        await self.service.cursors.stop()
        await self.store.stop()

    async def send_all(self) -> None:
        """Each block is sent twice in a row, as by a client that connected again: a receipt of either counts."""
        first, tries = 0, 0
        while first < MESSAGES:
            tries += 1
            assert tries < TRIES_MAX, f"message {first} got no receipt"
            positions = await self._twice(first, first + 2)
            if not positions:
                if self.store.failed is not None:  # for good: as after an error of the disk, only a new start mends it
                    await self.stop()
                    await self.start()
                await self.on_refused()
                continue
            self.receipts.update(
                {first + index: (position.ledger_id, position.entry_id) for index, position in enumerate(positions)}
            )
            first += 2

    async def _twice(self, first: int, stop: int) -> list[MessagePosition]:
        try:
            sender = await Sender.open(self.service)
        except MagnetarError:
            return []
        outcomes = await asyncio.gather(*(sender.send(first, stop, 9_000) for _ in range(2)), return_exceptions=True)
        sender.producer.close()
        return next((outcome for outcome in outcomes if isinstance(outcome, list)), [])

    async def check(self) -> None:
        await self.stop()
        await self.start()
        stored = await stored_numbers(self.service)
        assert sorted(stored) == list(range(MESSAGES))
        for number, places in stored.items():
            assert len(places) == 1, f"message {number} is stored {len(places)} times"
            told = self.receipts[number]
            assert told in ((-1, -1), (places[0].ledger_id, places[0].entry_id))
        await self.stop()


def run(folder: Path, *, disk_fails_at: int = 0, meta_fails_at: int = 0, after_doing: bool = False) -> tuple[int, int]:
    """The number of operations that sending took: of the disk, of the metadata. The same in each run until one of them fails."""
    disk, meta = FakeDisk(), FaultyMetaStore(MemoryMetaStore())

    async def work() -> tuple[int, int]:
        run = Run(folder, disk, meta)
        await run.start()
        began = disk.operations
        if disk_fails_at:
            disk.fail_at(began + disk_fails_at, errno.ENOSPC)
        meta.begin(meta_fails_at, DiskFull("no space left"), after_doing=after_doing)
        await run.send_all()
        counted = disk.operations - began, meta.calls
        disk.heal()
        meta.begin(0)
        await run.check()
        return counted

    return alone(1, work, disk)


def test_the_disk_fails_at_each_operation(tmp_path: Path) -> None:
    with simulated():
        operations, _ = run(tmp_path)
        assert operations > 20
        for number in range(1, operations + 1):
            run(tmp_path, disk_fails_at=number)


@pytest.mark.parametrize("after_doing", [False, True])
def test_the_metadata_fails_at_each_call(tmp_path: Path, after_doing: bool) -> None:
    """`after_doing`: the outcome is unknown: it was stored, and the error was told all the same."""
    with simulated():
        _, calls = run(tmp_path)
        assert calls > 10
        for number in range(1, calls + 1):
            run(tmp_path, meta_fails_at=number, after_doing=after_doing)


def full_from(folder: Path, number: int) -> bool:
    """The disk is full from that operation on, until producers were refused three times. Whether they were at all."""
    disk = FakeDisk()

    async def work() -> int:
        run = Run(folder, disk, FaultyMetaStore(MemoryMetaStore()))
        await run.start()
        full_at, refused = disk.operations + number, 0

        def fill_up(kind: str, path: Path, at: int) -> bool:
            if at == full_at:
                disk.capacity_bytes -= disk.free()
            return False

        async def refuse() -> None:
            nonlocal refused
            refused += 1
            if refused == 3:
                disk.capacity_bytes = 1 << 30
                await eventually(lambda: not run.store.log.allocator.full)

        disk.fail(fill_up, surely=False)
        run.on_refused = refuse
        await run.send_all()
        assert disk.operations >= full_at, "it was full before all was sent"
        disk.capacity_bytes = 1 << 30
        await run.check()
        return refused

    return alone(1, work, disk) > 0


def test_the_disk_is_full_from_each_operation_on_until_producers_were_refused_a_few_times(tmp_path: Path) -> None:
    with simulated():
        operations, _ = run(tmp_path)
        assert sum(full_from(tmp_path, number) for number in range(1, operations + 1)) > 10, "or this proves nothing"


async def rolling_over_memory(folder: Path) -> tuple[Broker, FaultyLedgerStore]:
    ledgers = FaultyLedgerStore(MemoryLedgerStore())
    return await storage_broker(folder, ledgers, MemoryMetaStore(), limits=LedgerLimits(entries_max=1), deduplication=True), ledgers


async def test_a_roll_fails_after_the_last_receipt_and_the_next_message_is_sent_twice(tmp_path: Path) -> None:
    """The first was refused and counted as taken all the same, so that the second got the receipt of a duplicate."""
    service, ledgers = await rolling_over_memory(tmp_path)
    sender = await Sender.open(service)
    go_on = ledgers.delay("create")
    ledgers.fail_next("create", DiskFull("no space left"))
    await sender.send(0, 2)  # the topic goes on to another ledger
    topic = next(iter(service.topics))
    go_on.set()
    await eventually(lambda: topic.ledger.rolling is None)
    outcomes = await asyncio.gather(sender.send(2, 4), sender.send(2, 4), return_exceptions=True)
    assert all(isinstance(outcome, list) for outcome in outcomes), "the ledger that is there takes them"
    assert sorted(await stored_numbers(service)) == [0, 1, 2, 3]
    await service.stop()


async def test_a_refused_message_is_no_duplicate_whenever_it_is_sent_again(tmp_path: Path) -> None:
    service, ledgers = await rolling_over_memory(tmp_path)
    sender = await Sender.open(service)
    await sender.send(0, 1)
    ledgers.hold()
    ledgers.fail_appends(DiskFull("no space left"))
    again: list[asyncio.Future[list[MessagePosition]]] = []
    first = sender.send(1, 2)
    first.add_done_callback(lambda _: again.append(sender.send(1, 2)))
    second = sender.send(1, 2)  # before the first was refused
    ledgers.release()
    outcomes = [*await asyncio.gather(first, second, return_exceptions=True), *await asyncio.gather(*again, return_exceptions=True)]
    assert len(outcomes) == 3 and not any(isinstance(outcome, list) for outcome in outcomes)
    ledgers.heal()

    async def accepted() -> bool:
        try:
            return bool(await (await Sender.open(service)).send(1, 2))
        except MagnetarError:
            return False

    await eventually(accepted)
    assert sorted(await stored_numbers(service)) == [0, 1]
    await service.stop()
