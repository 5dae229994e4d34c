"""What was decided of single delayed messages of a topic after they were published: cancelled, or rescheduled. Pure.

It is authoritative, and stored as a whole before a decision is confirmed. A cancelled entry is acknowledged in every cursor, and
again in one that is created, moved back or recovered (`acknowledge_cancelled`), so that reading, backlog and retention need to know
nothing of it. A rescheduled entry stays in the index at its former time and is pending until its new one: what the index releases
before is taken back (`take_back`), and what is due here is released whatever the index says.

Stored:  version u8 = 1 | ledgers u32: (ledger i64, length u32, roaring) | batches u32: (i64 i64, words u16, u64*)
         | rescheduled u32: (ledger i64, entry i64, new time i64, former time i64)*
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from pyroaring import BitMap

from messaging.broker.core.cursors.ack_sets import ENTRY_BYTES, AckSets
from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.time_slots import TimeSlots
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList

VERSION = 1
CANCELLED_MAX = 1_000_000  # entries of one topic
RESCHEDULED_MAX = 50_000
BATCHES_MAX = 1_000  # of which some messages are cancelled
BATCH_BITS_BYTES_MAX = 1 << 20  # of their ack sets together: all is written with each decision
RESCHEDULED_BYTES = 400  # memory of one, beside the slots of time
STALE_MAX = 1_000  # times in the slots that do not hold any more, beside as many as there are rescheduled entries
JUDGED_MAX = 8_000  # entries of which `take_due` compares the times: some milliseconds
FORGOTTEN_A_MS = 20  # with so many entries that are released, `forget` looks at them once a millisecond at most
_HEAD = struct.Struct("<BI")
_COUNT = struct.Struct("<I")
_LEDGER = struct.Struct("<qI")
_BATCH = struct.Struct("<qqH")
_RESCHEDULED = struct.Struct("<qqqq")


class Rescheduled(NamedTuple):
    """Milliseconds since 1970; `former_ms` is what the message itself asks for."""

    at_ms: int
    former_ms: int


class Overrides:
    __slots__ = (
        "_forgot_ms",
        "_reached",
        "_reached_ms",
        "_slots",
        "_stale",
        "_times",
        "batches",
        "cancelled",
        "cancelled_count",
        "later",
        "rescheduled",
    )

    def __init__(self) -> None:
        self.cancelled: EntrySets = {}
        self.cancelled_count = 0
        self.batches = AckSets()  # the messages that are left of batches
        self.rescheduled: EntrySets = {}
        self.later: EntrySets = {}  # of `rescheduled`, those that `take_due` has not given
        self._times: dict[Position, Rescheduled] = {}
        self._slots = TimeSlots()  # of `rescheduled`, some of them at times that do not hold any more
        self._stale = 0  # how many of those at most
        self._reached: EntrySets = {}  # what the slots gave up to `_reached_ms`, and was not judged yet
        self._reached_ms = 0
        self._forgot_ms = 0

    def __bool__(self) -> bool:
        return bool(self.cancelled or self.batches or self._times)

    @property
    def memory_bytes(self) -> int:
        sets = sum(map(entry_sets.memory_bytes, (self.cancelled, self.rescheduled, self.later, self._reached)))
        return sets + self.batches.memory_bytes + RESCHEDULED_BYTES * len(self._times) + self._slots.memory_bytes

    @property
    def rescheduled_count(self) -> int:
        return len(self._times)

    @property
    def batch_bits_bytes(self) -> int:
        return self.batches.memory_bytes - ENTRY_BYTES * len(self.batches)

    # --- asking

    def is_cancelled(self, position: Position) -> bool:
        return position.entry_id in self.cancelled.get(position.ledger_id, ())

    def time_of(self, position: Position) -> Rescheduled | None:
        return self._times.get(position)

    def times(self) -> dict[Position, Rescheduled]:
        """A copy, for a thread."""
        return dict(self._times)

    def left_out(self) -> EntrySets:
        """The entries that are not due when the index says so: copies, for a thread."""
        left_out = entry_sets.copied(self.cancelled)
        for ledger_id, entries in self.rescheduled.items():
            entry_sets.add(left_out, ledger_id, entries)
        return left_out

    # --- deciding

    def cancel(self, ledger_id: int, entries: BitMap) -> None:
        before = len(self.cancelled.get(ledger_id, ()))
        entry_sets.add(self.cancelled, ledger_id, entries)
        self.cancelled_count += len(self.cancelled.get(ledger_id, ())) - before
        self.batches.drop(ledger_id, entries)
        self._forget(ledger_id, entries & self.rescheduled.get(ledger_id, BitMap()))

    def reschedule(self, position: Position, at_ms: int, former_ms: int) -> None:
        self._stale += position in self._times
        self._times[position] = Rescheduled(at_ms, former_ms)
        for sets in (self.rescheduled, self.later):
            entry_sets.add(sets, position.ledger_id, [position.entry_id])
        self._slots.add(*position, at_ms)
        if self._stale > len(self._times) + STALE_MAX:
            self._slots, self._stale = TimeSlots(), 0
            for place, time in self._times.items():
                self._slots.add(*place, time.at_ms)

    def _forget(self, ledger_id: int, entries: BitMap) -> None:
        """These were rescheduled."""
        self._stale += len(entries)
        for entry in entries:
            del self._times[Position(ledger_id, entry)]
        for sets in (self.rescheduled, self.later):
            entry_sets.take(sets, {ledger_id: entries})

    def forget(self, ledger_list: LedgerList, cutoff_ms: int, pending: Mapping[int, BitMap]) -> None:
        """What cannot matter any more: all of ledgers that are gone, and rescheduled entries of which both times have passed and
        that are not `pending`: nothing else may release those. What was cancelled is kept as long as the compacted ledger may have
        it."""
        kept = set(ledger_list.ids)

        def gone(ledger_id: int) -> bool:
            return ledger_id not in kept

        for ledger_id in [candidate for candidate in self.cancelled if gone(candidate) and not ledger_list.compacts(candidate)]:
            self.cancelled_count -= len(self.cancelled.pop(ledger_id))
        for position in [position for position, _ in self.batches.items()]:
            if gone(position.ledger_id) and not ledger_list.compacts(position.ledger_id):
                self.batches.drop(position.ledger_id, BitMap([position.entry_id]))
        for ledger_id in [candidate for candidate in self.rescheduled if gone(candidate)]:
            self._forget(ledger_id, self.rescheduled[ledger_id])
        released = {candidate: entries - self.later.get(candidate, BitMap()) for candidate, entries in self.rescheduled.items()}
        if 0 <= cutoff_ms - self._forgot_ms < sum(map(len, released.values())) // FORGOTTEN_A_MS:
            return
        self._forgot_ms = cutoff_ms
        for ledger_id, entries in released.items():
            idle = entries - pending.get(ledger_id, BitMap())
            past = [entry for entry in idle if max(self._times[Position(ledger_id, entry)]) <= cutoff_ms]
            self._forget(ledger_id, BitMap(past))

    def compacted_without(self, entries: EntrySets, ledger_list: LedgerList) -> None:
        """The compacted ledger was made without these cancelled entries: where their ledger is gone nobody can be sent them."""
        kept = set(ledger_list.ids)
        left_out = {ledger_id: left for ledger_id, left in entries.items() if ledger_id not in kept}
        self.cancelled_count -= sum(map(len, entry_sets.take(self.cancelled, left_out).values()))

    # --- the index releases, or looks for what is due

    def next_ms(self) -> int | None:
        """When to call `take_due` next, 0: at once; None if there is nothing."""
        return 0 if self._reached else self._slots.next_ms()

    def take_due(self, until_ms: int) -> EntrySets:
        """The rescheduled entries of which the time has come, or some of them: see `next_ms`."""
        for ledger_id, entries in self._slots.take_due(until_ms).entries.items():
            entry_sets.add(self._reached, ledger_id, entries)
            self._reached_ms = max(self._reached_ms, until_ms)
        taken: EntrySets = {}
        left = JUDGED_MAX
        while self._reached and left > 0:
            ledger_id, reached = next(iter(self._reached.items()))
            judged = reached[:left]
            left -= len(judged)
            entry_sets.take(self._reached, {ledger_id: judged})
            times, asked = self._times, judged & self.later.get(ledger_id, BitMap())
            due = [entry for entry in asked if times[Position(ledger_id, entry)].at_ms <= self._reached_ms]
            entry_sets.add(taken, ledger_id, due)
        entry_sets.take(self.later, taken)
        return taken

    def take_back(self, due: EntrySets) -> EntrySets:
        """Takes the entries out of `due` that were rescheduled to later, and returns them."""
        return entry_sets.take(due, self.later)

    def judged(self, ledger_id: int, asked: BitMap, times: list[tuple[int, int]], cutoff_ms: int) -> list[tuple[int, int]]:
        """`times`: those of the entries `asked` that are due after `cutoff_ms` by what they ask for, with these times, in order.
        Returns the same by the times that hold."""
        rescheduled = self.rescheduled.get(ledger_id, BitMap()) & asked
        if not rescheduled:
            return times
        judged_times = dict(times)
        for entry in rescheduled:
            judged_times.pop(entry, None)
            at_ms = self._times[Position(ledger_id, entry)].at_ms
            if at_ms > cutoff_ms:
                judged_times[entry] = at_ms
        return sorted(judged_times.items())

    # --- storing

    def copy(self) -> Overrides:
        """What `encode` needs, for a thread."""
        copied = Overrides()
        copied.cancelled = entry_sets.copied(self.cancelled)
        copied.batches = self.batches.copy()
        copied._times = dict(self._times)
        return copied

    def encode(self) -> bytes:
        parts = [_HEAD.pack(VERSION, len(self.cancelled))]
        for ledger_id, entries in self.cancelled.items():
            data = entries.serialize()
            parts += (_LEDGER.pack(ledger_id, len(data)), data)
        parts.append(_COUNT.pack(len(self.batches)))
        for position, words in self.batches.items():
            parts.append(_BATCH.pack(*position, len(words)) + struct.pack(f"<{len(words)}Q", *words))
        parts.append(_COUNT.pack(len(self._times)))
        parts += [_RESCHEDULED.pack(*position, *time) for position, time in self._times.items()]
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> Overrides:
        """Raises `ValueError`."""
        overrides = cls()
        try:
            overrides._decode(data)
        except struct.error as error:
            raise ValueError(f"decisions on delayed messages of {len(data)} bytes are cut short: {error}") from None
        return overrides

    def _decode(self, data: bytes) -> None:
        version, count = _HEAD.unpack_from(data)
        if version != VERSION:
            raise ValueError(f"decisions on delayed messages have version {version}; this release reads version {VERSION}")
        at = _HEAD.size
        for _ in range(count):
            ledger_id, length = _LEDGER.unpack_from(data, at)
            at += _LEDGER.size
            if at + length > len(data):
                raise ValueError("decisions on delayed messages are cut short")
            self.cancel(ledger_id, BitMap.deserialize(data[at : at + length]))
            at += length
        (count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        for _ in range(count):
            ledger_id, entry_id, words = _BATCH.unpack_from(data, at)
            at += _BATCH.size
            self.batches.put(Position(ledger_id, entry_id), struct.unpack_from(f"<{words}Q", data, at))
            at += 8 * words
        (count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        for _ in range(count):
            ledger_id, entry_id, at_ms, former_ms = _RESCHEDULED.unpack_from(data, at)
            self.reschedule(Position(ledger_id, entry_id), at_ms, former_ms)
            at += _RESCHEDULED.size


def acknowledge_cancelled(overrides: Overrides, cursor: Cursor, ledger_list: LedgerList) -> list[bytes]:
    """Everything that is cancelled counts as acknowledged for this cursor. Returns the deltas; nobody holds any of it."""
    deltas = [cursor.acknowledge_all(ledger_id, entries, ledger_list) for ledger_id, entries in overrides.cancelled.items()]
    deltas += [cursor.acknowledge_batch(position, words, ledger_list)[0] for position, words in overrides.batches.items()]
    return [delta for delta in deltas if delta]
