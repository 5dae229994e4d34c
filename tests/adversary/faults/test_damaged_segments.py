"""A segment of the log whose header page is damaged, or all of it: topics open, and consumers get what is left and go on."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.format.segment import name_of, parse_name
from messaging.storage.managed.retention import LedgerLimits
from tests.support.brokers.storage_broker import ADMIN, TOPIC, Inbox, publish, storage_broker
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.memory_ledgers import MemoryMetaStore
from tests.support.waiting import eventually

DIRECTORY = Path("/log")
CONFIG = LocalConfig(segment_bytes=64 << 10, reserved_bytes=0)
MESSAGES = 40


async def opened(folder: Path, disk: FakeDisk, meta: MemoryMetaStore) -> Broker:
    store = LocalLedgerStore(DIRECTORY, CONFIG, disk=disk)
    return await storage_broker(folder, store, meta, limits=LedgerLimits(entries_max=15))


async def filled(folder: Path) -> tuple[FakeDisk, MemoryMetaStore]:
    """What a killed broker left: several segments and ledgers, and a subscription that has everything to come."""
    disk, meta = FakeDisk(), MemoryMetaStore()
    service = await opened(folder, disk, meta)
    (await LocalSessions(service).open_consumer(ADMIN, TOPIC, "s", "Shared", "earliest", True, None, Inbox())).close()
    for number in range(MESSAGES):
        await publish(service, number, number + 1, size=5_000)
    return disk.frozen(), deepcopy(meta)


def segments(disk: FakeDisk) -> list[int]:
    return [parsed.number for name in disk.names(DIRECTORY) if (parsed := parse_name(name))]


async def delivered(service: Broker, last: int) -> list[int]:
    inbox = Inbox()
    consumer = await LocalSessions(service).open_consumer(ADMIN, TOPIC, "s", "Shared", "earliest", True, None, inbox)
    consumer.flow(1_000)
    await eventually(lambda: last in numbers(inbox))
    return numbers(inbox)


def numbers(inbox: Inbox) -> list[int]:
    return [int(message.payload.rstrip(b".")) for message in inbox.messages]


async def test_a_damaged_header_page_costs_no_message(tmp_path: Path) -> None:
    """All topics whose ledgers began in that segment could not be opened any more."""
    left, meta = await filled(tmp_path)
    assert len(segments(left)) >= 4
    for number in segments(left):
        disk = left.frozen()
        disk.file(DIRECTORY / name_of(number, 0))[9] ^= 1
        service = await opened(tmp_path, disk, deepcopy(meta))
        assert await delivered(service, MESSAGES - 1) == list(range(MESSAGES))
        await publish(service, MESSAGES, MESSAGES + 1)
        await service.stop()


@pytest.mark.parametrize("which", [0, 1, -2])
async def test_a_segment_that_is_gone_costs_what_stood_in_it(tmp_path: Path, which: int) -> None:
    """Readers tried again for ever, and never passed on to what came after it."""
    disk, meta = await filled(tmp_path)
    content = disk.file(DIRECTORY / name_of(segments(disk)[which], 0))
    content[:] = bytes(len(content))
    service = await opened(tmp_path, disk, meta)
    await publish(service, MESSAGES, MESSAGES + 1)
    numbers = await delivered(service, MESSAGES)
    assert numbers == sorted(numbers) and len(numbers) >= MESSAGES // 2, "in order, and not less than must be"
    assert service.storage.damage["delivery"] > 0
    await service.stop()
