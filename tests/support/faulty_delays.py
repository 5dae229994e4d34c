"""A broker with delayed messages on a disk with faults."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.broker.runtime.topics.delayed import delivery as delayed_delivery
from messaging.broker.runtime.topics.delayed import index_jobs
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol.names import parse_topic
from messaging.storage.local import LocalConfig, LocalLedgerStore
from messaging.storage.local.format.segment import PAGE_BYTES
from messaging.storage.local.read import index
from messaging.storage.meta_store import DelayedRun
from tests.support.brokers.storage_broker import ADMIN, TOPIC, Inbox, Sender, storage_broker
from tests.support.clock import Clock, give
from tests.support.storage.away_meta import AwayMetaStore
from tests.support.storage.fake_disk import FakeDisk
from tests.support.waiting import eventually

DIRECTORY = Path("/log")
CONFIG = LocalConfig(segment_bytes=1 << 20, reserved_bytes=0)
SEALED = 4096  # their times take several pages of the disk
HOUR_MS = 3_600_000
OTHER = "persistent://acme/orders/other"

Page = tuple[str, int]


class Faulty:
    """A broker on a disk with faults, and the clocks that it goes by. A job that failed is tried again at once."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.disk, self.meta, self.clock = FakeDisk(), AwayMetaStore(), Clock()
        self.waited_s = 0.0  # for the disk
        self.service: Broker
        self._folder = folder
        self._inboxes: dict[str, Inbox] = {}
        monkeypatch.setattr(index, "monotonic", lambda: self.waited_s)
        monkeypatch.setattr(delayed_delivery, "RETRY_S", 0.02)
        monkeypatch.setattr(index_jobs, "RETRY_S", 0.02)

    async def start(self) -> None:
        store = LocalLedgerStore(DIRECTORY, CONFIG, disk=self.disk)
        self.service = await storage_broker(self._folder, store, self.meta)
        give(self.service, self.clock)
        self.service.sweep_memory()  # it has seen the clock
        self.service.topics.services.memory.delayed_seal_entries = SEALED

    async def kill_and_start(self) -> None:
        bad_pages = self.disk.bad_pages
        self.disk = self.disk.frozen()
        self.disk.bad_pages = bad_pages
        self._inboxes.clear()
        await self.start()

    async def publish(self, name: str, first: int, count: int) -> None:
        """Numbered messages, due within the second hour from now."""
        draw, sender = random.Random(first), await Sender.open(self.service, f"p{first}", name)
        for at in range(first, first + count, 256):
            made = [
                OutgoingMessage(b"%d" % number, deliver_at_ms=self.clock() + HOUR_MS + draw.randrange(1, HOUR_MS))
                for number in range(at, min(at + 256, first + count))
            ]
            await asyncio.wait_for(sender.send_messages(made), 10)
        sender.producer.close()

    async def topic(self, name: str = TOPIC) -> Topic:
        loaded: Topic = await self.service.topics.get(parse_topic(name), create=False)
        return loaded

    async def run_of(self, name: str = TOPIC) -> DelayedRun:
        topic = await self.topic(name)
        await eventually(lambda: bool(topic.ledger.record.delayed_runs))
        return topic.ledger.record.delayed_runs[0]

    async def stored(self, run: DelayedRun, entry: int) -> bytes:
        reader = await self.service.storage.ledgers.open(run.ledger_id)
        [block] = await reader.read(entry, entries_max=1, bytes_max=1 << 20)
        await reader.aclose()
        return bytes(block.data)

    async def page_of_a_block(self) -> Page:
        """A page of the disk that holds nothing but a part of a block of a run."""
        data = await self.stored(await self.run_of(), 0)
        for file in self.disk.names(DIRECTORY):
            at = bytes(self.disk.file(DIRECTORY / file)).find(data)
            if at >= 0:
                page = -(-at // PAGE_BYTES)
                assert (page + 1) * PAGE_BYTES <= at + len(data), "it is large enough"
                return file, page
        raise AssertionError("it is stored nowhere")

    async def consume(self, name: str = TOPIC) -> Inbox:
        inbox = self._inboxes[name] = Inbox()
        consumer = await LocalSessions(self.service).open_consumer(ADMIN, name, "s", "Shared", "earliest", True, None, inbox)
        consumer.flow(100_000)
        return inbox

    def pass_(self, time_ms: int) -> None:
        self.clock.pass_(time_ms)
        self.service.sweep_memory()

    @property
    def failures(self) -> int:
        return self.service.topics.services.loops.dispatching.failures

    @property
    def damage(self) -> dict[str, int]:
        return {what: count for what, count in self.service.storage.damage.items() if count}


def numbers(inbox: Inbox) -> list[int]:
    return sorted(int(message.payload) for message in inbox.messages)
