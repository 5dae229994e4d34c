"""The local store against a model, in random order: create, append, read, seal, delete, stop and start, kill, lose power."""

from __future__ import annotations

import asyncio
from array import array
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from messaging.storage.ledger_store import SPARSE, Fence, LedgerWriter, NoSuchEntry, StoreError
from messaging.storage.local import LocalConfig, LocalLedgerStore
from tests.support.examples import examples
from tests.support.storage.fake_disk import FakeDisk
from tests.support.storage.owning import started

DIRECTORY = Path("/log")
CONFIG = LocalConfig(
    segment_bytes=64 << 10,
    commit_bytes_max=16 << 10,
    reserved_bytes=0,
    entry_bytes_max=20 << 10,
    checkpoint_bytes=6 << 10,
    extent_bytes_max=2 << 10,
    snapshot_pairs=0,
)


class ModelLedger:
    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse
        self.next_entry = 0
        self.entries: dict[int, bytes] = {}
        self.block_of: dict[int, int] = {}  # first entry of the block that holds each
        self.sealed = False


class LocalStoreMachine(RuleBasedStateMachine):
    """Everything is confirmed before the next step, so the model knows exactly what must be there."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.disk = FakeDisk()
        self.model: dict[int, ModelLedger] = {}
        self.writers: dict[int, LedgerWriter] = {}
        self.next_id = 1
        self.epoch = 0
        self.store: LocalLedgerStore
        self.fence: Fence

    @initialize()
    def begin(self) -> None:
        self._start()

    def _start(self) -> None:
        self.store = LocalLedgerStore(DIRECTORY, CONFIG, disk=self.disk)
        self.fence = self.loop.run_until_complete(started(self.store))
        assert self.fence.epoch > self.epoch
        assert self.store.damage == []
        self.epoch = self.fence.epoch
        self.writers = {}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.loop.run_until_complete(self.store.stop())
        self.loop.close()

    def _pick(self, data: st.DataObject, ids: list[int]) -> int:
        return data.draw(st.sampled_from(sorted(ids)))

    @rule(sparse=st.booleans())
    def create(self, sparse: bool) -> None:
        properties = {"tenant": "t", SPARSE: "yes"} if sparse else {"tenant": "t"}
        self.writers[self.next_id] = self.loop.run_until_complete(self.store.create(self.fence, self.next_id, properties))
        self.model[self.next_id] = ModelLedger(sparse)
        self.next_id += 1

    @precondition(lambda self: self.writers)
    @rule(
        data=st.data(),
        blocks=st.lists(st.lists(st.integers(0, 3000), min_size=1, max_size=6), min_size=1, max_size=12),
        gaps=st.lists(st.integers(0, 50), min_size=1, max_size=3),
    )
    def append(self, data: st.DataObject, blocks: list[list[int]], gaps: list[int]) -> None:
        ledger_id = self._pick(data, list(self.writers))
        model, writer = self.model[ledger_id], self.writers[ledger_id]
        outcomes: list[StoreError | None] = []

        async def run() -> None:
            ended = asyncio.get_running_loop().create_future()

            def done(error: StoreError | None) -> None:
                outcomes.append(error)
                if len(outcomes) == len(blocks):
                    ended.set_result(None)

            for number, sizes in enumerate(blocks):
                if model.sparse:
                    writer.skip_to(model.next_entry + gaps[number % len(gaps)])
                first = writer.next_entry
                assert first == model.next_entry + (gaps[number % len(gaps)] if model.sparse else 0)
                model.next_entry = first + len(sizes)
                payloads = [bytes([(first + index) % 251]) * size for index, size in enumerate(sizes)]
                end_offsets, end = array("I"), 0
                for size in sizes:
                    end += size
                    end_offsets.append(end)
                assert writer.append(b"%d" % first, b"".join(payloads), end_offsets, done) == first
                model.entries |= dict(enumerate(payloads, first))
                model.block_of |= dict.fromkeys(range(first, model.next_entry), first)
            await ended

        self.loop.run_until_complete(run())
        assert outcomes == [None] * len(blocks)

    @precondition(lambda self: any(model.entries for model in self.model.values()))
    @rule(data=st.data(), entries_max=st.integers(1, 50), bytes_max=st.integers(1, 50_000))
    def read(self, data: st.DataObject, entries_max: int, bytes_max: int) -> None:
        ledger_id = self._pick(data, [key for key, model in self.model.items() if model.entries])
        model = self.model[ledger_id]
        last = max(model.entries)
        first = data.draw(st.integers(0, last))

        async def run() -> None:
            reader = await self.store.open(ledger_id)
            blocks = await reader.read(first, entries_max=entries_max, bytes_max=bytes_max)
            expected = min(entry for entry in model.entries if entry >= first)
            assert blocks[0].first_entry == model.block_of[expected]
            entries: dict[int, bytes] = {}
            for block in blocks:
                assert block.header == b"%d" % block.first_entry
                begin = 0
                for entry, stop in enumerate(block.end_offsets, block.first_entry):
                    entries[entry] = bytes(block.data[begin:stop])
                    begin = stop
            begins, ends = blocks[0].first_entry, blocks[-1].last_entry
            assert entries == {entry: payload for entry, payload in model.entries.items() if begins <= entry <= ends}
            assert len(blocks) == 1 or sum(len(block.data) for block in blocks) <= bytes_max
            assert sum(first <= entry < blocks[-1].first_entry for entry in entries) < entries_max
            try:
                await reader.read(last + 1, entries_max=1, bytes_max=1)
                raise AssertionError("read past the end")
            except NoSuchEntry:
                pass

        self.loop.run_until_complete(run())

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def seal(self, data: st.DataObject) -> None:
        ledger_id = self._pick(data, list(self.model))
        info = self.loop.run_until_complete(self.store.seal(self.fence, ledger_id))
        self.writers.pop(ledger_id, None)
        self.model[ledger_id].sealed = True
        assert info.last_entry == max(self.model[ledger_id].entries, default=-1)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        ledger_id = self._pick(data, list(self.model))
        self.loop.run_until_complete(self.store.delete(self.fence, ledger_id))
        self.writers.pop(ledger_id, None)
        del self.model[ledger_id]

    @rule()
    def reopen(self) -> None:
        self.loop.run_until_complete(self.store.stop())
        self._start()

    @rule(seed=st.integers(0, 1000), kill=st.booleans())
    def crash(self, seed: int, kill: bool) -> None:
        """The old process's disk is as it was at that moment, whatever it goes on to do."""
        left = self.disk.frozen() if kill else self.disk.power_loss(Random(seed))
        self.loop.run_until_complete(self.store.stop())
        self.disk = left
        self._start()

    @invariant()
    def ledgers_are_those_of_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        ledgers = {info.ledger_id: info for info in self.loop.run_until_complete(self.store.ledgers())}
        assert ledgers.keys() == self.model.keys()
        for ledger_id, model in self.model.items():
            info = ledgers[ledger_id]
            assert (info.last_entry, info.sealed) == (max(model.entries, default=-1), model.sealed)
            assert info.length_bytes == sum(map(len, model.entries.values()))


TestLocalStore = LocalStoreMachine.TestCase
TestLocalStore.settings = settings(
    max_examples=examples(40),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
