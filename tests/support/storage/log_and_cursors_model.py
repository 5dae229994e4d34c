"""A topic's log and its subscriptions' cursors over stores in memory, and the model of both, for tests in random order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis.stateful import RuleBasedStateMachine

from messaging.broker.core.cursors.cursor import Cursor
from messaging.clock import ExpiryClock
from messaging.storage.block_header import decode
from messaging.storage.ledger_store import EARLIEST, Position, StoreError
from messaging.storage.managed.cursor_log import CursorLog
from messaging.storage.managed.ledger import ManagedLedger, Storage
from messaging.storage.managed.pending_append import PendingAppend
from messaging.storage.managed.retention import LedgerLimits
from tests.support.storage.faulty_ledgers import FaultyLedgerStore
from tests.support.storage.memory_ledgers import MemoryLedgerStore, MemoryMetaStore
from tests.support.storage.owning import owned

NAME = "persistent://a/b/t"
HOUR_MS = 3_600_000
LIMITS = LedgerLimits(entries_max=7, bytes_max=1 << 20, age_max_ms=4 * HOUR_MS, consumed_age_max_ms=HOUR_MS // 6)
SUBSCRIPTIONS = ("one", "two")


class Block(PendingAppend):
    __slots__ = ("outcome",)

    def __init__(self, outcome: asyncio.Future[StoreError | None]) -> None:
        self.outcome = outcome

    def confirmed(self, error: StoreError | None) -> None:
        self.outcome.set_result(error)


@dataclass
class Entry:
    data: bytes
    stamped_ms: int


class LogAndCursorsModel(RuleBasedStateMachine):
    """What is stored, what must be stored, and the steps that rules are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.memory = MemoryLedgerStore()
        self.meta = MemoryMetaStore()
        self.wall_ms = 1_700_000_000_000
        self.boottime_ms = 0
        self.number = 0
        self.entries: dict[Position, Entry] = {}  # what must be stored, oldest first
        self.last = EARLIEST  # the highest id ever given
        self.acknowledged: dict[str, set[Position]] = {name: set() for name in SUBSCRIPTIONS}
        self.ids: dict[str, int] = {}

    def run(self, work: object) -> object:
        return self.loop.run_until_complete(work)  # type: ignore[arg-type]

    def teardown(self) -> None:
        if hasattr(self, "cursor_log"):
            self.run(self.cursor_log.stop())
        self.loop.close()

    async def open_store(self) -> None:
        self.store = FaultyLedgerStore(self.memory)
        clock = ExpiryClock(lambda: self.wall_ms, lambda: self.boottime_ms)
        self.storage = Storage(
            self.store, self.meta, await owned(self.store, self.meta), lambda: self.wall_ms, LIMITS, expiry_clock=clock
        )
        self.cursor_log = CursorLog(self.storage, checkpoint_bytes=400, retry_s=0.0)
        self.cursors: dict[str, Cursor] = {}
        await self.cursor_log.start()

    async def open_topic(self) -> None:
        record = await self.meta.get_topic(NAME)
        assert record is not None
        self.ledger = await ManagedLedger.open(self.storage, record, {"tenant": "a"})
        for stored in await self.meta.subscriptions(NAME):
            cursor = Cursor.restore(stored.mark_delete, stored.state)
            for delta in self.cursor_log.recovered_deltas(stored.subscription_id):
                cursor.apply(delta, self.ledger.ledger_list)
            self.cursors[stored.name] = cursor
            self.cursor_log.claim(stored.subscription_id, cursor)

    async def close_topic(self) -> None:
        await self.ledger.close()
        await self.cursor_log.release(list(self.ids.values()))
        self.cursors = {}

    async def stored(self, name: str, delta: bytes) -> StoreError | None:
        if not delta:
            return None
        done: asyncio.Future[StoreError | None] = self.loop.create_future()
        self.cursor_log.append(self.ids[name], delta, done.set_result)
        return await done

    def forget(self) -> None:
        """The model lets go of what the log dropped: always the oldest, and whole ledgers."""
        ledger_list = self.ledger.ledger_list
        kept = [position for position in self.entries if ledger_list.holds(position)]
        gone = [position for position in self.entries if not ledger_list.holds(position)]
        assert not gone or not kept or (max(gone) < min(kept) and max(gone).ledger_id < min(kept).ledger_id)
        for position in gone:
            del self.entries[position]

    async def read_all(self) -> list[tuple[Position, bytes, int]]:
        ledger_list, entries = self.ledger.ledger_list, []
        position = ledger_list.resolve(ledger_list.first)
        while ledger_list.holds(position):
            for block in await self.ledger.read(position, entries_max=5, bytes_max=100):
                start = 0
                for index, stop in enumerate(block.end_offsets):
                    place = Position(block.ledger_id, block.first_entry + index)
                    if place >= position and ledger_list.holds(place):
                        entries.append((place, bytes(block.data[start:stop]), decode(block.header).broker_time_ms))
                    start = stop
            position = ledger_list.resolve(ledger_list.next_after(entries[-1][0]))
        return entries
