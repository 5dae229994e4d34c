"""The newest delayed entries of a topic, which no run has yet: in chunks as they came, in slots of time once they are near. Pure.

The same entry may be in a chunk that is being sealed and in a slot: see `run_index.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from pyroaring import BitMap

from messaging.broker.core.delayed.run_jobs import Seal, TimedEntries
from messaging.broker.core.delayed.time_slots import ENTRY_BITS, ENTRY_MASK, NEVER_MS, Slot, TimeSlots

CHUNK_ENTRIES = 2048
CHUNK_ENTRY_BYTES = 16
CHUNKS_MOVED_MAX = 2  # sorted into slots in one turn
SEAL_ENTRIES = 1 << 18  # in memory
ROOM_FACTOR = 4  # no more is taken when nothing can be sealed and so many times as much is in memory
FAR_MS = 10_000  # what is due before is near: it is sorted into slots with what is due now, and not sealed


class NewestParts(NamedTuple):
    """Copies, for a thread. `chunks`: times and positions, of typecodes "q" and "Q"; `groups`: time, ledger and entries."""

    chunks: list[tuple[array[int], array[int]]]
    slots: list[Slot]
    groups: list[tuple[int, int, BitMap]]


class NewestEntries:
    """`near`: what is due soon, by time."""

    __slots__ = ("_chunk_entries", "_chunks", "_count", "_counted_from", "_open", "_sealing", "near", "seal_entries")

    def __init__(self, resolution_ms: int, seal_entries: int) -> None:
        self.near = TimeSlots(resolution_ms)
        self.seal_entries = seal_entries
        self._chunk_entries = min(CHUNK_ENTRIES, seal_entries)
        self._open = TimedEntries()
        self._chunks: list[TimedEntries] = [self._open]
        self._count = 0  # of entries in chunks
        self._counted_from = 0  # of fewer entries in memory, too many are near to be worth counting again
        self._sealing: Seal | None = None

    @property
    def memory_bytes(self) -> int:
        return CHUNK_ENTRY_BYTES * (self._count + self._sealing_count) + self.near.memory_bytes

    @property
    def full(self) -> bool:
        """What is near is bounded by who asks for room for it."""
        return self._count + self._sealing_count >= ROOM_FACTOR * self.seal_entries

    @property
    def _sealing_count(self) -> int:
        return self._sealing.count if self._sealing is not None else 0

    @property
    def grown(self) -> bool:
        """Whether the last block that was added filled a chunk: time to look for jobs."""
        return not self._open.times

    def add_block(self, ledger_id: int, first_entry: int, times: Sequence[int]) -> None:
        chunk, count, position = self._open, len(times), ledger_id << ENTRY_BITS | first_entry
        chunk.times.extend(times)
        chunk.positions.extend(range(position, position + count))
        first_ms = min(times)
        if first_ms < chunk.first_ms:
            chunk.first_ms = first_ms
        self._count += count
        if len(chunk.times) >= self._chunk_entries:
            self._open = TimedEntries()
            self._chunks.append(self._open)

    def parts(self, from_ms: int, until_ms: int) -> NewestParts:
        """All that is due from `from_ms` to before `until_ms`, and some that is not."""
        chunks = [chunk for chunk in (*self._chunks, *self._sealing_chunks()) if chunk.times and chunk.first_ms < until_ms]
        slots = [] if self._sealing is None else self._sealing.slots
        return NewestParts(
            [(chunk.times[:], chunk.positions[:]) for chunk in chunks],
            [*self.near.slots_within(from_ms, until_ms), *slots],
            self.near.groups_within(from_ms, until_ms),
        )

    # --- what comes near

    def next_ms(self) -> int:
        """The time of the first; `NEVER_MS` if there is none."""
        near = self.near.next_ms()
        return min(NEVER_MS if near is None else near, self.first_far_ms())

    def first_far_ms(self) -> int:
        """The time of the first that is not in a slot; `NEVER_MS` if there is none."""
        sealing_ms = self._sealing.slots_ms if self._sealing is not None else NEVER_MS
        return min((sealing_ms, *(chunk.first_ms for chunk in (*self._chunks, *self._sealing_chunks()))))

    def bring_near(self, until_ms: int) -> None:
        """Sorts the near entries of chunks that have something due into slots, of `CHUNKS_MOVED_MAX` in each of both places."""
        near_ms = min(until_ms + FAR_MS, NEVER_MS)
        for chunk in [chunk for chunk in self._chunks if chunk.first_ms <= until_ms][:CHUNKS_MOVED_MAX]:
            self._move(chunk, near_ms)
        sealing = self._sealing
        for chunk in [chunk for chunk in self._sealing_chunks() if chunk.first_ms <= until_ms][:CHUNKS_MOVED_MAX]:
            far = self._sort_in(chunk, near_ms)
            chunk.first_ms = far.first_ms  # a thread reads the rest of it
            if sealing is not None and not far.times:
                sealing.moved.add(sealing.chunks.index(chunk))
        if sealing is not None and sealing.slots_ms <= until_ms:
            self.near.put_back(slot for slot in sealing.slots if slot.start_ms <= near_ms)
            self._seals_slots(sealing, [slot for slot in sealing.slots if slot.start_ms > near_ms])

    def _move(self, chunk: TimedEntries, near_ms: int) -> None:
        far = self._sort_in(chunk, near_ms)
        self._count -= len(chunk.times) - len(far.times)
        chunk.times, chunk.positions, chunk.first_ms = far.times, far.positions, far.first_ms
        if not far.times and chunk is not self._open:
            self._chunks.remove(chunk)

    def _sort_in(self, chunk: TimedEntries, near_ms: int) -> TimedEntries:
        """What is due up to `near_ms` goes to the slots. Returns the others."""
        far, add = TimedEntries(), self.near.add
        for at_ms, position in zip(chunk.times, chunk.positions, strict=True):
            if at_ms > near_ms:
                far.times.append(at_ms)
                far.positions.append(position)
            else:
                add(position >> ENTRY_BITS, position & ENTRY_MASK, at_ms)
        far.first_ms = min(far.times, default=NEVER_MS)
        return far

    def _sealing_chunks(self) -> list[TimedEntries]:
        sealing = self._sealing
        return [] if sealing is None else [chunk for index, chunk in enumerate(sealing.chunks) if index not in sealing.moved]

    # --- what is sealed

    def _seals_slots(self, sealing: Seal, slots: list[Slot]) -> None:
        """A thread may read the former list."""
        sealing.slots, sealing.slots_ms = slots, min((slot.start_ms for slot in slots), default=NEVER_MS)

    def seal(self, now_ms: int, entries_min: int) -> Seal | None:
        """What is to be sealed now: at least so many entries; 0: as many as usual."""
        if self._sealing is not None:
            return None
        needed, kept_count = entries_min or self.seal_entries, self._count + self.near.count
        if kept_count < (needed if entries_min else max(needed, self._counted_from)):
            return None
        count = self._count + self.near.count_from(now_ms + FAR_MS)
        self._counted_from = kept_count + self.seal_entries // 8 if count < needed else 0
        if count < needed:
            return None
        slots = self.near.take_far(now_ms + FAR_MS)
        self._sealing = Seal([chunk for chunk in self._chunks if chunk.times], [], count)
        self._seals_slots(self._sealing, slots)
        self._open = TimedEntries()
        self._chunks, self._count = [self._open], 0
        return self._sealing

    def sealed(self, job: Seal, *, stored: bool) -> None:
        """What was not stored is kept."""
        self._sealing = None
        if not stored:
            self.near.put_back(job.slots)
            kept = [chunk for index, chunk in enumerate(job.chunks) if index not in job.moved]
            self._chunks = [*kept, *self._chunks]
            self._count += sum(len(chunk.times) for chunk in kept)
