"""A broker that is killed, or loses its power, before or after any operation of its stores, while delayed messages are cancelled
and rescheduled and ledgers in the middle are deleted.

Whatever the moment, for each subscription and one that is created afterwards: what was confirmed as cancelled never comes, what was
confirmed as rescheduled comes at its new time, what was acknowledged does not come back, everything else comes once, and no ledger
is gone that is needed.
"""

from __future__ import annotations

import copy
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

import pytest

from messaging.adminrpc.maintenance import MaintenanceRun
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.consumer import LocalConsumer
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.topics.delayed.changes import DelayedChanges
from messaging.broker.runtime.topics.persistent import persistent
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import Fence, Position
from messaging.storage.local import LocalLedgerStore
from messaging.storage.managed.orphans import collect_orphans
from messaging.storage.meta_store import TopicRecord
from tests.support.brokers.storage_broker import ADMIN, TOPIC, Inbox, Sender, storage_broker
from tests.support.clock import Clock, give
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.memory_meta import MemoryMetaStore
from tests.support.storage.storage_lives import CONFIG, DIRECTORY, DISK_BYTES
from tests.support.waiting import eventually

T = TypeVar("T")

pytestmark = pytest.mark.asyncio

MINUTE_MS = 60_000
DUE = 60  # minutes after the start, for what is delayed
STAGES = (0, 10, 60, 120)  # minutes at which something may come
IMAGES = 5  # kills of one seed
OPERATIONS = 40  # of a life, at least


class CountingMeta(MemoryMetaStore):
    """Tells of each change, before and after it."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[MomentTaker] = []

    def tell(self) -> None:
        for one in self.told:
            one.operation()

    async def cas_topic(self, fence: Fence, record: TopicRecord) -> TopicRecord:
        self.tell()
        made = await super().cas_topic(fence, record)
        self.tell()
        return made

    async def put_value(self, fence: Fence, key: str, value: bytes) -> None:
        self.tell()
        await super().put_value(fence, key, value)
        self.tell()

    async def delete_value(self, fence: Fence, key: str) -> None:
        self.tell()
        await super().delete_value(fence, key)
        self.tell()


class Promises:
    """What was confirmed of numbered messages. `times`: minutes after the start; `changing`: those that are possible while a
    change is under way."""

    def __init__(self) -> None:
        self.positions: dict[int, Position] = {}
        self.times: dict[int, int] = {}
        self.cancelled: set[int] = set()
        self.changing: dict[int, list[int]] = {}
        self.acked: dict[str, set[int]] = {"a": set(), "b": set()}
        self.acking: dict[str, set[int]] = {"a": set(), "b": set()}

    def may_come(self, number: int, subscription: str) -> list[int]:
        """The minutes at which it may come; empty: never."""
        if number in self.cancelled or number in self.acked.get(subscription, ()):
            return []
        return self.changing.get(number, [self.times[number]])

    def must_come(self, number: int, subscription: str) -> bool:
        open_ = number in self.changing or number in self.acking.get(subscription, ())
        return not open_ and bool(self.may_come(number, subscription))


class Image(NamedTuple):
    disk: FakeDisk
    meta: CountingMeta
    promises: Promises


class MomentTaker:
    """Takes an image at the operations of these numbers."""

    def __init__(self, disk: FakeDisk, meta: CountingMeta, promises: Promises, numbers: set[int]) -> None:
        self.disk, self.meta, self.promises, self.numbers = disk, meta, promises, numbers
        self.operations = 0
        self.images: list[Image] = []

    def operation(self) -> None:
        self.operations += 1
        if self.operations in self.numbers:
            told, self.meta.told = self.meta.told, []
            self.images.append(Image(self.disk.frozen(), _copied(self.meta), _copied(self.promises)))
            self.meta.told = told

    def of_disk(self) -> None:
        self.disk.image = None
        self.disk.image_at += 1
        self.operation()


def _copied(one: T) -> T:
    while True:
        try:
            return copy.deepcopy(one)
        except RuntimeError:  # changed by another thread meanwhile
            continue


async def opened(service: Broker, name: str) -> tuple[LocalConsumer, Inbox]:
    inbox = Inbox()
    consumer = await LocalSessions(service).open_consumer(ADMIN, TOPIC, name, "Shared", "earliest", True, None, inbox)
    consumer.flow(1_000)
    return consumer, inbox


class Life:
    """The broker before it is killed."""

    def __init__(self, service: Broker, promises: Promises, start_ms: int) -> None:
        self.service, self.promises, self.start_ms = service, promises, start_ms
        self.consumers: dict[str, tuple[LocalConsumer, Inbox]] = {}

    async def topic(self) -> Topic:
        return await self.service.topics.get(parse_topic(TOPIC), create=True)

    async def publish(self, *minutes: int) -> None:
        sender, promises = await Sender.open(self.service), self.promises
        for at in minutes:
            number = len(promises.times)
            deliver_at_ms = self.start_ms + at * MINUTE_MS if at else 0
            promises.times[number], promises.changing[number] = at, [at]  # it may be there and may not
            [position] = await sender.send_messages([OutgoingMessage(b"%d" % number, deliver_at_ms=deliver_at_ms)])
            promises.positions[number] = Position(position.ledger_id, position.entry_id)
            del promises.changing[number]
        sender.producer.close()

    async def roll(self) -> None:
        topic = await self.topic()
        await topic.ledger.roll()
        await topic.ledger.writable()

    async def ack(self, name: str, *numbers: int) -> None:
        consumer, inbox = self.consumers[name]
        await eventually(lambda: {int(one.payload) for one in inbox.messages} >= set(numbers))
        self.promises.acking[name] |= set(numbers)
        await consumer.ack([one.position for one in inbox.messages if int(one.payload) in numbers])
        self.promises.acked[name] |= set(numbers)

    async def change(self, number: int, minute: int | None) -> None:
        promises = self.promises
        former = promises.times[number]
        promises.changing[number] = [former] if minute is None else [former, minute]
        at_ms = None if minute is None else self.start_ms + minute * MINUTE_MS
        await DelayedChanges(persistent(await self.topic())).change(promises.positions[number], -1, at_ms)
        if minute is None:
            promises.cancelled.add(number)
        else:
            promises.times[number] = minute
        del promises.changing[number]

    async def upkeep(self) -> int:
        result = await AdminHandlers(self.service).maintenance.run(MaintenanceRun(task_id="1", topics=[TOPIC]))
        assert not result.failed
        return result.trimmed_ledgers


async def broker_on(folder: Path, disk: FakeDisk, meta: CountingMeta, clock: Clock) -> Broker:
    service = await storage_broker(folder, LocalLedgerStore(DIRECTORY, CONFIG, disk=disk), meta)
    give(service, clock)
    service.sweep_memory()
    return service


async def lived(folder: Path, random: Random, numbers: set[int]) -> MomentTaker:
    """A life with images at these operations."""
    disk, meta, promises, clock = FakeDisk(DISK_BYTES), CountingMeta(), Promises(), Clock()
    taker, service = MomentTaker(disk, meta, promises, numbers), await broker_on(folder, disk, meta, clock)
    life = Life(service, promises, clock())
    await life.publish(*[DUE] * 6)
    life.consumers = {name: await opened(service, name) for name in ("a", "b")}
    for _ in range(3):  # 6..9, 10..13, 14..17: each the last is delayed
        await life.roll()
        await life.publish(0, 0, 0, DUE)
    await life.ack("a", *range(6, 9), *range(10, 13), *range(14, 17))
    await life.ack("b", *range(6, 9), 10, 12, 14)  # only b needs the ledger of 11
    disk.on_image, disk.image_at = taker.of_disk, disk.operations + 1
    meta.told = [taker]
    clock.pass_(1)
    changes = [(0, None), (1, 120), (2, 10), (9, None), (13, None)]
    random.shuffle(changes)
    for number, minute in changes:
        await life.change(number, minute)
        if random.random() < 0.3:
            await life.upkeep()
    trimmed = await life.upkeep()
    await life.change(1, 10)
    await life.upkeep()
    await life.ack("b", 11, 15, 16)
    await life.change(17, None)
    await life.roll()
    await life.publish(0, DUE)
    await life.ack("a", 18)
    trimmed += await life.upkeep()
    await life.change(19, 120)
    await life.change(2, None)
    assert len((await life.topic()).ledger_list.ids) <= 3, trimmed
    disk.image_at, meta.told = 0, []
    await service.stop()
    return taker


async def check(folder: Path, image: Image) -> None:
    promises, clock = image.promises, Clock()
    start_ms = clock()
    service = await broker_on(folder, image.disk, image.meta, clock)
    topic: Topic = await service.topics.get(parse_topic(TOPIC), create=False)
    kept = set(topic.ledger_list.ids)
    inboxes = {name: (await opened(service, name))[1] for name in ("a", "b", "late")}
    came: dict[str, dict[int, list[int]]] = {name: {} for name in inboxes}
    for minute in STAGES:
        clock.pass_(start_ms + minute * MINUTE_MS - clock())
        service.sweep_memory()
        for name, inbox in inboxes.items():
            wanted = {
                number
                for number, position in promises.positions.items()
                if promises.must_come(number, name)
                and number not in came[name]
                and promises.times[number] <= minute
                and not (name == "late" and position.ledger_id not in kept)
            }
            await eventually(lambda inbox=inbox, wanted=wanted: {int(one.payload) for one in inbox.messages} >= wanted)  # type: ignore[misc]
        await eventually(lambda: all(topic.subscriptions.table[name].next_due() is None for name in inboxes))
        for name, inbox in inboxes.items():
            for one in inbox.messages:
                came[name].setdefault(int(one.payload), []).append(minute)
            inbox.messages.clear()
    for name, found in came.items():
        for number, minutes in found.items():
            assert len(minutes) == 1 and minutes[0] in promises.may_come(number, name), (name, number, minutes)
    for number, position in promises.positions.items():
        if position.ledger_id not in kept:
            assert all(not promises.must_come(number, name) for name in ("a", "b")), number
    await collect_orphans(service.storage)
    await service.stop()


@pytest.mark.parametrize("seed", range(2))
async def test_a_kill_at_any_operation_keeps_every_promise(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    taker = await lived(tmp_path, random, set(random.sample(range(1, OPERATIONS), IMAGES)))
    assert len(taker.images) == IMAGES and taker.operations >= OPERATIONS, taker.operations
    for number, image in enumerate(taker.images):
        disk = image.disk if number % 2 else image.disk.power_loss(random)
        await check(tmp_path, image._replace(disk=disk))
