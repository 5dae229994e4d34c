"""A topic's storage in memory: a managed ledger, the stores below it, and a clock that a test moves."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace

from messaging.storage.faults import FaultyLedgerStore
from messaging.storage.managed_ledger import ManagedLedger, Storage
from messaging.storage.memory import MemoryLedgerStore, MemoryMetaStore
from messaging.storage.meta_seam import TopicRecord
from messaging.storage.offload import LedgerOffloader
from messaging.storage.pending import Pending
from messaging.storage.retention import Limits
from messaging.storage.seam import Position, StoreError

NAME = "persistent://a/b/t"


class Told(Pending):
    __slots__ = ("name", "outcomes")

    def __init__(self, name: str, outcomes: list[tuple[str, StoreError | None]]) -> None:
        self.name = name
        self.outcomes = outcomes

    def confirmed(self, error: StoreError | None) -> None:
        self.outcomes.append((self.name, error))


@dataclass
class World:
    memory: MemoryLedgerStore = field(default_factory=MemoryLedgerStore)
    meta: MemoryMetaStore = field(default_factory=MemoryMetaStore)
    now_ms: int = 1_000
    outcomes: list[tuple[str, StoreError | None]] = field(default_factory=list)
    entries_max: int = 1 << 30
    bytes_max: int = 1 << 30
    age_max_ms: int = 1 << 40
    consumed_age_max_ms: int = 1 << 40
    offloader: LedgerOffloader | None = None

    async def start(self) -> World:
        self.store = FaultyLedgerStore(self.memory)
        fence = await self.store.start()
        self.storage = Storage(
            self.store,
            self.meta,
            fence,
            lambda: self.now_ms,
            Limits(self.entries_max, self.bytes_max, self.age_max_ms, self.consumed_age_max_ms),
            self.offloader,
        )
        await self.open()
        return self

    async def open(self) -> ManagedLedger:
        record = await self.meta.get_topic(NAME) or await self.meta.cas_topic(TopicRecord(NAME))
        self.ledger = await ManagedLedger.open(self.storage, record, {"tenant": "a"})
        return self.ledger

    async def crash(self) -> World:
        """The owner is gone; another opens what is there."""
        after = replace(self, memory=MemoryLedgerStore(self.memory), outcomes=[])
        return await after.start()

    def append(self, *entries: bytes) -> Position:
        """One block, named by its first entry in `outcomes`."""
        stops, total = array("I"), 0
        for entry in entries:
            total += len(entry)
            stops.append(total)
        name = entries[0].decode()
        self.ledger.stamp()
        return self.ledger.append(b"header", b"".join(entries), stops, Told(name, self.outcomes))

    async def read_all(self) -> list[tuple[Position, bytes]]:
        """Every entry that a reader from the beginning comes by."""
        chain, found = self.ledger.chain, []
        position = chain.resolve(chain.first)
        while chain.holds(position):
            blocks = await self.ledger.read(position, entries_max=100, bytes_max=1 << 20)
            assert blocks
            for block in blocks:
                start = 0
                for index, stop in enumerate(block.stops):
                    place = Position(block.ledger_id, block.first_entry + index)
                    if place >= position and chain.holds(place):
                        found.append((place, bytes(block.data[start:stop])))
                    start = stop
            position = chain.next_after(found[-1][0])
        return found
