"""A random load on a ledger store that remembers what it was promised, and a check of those promises after a crash.

Every third ledger is sparse."""

from __future__ import annotations

import asyncio
from array import array
from dataclasses import dataclass, field
from random import Random

from messaging.storage.ledger_store import SPARSE, Fence, LedgerStore, LedgerWriter, NoSuchLedger, StoreError


def entry_bytes(ledger_id: int, entry_id: int) -> bytes:
    """What entry `entry_id` of a ledger holds in every test: its place, and a length that differs."""
    head = b"%d:%d|" % (ledger_id, entry_id)
    return head * (1 + (ledger_id * 31 + entry_id * 7) % 40)


def left_out(ledger_id: int, entry_id: int) -> int:
    """How many ids a block leaves out that could begin with `entry_id`."""
    return 0 if ledger_id % 3 else (ledger_id + entry_id * 7) % 5 * 1000


@dataclass
class Promise:
    """What the store confirmed about one ledger."""

    asked: int = 0  # the id after the last entry given to append
    confirmed: int = -1
    sealed_at: int | None = None
    deleting: bool = False
    deleted: bool = False
    created: bool = False


@dataclass
class Workload:
    random: Random
    promises: dict[int, Promise] = field(default_factory=dict)
    frozen: dict[int, Promise] | None = None
    delete_share: float = 0.03  # of the steps

    def freeze(self) -> None:
        """Remembers the promises made up to now: a power loss here may not break them."""
        self.frozen = {key: Promise(**vars(promise)) for key, promise in list(self.promises.items())}

    async def run(self, store: LedgerStore, fence: Fence, steps: int) -> None:
        """Ends early, without an error, when the store fails."""
        writers: dict[int, LedgerWriter] = {}
        next_id = max(self.promises, default=0) + 1
        for _ in range(steps):
            choice = self.random.random()
            try:
                if not writers or choice < 0.1:
                    promise = self.promises.setdefault(next_id, Promise())
                    properties = {"tenant": f"t{next_id % 3}"} if next_id % 3 else {"tenant": "t0", SPARSE: "yes"}
                    writers[next_id] = await store.create(fence, next_id, properties)
                    promise.created = True
                    next_id += 1
                elif choice < 0.14:
                    ledger_id = self.random.choice(sorted(writers))
                    info = await store.seal(fence, ledger_id)
                    del writers[ledger_id]
                    self.promises[ledger_id].sealed_at = info.last_entry
                elif choice < 0.14 + self.delete_share:
                    ledger_id = self.random.choice(sorted(self.promises))
                    writers.pop(ledger_id, None)
                    self.promises[ledger_id].deleting = True
                    await store.delete(fence, ledger_id)
                    self.promises[ledger_id].deleted = True
                elif choice < 0.22 + self.delete_share:
                    await asyncio.sleep(0)
                else:
                    self._append(writers[self.random.choice(sorted(writers))])
            except StoreError:
                return
        await asyncio.gather(*(writer.close() for writer in writers.values()), return_exceptions=True)

    def _append(self, writer: LedgerWriter) -> None:
        promise = self.promises[writer.ledger_id]
        skipped = left_out(writer.ledger_id, promise.asked)
        if skipped:
            promise.asked += skipped
            writer.skip_to(promise.asked)
        payloads = [entry_bytes(writer.ledger_id, promise.asked + index) for index in range(self.random.randint(1, 8))]
        end_offsets = array("I")
        for payload in payloads:
            end_offsets.append(len(payload) + (end_offsets[-1] if end_offsets else 0))
        last = promise.asked + len(payloads) - 1

        def done(error: StoreError | None) -> None:
            if error is None:
                assert promise.confirmed < last, "confirmed out of order"
                promise.confirmed = last

        writer.append(b"header %d" % promise.asked, b"".join(payloads), end_offsets, done)
        promise.asked += len(payloads)


async def check(store: LedgerStore, fence: Fence, promises: dict[int, Promise]) -> None:
    """Everything promised holds; nothing is there that was never appended; entries read back whole and in order."""
    existing = {info.ledger_id for info in await store.ledgers()}
    for ledger_id, promise in promises.items():
        if promise.deleted:
            assert ledger_id not in existing, f"ledger {ledger_id} came back"
        elif promise.created and not promise.deleting:
            assert ledger_id in existing, f"ledger {ledger_id} was lost"
    for ledger_id in existing:
        promise = promises.get(ledger_id, Promise(asked=1 << 30))
        before = await store.info(ledger_id)
        info = await store.seal(fence, ledger_id)
        assert info.last_entry == before.last_entry
        assert promise.confirmed <= info.last_entry < max(promise.asked, 1), (ledger_id, promise, info)
        if promise.sealed_at is not None:
            assert before.sealed, f"ledger {ledger_id} is open again"
            assert info.last_entry == promise.sealed_at, (ledger_id, promise, info)
        await read_back(store, ledger_id, info.last_entry, info.length_bytes)


async def read_back(store: LedgerStore, ledger_id: int, last_entry: int, length_bytes: int) -> None:
    try:
        reader = await store.open(ledger_id)
    except NoSuchLedger:
        return
    entry, length = 0, 0
    while entry <= last_entry:
        for block in await reader.read(entry, entries_max=100, bytes_max=20_000):
            entry += left_out(ledger_id, entry)
            assert block.first_entry == entry and block.header == b"header %d" % entry
            begin = 0
            for stop in block.end_offsets:
                assert bytes(block.data[begin:stop]) == entry_bytes(ledger_id, entry)
                begin = stop
                entry += 1
            length += len(block.data)
    assert entry == last_entry + 1
    assert length == length_bytes
    await reader.aclose()
