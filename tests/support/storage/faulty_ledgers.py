"""A ledger store that misbehaves on demand, around any real one: for tests of what stands above the interface.

store = FaultyLedgerStore(MemoryLedgerStore())
store.hold()                     appends are written, their `done` is kept back until `release()`
store.fail_appends(error)        appends from now on are not written; `done` gets the error
store.lose_outcomes(error)       appends from now on are written; `done` gets the error all the same (an unknown outcome)
store.fence()                    a newer owner appeared: everything raises `Fenced`, pending appends get it too
store.damage(7, 3)               the block that holds entry 3 of ledger 7 does not match its checksum any more
store.garble(7, 3)               the header of that block is not one of ours; its checksum is right
store.fail_next("seal", error)   the next call of that name raises; `unknown=True`: after having done its work
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable
from typing import TypeVar

from messaging.storage.ledger_store import (
    AppendFailed,
    Block,
    Buffer,
    Corrupt,
    Done,
    Fence,
    Fenced,
    LedgerClosed,
    LedgerInfo,
    LedgerReader,
    LedgerStore,
    LedgerWriter,
    StoreError,
    StoreStatistics,
)
from tests.support.storage.faults import Fault

T = TypeVar("T")


class FaultyLedgerStore:
    """`surely`: every fault that is asked for must fire before the test ends."""

    def __init__(self, store: LedgerStore, *, surely: bool = True) -> None:
        self.entry_bytes_max = store.entry_bytes_max
        self.read_bytes = store.read_bytes
        self.failed: StoreError | None = None
        self.calls: list[str] = []
        self.damaged: set[tuple[int, int]] = set()
        self.garbled: set[tuple[int, int]] = set()
        self.store = store
        self.held: list[Callable[[], None]] | None = None  # answers kept back
        self._fail: StoreError | None = None
        self._lose: StoreError | None = None
        self._fenced = False
        self._next: dict[str, tuple[StoreError, bool]] = {}
        self._gates: dict[str, asyncio.Event] = {}
        self._surely = surely
        self._faults: dict[str, Fault] = {}  # the last one of each kind

    # Faults

    def hold(self) -> None:
        """Keeps back every `done` from now on."""
        if self.held is None:
            self.held = []

    def release(self) -> None:
        """Calls what was kept back, in order, on the next turn of the loop."""
        calls, self.held = self.held or [], None
        loop = asyncio.get_running_loop()
        for call in calls:
            loop.call_soon(call)

    @property
    def kept_back(self) -> int:
        """How many `done` wait for `release`."""
        return len(self.held or ())

    def fail_appends(self, error: StoreError | None = None) -> None:
        self._fail = error or AppendFailed("injected: not written")
        self._ask("appends fail")

    def lose_outcomes(self, error: StoreError | None = None) -> None:
        self._lose = error or AppendFailed("injected: the outcome is unknown")
        self._ask("outcomes are lost")

    def stop_failing(self) -> None:
        """Appends from now on are written and answered again."""
        self._fail = None

    def heal(self) -> None:
        """New ledgers work again. Writers that met a failure stay closed (G1)."""
        self._fail = self._lose = None
        self._next.clear()
        for gate in self._gates.values():
            gate.set()
        self._gates.clear()

    def fence(self) -> None:
        self._fenced = True
        self._ask("fenced")

    def damage(self, ledger_id: int, entry_id: int) -> None:
        self.damaged.add((ledger_id, entry_id))
        self._ask(f"damage of {ledger_id}:{entry_id}")

    def garble(self, ledger_id: int, entry_id: int) -> None:
        self.garbled.add((ledger_id, entry_id))
        self._ask(f"garbling of {ledger_id}:{entry_id}")

    def fail_next(self, call: str, error: StoreError, *, unknown: bool = False) -> None:
        self._next[call] = (error, unknown)
        self._ask(f"{call} fails")

    def delay(self, call: str) -> asyncio.Event:
        """Calls of that name wait until the returned event is set."""
        self._ask(f"{call} waits")
        return self._gates.setdefault(call, asyncio.Event())

    def _ask(self, name: str) -> None:
        self._faults[name] = Fault(name, surely=self._surely)

    def fired(self, name: str) -> None:
        if name in self._faults:
            self._faults[name].fire()

    # The interface

    @property
    def epoch(self) -> int:
        return self.store.epoch

    async def start(self) -> None:
        await self.store.start()

    async def take_over(self, fence: Fence) -> None:
        await self.call("take_over", lambda: self.store.take_over(fence))

    async def stop(self) -> None:
        self.release()
        await self.store.stop()

    async def create(self, fence: Fence, ledger_id: int, properties: dict[str, str]) -> FaultyLedgerWriter:
        return await self.call("create", lambda: self._create(fence, ledger_id, properties))

    async def _create(self, fence: Fence, ledger_id: int, properties: dict[str, str]) -> FaultyLedgerWriter:
        return FaultyLedgerWriter(self, await self.store.create(fence, ledger_id, properties))

    async def seal(self, fence: Fence, ledger_id: int) -> LedgerInfo:
        return await self.call("seal", lambda: self.store.seal(fence, ledger_id))

    async def open(self, ledger_id: int) -> LedgerReader:
        reader = await self.call("open", lambda: self.store.open(ledger_id))
        return FaultyLedgerReader(self, reader)

    def forecast(self, ledger_id: int, first: int, *, entries_max: int, bytes_max: int) -> int | Awaitable[int]:
        return self.store.forecast(ledger_id, first, entries_max=entries_max, bytes_max=bytes_max)

    async def delete(self, fence: Fence, ledger_id: int) -> None:
        await self.call("delete", lambda: self.store.delete(fence, ledger_id))

    async def info(self, ledger_id: int) -> LedgerInfo:
        return await self.call("info", lambda: self.store.info(ledger_id))

    async def ledgers(self) -> list[LedgerInfo]:
        return await self.call("ledgers", self.store.ledgers)

    async def ledger_ids(self, scope: str) -> list[int]:
        return await self.call("ledger_ids", lambda: self.store.ledger_ids(scope))

    def statistics(self) -> StoreStatistics:
        return self.store.statistics()

    async def call(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        self.calls.append(name)
        gate = self._gates.get(name)
        if gate is not None:
            self.fired(f"{name} waits")
            await gate.wait()
        if self._fenced and name in ("create", "seal", "delete"):
            self.fired("fenced")
            raise Fenced("injected: a newer owner")
        error, unknown = self._next.pop(name, (None, False))
        if error is not None:
            self.fired(f"{name} fails")
        if error is not None and not unknown:
            raise error
        result = await work()
        if error is not None:
            raise error
        return result

    # From the writers

    def outcome(self) -> tuple[StoreError | None, bool]:
        """(what an append is told instead of the truth, whether it is written)."""
        if self._fenced:
            self.fired("fenced")
            return Fenced("injected: a newer owner"), False
        if self._fail is not None:
            return self._fail, False
        return self._lose, True

    def tell(self, call: Callable[[], None]) -> None:
        if self.held is not None:
            self.held.append(call)
        else:
            call()


class FaultyLedgerWriter:
    """Keeps its own counters: what is confirmed is what was told."""

    def __init__(self, store: FaultyLedgerStore, writer: LedgerWriter) -> None:
        self.ledger_id = writer.ledger_id
        self.last_confirmed = -1
        self.next_entry = 0
        self.length_bytes = 0
        self.pending_bytes = 0
        self.store = store
        self._writer = writer
        self._broken: StoreError | None = None

    def append(self, header: bytes, data: Buffer, end_offsets: array[int], done: Done) -> int:
        error, written = self.store.outcome()
        if isinstance(error, Fenced):
            raise error
        if error is not None:
            self.store.fired("outcomes are lost" if written else "appends fail")
        if self._broken is not None:
            raise LedgerClosed(f"an earlier append failed: {self._broken}", self.ledger_id)
        first, size = self.next_entry, len(data)
        last = first + len(end_offsets) - 1

        def told(outcome: StoreError | None) -> None:
            fenced, _ = self.store.outcome()
            if isinstance(fenced, Fenced):
                outcome = fenced  # G4
            elif outcome is None:
                outcome = error or self._broken
            self.pending_bytes -= size
            if outcome is None:
                self.last_confirmed = last
            else:
                self._broken = self._broken or outcome
            done(outcome)

        if written:
            self._writer.append(header, data, end_offsets, lambda outcome: self.store.tell(lambda: told(outcome)))
        else:
            asyncio.get_running_loop().call_soon(lambda: self.store.tell(lambda: told(error)))
        self.next_entry = last + 1
        self.length_bytes += size
        self.pending_bytes += size
        return first

    def skip_to(self, entry_id: int) -> None:
        self._writer.skip_to(entry_id)
        self.next_entry = entry_id

    async def close(self) -> LedgerInfo:
        error, _ = self.store.outcome()
        if isinstance(error, Fenced):
            raise error
        return await self._writer.close()


class FaultyLedgerReader:
    def __init__(self, store: FaultyLedgerStore, reader: LedgerReader) -> None:
        self.ledger_id = reader.ledger_id
        self.store = store
        self._reader = reader

    async def read(self, first: int, *, entries_max: int, bytes_max: int) -> list[Block]:
        blocks = await self.store.call("read", lambda: self._reader.read(first, entries_max=entries_max, bytes_max=bytes_max))
        for index, block in enumerate(blocks):
            damaged = [
                place
                for place in self.store.damaged
                if place[0] == block.ledger_id and block.first_entry <= place[1] <= block.last_entry
            ]
            for ledger_id, entry_id in damaged:
                self.store.fired(f"damage of {ledger_id}:{entry_id}")
            if damaged:
                if not index:
                    raise Corrupt("injected: does not match its checksum", block.ledger_id, first)
                return blocks[:index]
        return [self._garbled(block) for block in blocks] if self.store.garbled else blocks

    def _garbled(self, block: Block) -> Block:
        for ledger_id, entry_id in self.store.garbled:
            if ledger_id == block.ledger_id and block.first_entry <= entry_id <= block.last_entry:
                self.store.fired(f"garbling of {ledger_id}:{entry_id}")
                return Block(block.ledger_id, block.first_entry, b"\xff", block.data, block.end_offsets)
        return block

    async def aclose(self) -> None:
        await self._reader.aclose()
