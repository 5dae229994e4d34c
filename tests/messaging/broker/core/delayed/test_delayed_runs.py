"""The index of delayed messages in sorted runs: what is encoded comes back, and it behaves like the one that is kept in memory."""

from __future__ import annotations

import random
from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pyroaring import BitMap

from messaging.broker.core.delayed.index import MemoryIndex
from messaging.broker.core.delayed.newest import ROOM_FACTOR
from messaging.broker.core.delayed.run_format import (
    bitmaps_of,
    decode_block,
    decode_directory,
    encode_block,
    encode_directory,
    encode_run,
    of_arrays,
)
from messaging.broker.core.delayed.run_index import MERGED_RUNS, RunIndex
from messaging.broker.core.delayed.run_jobs import BLOCK_ENTRIES, Directory
from messaging.storage.ledger_store import Position
from tests.support.examples import examples
from tests.support.run_disk import RunDisk

START_MS = 1_790_000_000_000
TIMES = st.integers(1, 2**62)
POSITIONS = st.integers(0, 2**63)


@given(st.lists(st.tuples(TIMES, POSITIONS), min_size=1, max_size=200))
def test_a_block_comes_back_as_it_was(entries: list[tuple[int, int]]) -> None:
    entries.sort()
    times, positions = zip(*entries, strict=True)
    back = decode_block(encode_block(of_arrays(array("q", times), array("Q", positions))))
    assert back.times.tolist() == list(times) and back.positions.tolist() == list(positions)


@given(st.binary(max_size=200), st.integers(0, 199), st.integers(0, 255))
def test_a_damaged_block_raises_value_errors_alone(noise: bytes, at: int, octet: int) -> None:
    whole = bytearray(encode_block(of_arrays(array("q", range(5, 60)), array("Q", range(55)))))
    whole[at % len(whole)] = octet
    for data in (bytes(whole), noise, bytes(whole[:at])):
        try:
            decode_block(data)
        except ValueError:
            continue


@given(st.dictionaries(st.integers(1, 5), st.sets(st.integers(0, 2**32 - 1), min_size=1)), st.lists(TIMES))
def test_a_directory_comes_back_as_it_was(ledgers: dict[int, set[int]], starts: list[int]) -> None:
    positions = np.array([ledger << 32 | entry for ledger, entries in ledgers.items() for entry in entries], np.uint64)
    data = encode_directory(Directory(7, array("q", starts), bitmaps_of(positions)))
    back = decode_directory(data)
    assert (back.entries, back.starts.tolist()) == (7, starts)
    assert {ledger: set(entries) for ledger, entries in back.bitmaps.items()} == ledgers
    for cut in (0, 5, len(data) - 1):
        with pytest.raises(ValueError):
            decode_directory(data[:cut])


def test_a_directory_of_very_many_entries_is_packed_as_if_at_once() -> None:
    entries = BitMap(range(0, 12_000_000, 2)) | BitMap(range(9_000_000, 20_000_000))
    whole = entries.copy()
    whole.run_optimize()
    data = encode_directory(Directory(1, array("q"), {3: entries}))
    assert data.endswith(whole.serialize()) and decode_directory(data).bitmaps == {3: whole}


def test_an_entry_takes_at_most_six_bytes() -> None:
    """Times within two days at random, as many entries as are sealed at once."""
    count = 1 << 18
    times = array("q", random.Random(1).choices(range(START_MS, START_MS + 172_800_000), k=count))
    run = encode_run([of_arrays(times, array("Q", range(7 << 32, (7 << 32) + count)))])
    assert len(run.blocks) == count // BLOCK_ENTRIES
    assert sum(map(len, run.blocks)) + len(encode_directory(run.directory)) < 6 * count


class IndexMachine(RuleBasedStateMachine):
    """Both indexes get the same. What one holds, the other holds, and both release the same by the end of each turn."""

    @initialize(seal_entries=st.sampled_from([1, 5, 40]))
    def begin(self, seal_entries: int) -> None:
        self.twin, self.index = MemoryIndex(), RunIndex(1, seal_entries)
        self.first_ledger_id = 0
        self.disk = RunDisk()
        self.now_ms = START_MS
        self.times: dict[Position, int] = {}
        self.next_entry = {1: 0, 2: 0, 9: 0}

    @rule(ledger_id=st.sampled_from([1, 2, 9]), after=st.lists(st.integers(1, 60_000), min_size=1, max_size=30))
    def publish(self, ledger_id: int, after: list[int]) -> None:
        ledger_id = max(ledger_id, self.first_ledger_id)
        first = self.next_entry[ledger_id]
        self.next_entry[ledger_id] += len(after) + 1
        times = array("q", [self.now_ms + delay_ms for delay_ms in after])
        for index in (self.twin, self.index):
            index.add_block(ledger_id, first, times)
        self.times.update({Position(ledger_id, first + at): time for at, time in enumerate(times)})

    @rule(pick=st.integers(0, 1000))
    def add_again(self, pick: int) -> None:
        """By reading, which finds what it does not know to be there."""
        if self.times:
            ledger_id, entry = position = list(self.times)[pick % len(self.times)]
            if self.times[position] > self.now_ms:
                for index in (self.twin, self.index):
                    index.add(ledger_id, [(entry, self.times[position])])

    @rule(full=st.booleans())
    def work(self, full: bool) -> None:
        self.disk.full = full
        self.disk.work(self.index, self.now_ms)

    @rule(time_ms=st.one_of(st.integers(1, 3_000), st.integers(1, 40_000)), in_between=st.booleans())
    def time_passes(self, time_ms: int, in_between: bool) -> None:
        """`in_between`: jobs are under way while entries are released."""
        self.now_ms += time_ms
        jobs = self.disk.jobs(self.index, self.now_ms) if in_between else []
        due = self.taken(self.index, self.now_ms)
        for job in jobs:
            self.disk.do(self.index, job)
        self.disk.full = False
        for _ in range(200):
            self.disk.work(self.index, self.now_ms)
            due |= self.taken(self.index, self.now_ms)
            following = self.index.next_ms()
            if following is None or following > self.now_ms:
                break
        assert due == self.taken(self.twin, self.now_ms)
        assert all(self.times[position] <= self.now_ms for position in due)

    @rule()
    def crash(self) -> None:
        """What was not sealed is found again by reading; what was released and acknowledged since a directory was written comes
        again, and is told apart by who had it."""
        released = {position for position in self.times if position.entry_id not in self.twin.pending.get(position.ledger_id, ())}
        self.index = self.disk.restored(self.index.resolution_ms, self.index.seal_entries)
        self.index.forget_ledgers_before(self.first_ledger_id)
        for (ledger_id, entry), time in self.times.items():
            if Position(ledger_id, entry) not in released:
                self.index.add(ledger_id, [(entry, time)])
        self.disk.work(self.index, self.now_ms)
        while self.taken(self.index, self.now_ms):
            self.disk.work(self.index, self.now_ms)

    @rule()
    def a_ledger_is_deleted(self) -> None:
        self.first_ledger_id = 2
        for index in (self.twin, self.index):
            index.forget_ledgers_before(2)
        self.times = {position: time for position, time in self.times.items() if position.ledger_id >= 2}

    @invariant()
    def both_hold_the_same(self) -> None:
        if hasattr(self, "index"):
            assert {ledger: entries for ledger, entries in self.index.pending.items() if entries} == self.twin.pending

    def taken(self, index: MemoryIndex | RunIndex, until_ms: int) -> set[Position]:
        return {Position(ledger_id, entry) for ledger_id, entries in index.take_due(until_ms).entries.items() for entry in entries}

    def teardown(self) -> None:
        if hasattr(self, "index"):
            for _ in range(3):
                self.time_passes(100_000, False)
            assert not any(self.index.pending.values())
            self.disk.full = False
            self.disk.work(self.index, self.now_ms)
            assert self.index.runs == [] and self.disk.recorded == {}
            assert self.index.next_ms() is None and self.index.memory_bytes == 0


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)


def test_runs_stay_few() -> None:
    index, disk = RunIndex(seal_entries=50), RunDisk()
    draw = random.Random(3)
    for first in range(0, 100_000, 10):
        index.add_block(1, first, array("q", [START_MS + draw.randrange(1, 10**9) for _ in range(10)]))
        disk.work(index, START_MS)
    assert len(index.runs) < 2 * MERGED_RUNS + 100_000 // (16 * 50)
    assert len(disk.runs) == len(index.runs)


def test_entries_that_cannot_be_sealed_wait_in_memory_and_no_more_are_taken_then() -> None:
    index, disk = RunIndex(seal_entries=10), RunDisk()
    disk.full = True
    for first in range(0, 10 * ROOM_FACTOR, 10):
        assert not index.full
        index.add_block(1, first, array("q", range(START_MS + 50_000, START_MS + 50_010)))
        disk.work(index, START_MS)
    assert index.full and not disk.runs
    disk.full = False
    disk.work(index, START_MS)
    assert not index.full and sum(run.left for run in index.runs) == 10 * ROOM_FACTOR


def test_few_blocks_are_in_memory_however_many_runs_there_are() -> None:
    index, disk = RunIndex(seal_entries=1 << 14), RunDisk()
    for first in range(0, 1 << 17, 1 << 14):
        index.add_block(1, first, array("q", range(START_MS + 86_400_000, START_MS + 86_400_000 + (1 << 14))))
        disk.work(index, START_MS)
    assert index.memory_bytes < 1_000
    disk.work(index, START_MS + 86_400_000 - 1)
    assert all(run.head is not None for run in index.runs)
