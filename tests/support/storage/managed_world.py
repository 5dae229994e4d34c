"""A topic's storage in memory: a managed ledger, the stores below it, and a clock that a test moves."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace

from messaging.storage.ledger_store import WHOLE, Position, StoreError
from messaging.storage.managed.ledger import ManagedLedger, Storage
from messaging.storage.managed.owned_range import OwnedRange
from messaging.storage.managed.pending_append import PendingAppend
from messaging.storage.managed.retention import LedgerLimits
from messaging.storage.meta_store import TopicRecord
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore

NAME = "persistent://a/b/t"


class TenantRef(PendingAppend):
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
    surely: bool = True  # every fault that is asked for must happen

    async def start(self) -> World:
        self.store = FaultyLedgerStore(self.memory, surely=self.surely)
        self.storage = Storage(
            self.store,
            self.meta,
            await self._take_over(),
            lambda: self.now_ms,
            LedgerLimits(self.entries_max, self.bytes_max, self.age_max_ms, self.consumed_age_max_ms),
        )
        await self.open()
        return self

    async def _take_over(self) -> OwnedRange:
        """Takes no ledger id, so that ledgers are numbered from 1."""
        await self.store.start()
        fence = await self.meta.acquire(WHOLE, after=self.store.epoch - 1)
        await self.store.take_over(fence)
        return OwnedRange(fence, self.meta.newest_ledger_id + 1)

    async def open(self) -> ManagedLedger:
        record = await self.meta.get_topic(NAME) or await self.meta.cas_topic(self.storage.fence, TopicRecord(NAME))
        self.ledger = await ManagedLedger.open(self.storage, record, {"tenant": "a"})
        return self.ledger

    async def crash(self) -> World:
        """The owner is gone; another opens what is there."""
        after = replace(self, memory=MemoryLedgerStore(self.memory), outcomes=[])
        return await after.start()

    def append(self, *entries: bytes) -> Position:
        """One block, named by its first entry in `outcomes`."""
        end_offsets, total = array("I"), 0
        for entry in entries:
            total += len(entry)
            end_offsets.append(total)
        name = entries[0].decode()
        self.ledger.stamp()
        return self.ledger.append(b"header", b"".join(entries), end_offsets, TenantRef(name, self.outcomes))

    async def read_all(self) -> list[tuple[Position, bytes]]:
        """Every entry that a reader from the beginning comes by."""
        ledger_list, entries = self.ledger.ledger_list, []
        position = ledger_list.resolve(ledger_list.first)
        while ledger_list.holds(position):
            blocks = await self.ledger.read(position, entries_max=100, bytes_max=1 << 20)
            assert blocks
            for block in blocks:
                start = 0
                for index, stop in enumerate(block.end_offsets):
                    place = Position(block.ledger_id, block.first_entry + index)
                    if place >= position and ledger_list.holds(place):
                        entries.append((place, bytes(block.data[start:stop])))
                    start = stop
            position = ledger_list.next_after(entries[-1][0])
        return entries
