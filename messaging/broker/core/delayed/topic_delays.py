"""The delayed messages of one topic: one index for all its subscriptions, and when to look again. Pure: the time is an argument.

`cutoff_ms` is the latest delivery time that counts as due. What the index has is pending until it is released, whatever its time;
what it does not have is judged by its time when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyroaring import BitMap

from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.delayed_entries import DelayedEntries, Ranges, Reader, not_due, without
from messaging.broker.core.delayed.due_ahead import DueAhead
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.delayed.index import NEVER_MS, DelayedIndex
from messaging.broker.core.delayed.overrides import Overrides
from messaging.broker.core.entries import EntryBlock
from messaging.storage.ledger_store import Position

ROOM_BYTES = 64  # asked for each entry: more than most take, less than a single one may
GROUPS_A_TICK = 16  # times are rounded up to this part of a tick


class DelayPolicy(NamedTuple):
    """`strict`: nothing is delivered before its time; else up to a tick before."""

    active: bool
    tick_ms: int
    strict: bool

    @property
    def resolution_ms(self) -> int:
        return max(1, self.tick_ms // GROUPS_A_TICK)

    def cutoff_ms(self, now_ms: int) -> int:
        if not self.active:
            return NEVER_MS
        return now_ms if self.strict else now_ms + self.tick_ms


class DueRanges(NamedTuple):
    """What of a block may be sent now. `times`: entries that are not due; `stop`: where reading must stop, because there is no room
    to remember the entry there, or None."""

    ranges: Ranges
    times: Sequence[tuple[int, int]]
    stop: int | None


class TopicDelays:
    """`allows` says whether so many more bytes may be kept."""

    def __init__(self, index: DelayedIndex, allows: Callable[[int], bool]) -> None:
        self.index = index
        self.ahead = DueAhead()
        self.cutoff_ms = 0
        self.full = False  # some entry is not read because there was no room for it
        self.entries: dict[DelayedEntries, None] = {}
        self.overrides: Overrides | None = None  # None until a message is cancelled or rescheduled
        self.unindexed: tuple[Position, Position] | None = None  # between these, the index may not know all; both belong to it
        self._again: EntrySets = {}  # pending entries that were found by reading: they may have been sent before
        self._sets_bytes = 0  # of all `entries`
        self._allows = allows

    @property
    def memory_bytes(self) -> int:
        index, overrides = self.index, 0 if self.overrides is None else self.overrides.memory_bytes
        index_bytes = index.memory_bytes + entry_sets.memory_bytes(index.pending) + self._sets_bytes
        return index_bytes + self.ahead.memory_bytes + overrides

    def join(self, reader: Reader) -> DelayedEntries:
        """For a subscription that delays messages."""
        of_subscription = DelayedEntries(reader, self.index.pending)
        self.entries[of_subscription] = None
        return of_subscription

    def leave(self, of_subscription: DelayedEntries) -> None:
        """The subscription is gone, or does not delay messages any more. Idempotent."""
        if of_subscription in self.entries:
            del self.entries[of_subscription]
            of_subscription.clear()
            self.count(of_subscription)

    def published(self, ledger_id: int, first_entry: int, times: Sequence[int], cutoff_ms: int) -> bool:
        """A block with delivery times is durable; nobody has read it. `cutoff_ms`: what is due up to then is delivered as it is.
        Returns whether all of it is delivered later. Without room nothing is remembered: reading comes to it."""
        if self.index.full or not self._allows(ROOM_BYTES * len(times)):
            self._not_indexed(Position(ledger_id, first_entry), Position(ledger_id, first_entry + len(times) - 1))
            return False
        if min(times) > cutoff_ms:
            self.index.add_block(ledger_id, first_entry, times)
            return True
        self.index.add(ledger_id, [(first_entry + at, at_ms) for at, at_ms in enumerate(times) if at_ms > cutoff_ms])
        return False

    def advance(self, now_ms: int, policy: DelayPolicy, first_ledger_id: int = 0) -> list[DelayedEntries] | None:
        """Releases what is due by now. Ledgers before `first_ledger_id` are deleted. Returns those that can be sent some of it,
        beside those whose reading comes to it; None: nothing was due."""
        self.index.forget_ledgers_before(first_ledger_id)
        entry_sets.remove_up_to(self._again, Position(first_ledger_id, -1))
        self.cutoff_ms = policy.cutoff_ms(now_ms)
        self.full = False
        due = self.index.take_due(self.cutoff_ms).entries
        if self.overrides is not None:
            rescheduled = entry_sets.take(self.index.pending, self.overrides.take_due(self.cutoff_ms))
            for ledger_id, entries in rescheduled.items():
                entry_sets.add(due, ledger_id, entries)
        return self.release(due) if due else None

    def forget_ledger(self, ledger_id: int) -> None:
        """It is deleted: everything in it was acknowledged."""
        self.index.pending.pop(ledger_id, None)
        self._again.pop(ledger_id, None)

    def release(self, due: EntrySets) -> list[DelayedEntries]:
        """These left the index. Returns those that can be sent some of it; what was rescheduled to later is pending again."""
        if self.overrides is not None:
            for ledger_id, entries in self.overrides.take_back(due).items():
                entry_sets.add(self.index.pending, ledger_id, entries)
        again = entry_sets.take(self._again, due) if self._again else {}
        released = [of_subscription for of_subscription in self.entries if of_subscription.release(due, again)]
        for delayed in released:
            self.count(delayed)
        return released

    def next_ms(self) -> int | None:
        """The time of the next delayed message, or less; None if there is none."""
        index = self.index.next_ms()
        rescheduled = None if self.overrides is None else self.overrides.next_ms()
        return min(index, rescheduled) if index is not None and rescheduled is not None else index or rescheduled

    def wake_ms(self, now_ms: int, policy: DelayPolicy) -> int | None:
        """When to call `advance` again; None: not before something is added."""
        following = self.next_ms()
        if self.full:  # others may have given memory back by then
            return min(now_ms + policy.tick_ms, NEVER_MS if following is None else max(following, now_ms))
        return following

    def hold_back(self, block: EntryBlock, ranges: Ranges) -> DueRanges:
        """Parts `ranges` of a delayed block into what is due and what is not. Changes nothing but `full`: call `wait` for what
        reading has passed."""
        times = not_due(block, ranges, self.cutoff_ms)
        if self.overrides is not None and ranges:
            times = self._judged(block.ledger_id, ranges, times)
        if not times:
            return DueRanges(ranges, times, None)
        if not self.index.full and self._allows(ROOM_BYTES * len(times)):
            return DueRanges(without(ranges, [entry for entry, _ in times]), times, None)
        self.full = True
        stop = times[0][0]
        return DueRanges([(first, min(last, stop - 1)) for first, last in ranges if first < stop], (), stop)

    def _judged(self, ledger_id: int, ranges: Ranges, times: list[tuple[int, int]]) -> list[tuple[int, int]]:
        assert self.overrides is not None
        asked = BitMap()
        for first, last in ranges:
            asked.add_range(first, last + 1)
        return self.overrides.judged(ledger_id, asked, times, self.cutoff_ms)

    def wait(self, ledger_id: int, times: Sequence[tuple[int, int]]) -> None:
        """Reading passed over these entries, which the index did not have: they are delivered when they are due."""
        if times:
            entries = [entry for entry, _ in times]
            self.index.add(ledger_id, times)
            entry_sets.add(self._again, ledger_id, entries)
            for of_subscription in self.entries:
                of_subscription.waits_again(ledger_id, entries)

    # --- what is decided after publishing

    def restore(self, overrides: Overrides) -> None:
        """They were stored before the topic was loaded; the index is restored already. The owner acknowledges what is cancelled."""
        self.overrides = overrides
        entry_sets.take(self.index.pending, overrides.cancelled)
        for ledger_id, entries in overrides.rescheduled.items():
            entry_sets.add(self.index.pending, ledger_id, entries)

    def cancel(self, ledger_id: int, entries: BitMap) -> None:
        """These are never delivered, to nobody: the owner acknowledges them for all subscriptions at the same moment."""
        self.overrides = self.overrides or Overrides()
        self.overrides.cancel(ledger_id, entries)
        self._forget(ledger_id, entries)
        entry_sets.take(self.index.pending, {ledger_id: entries})

    def cancel_part(self, position: Position, words: Sequence[int]) -> None:
        """Of the batch at `position` only these messages are left; the owner acknowledges the others."""
        self.overrides = self.overrides or Overrides()
        self.overrides.batches.put(position, words)

    def reschedule(self, position: Position, at_ms: int, former_ms: int) -> None:
        """Nobody was sent it yet."""
        self.overrides = self.overrides or Overrides()
        self.overrides.reschedule(position, at_ms, former_ms)
        self._forget(position.ledger_id, BitMap([position.entry_id]))
        entry_sets.add(self.index.pending, position.ledger_id, [position.entry_id])

    def look_at(self, ledger_id: int, times: Sequence[tuple[int, int]]) -> bool:
        """These are due later, and the index may not know them: it does from now on, where there is room for it."""
        if self.index.full or not self._allows(ROOM_BYTES * len(times)):
            return False
        self.wait(ledger_id, times)
        return True

    def looked_up_to(self, following: Position) -> None:
        """Everything before `following` was looked at from the first that may not be in the index, and there was room."""
        if self.unindexed is not None and following > self.unindexed[0]:
            self.unindexed = (following, self.unindexed[1]) if following <= self.unindexed[1] else None

    def _not_indexed(self, first: Position, last: Position) -> None:
        self.unindexed = (first, last) if self.unindexed is None else (min(first, self.unindexed[0]), max(last, self.unindexed[1]))

    def _forget(self, ledger_id: int, entries: BitMap) -> None:
        entry_sets.take(self._again, {ledger_id: entries})
        for of_subscription in self.entries:
            of_subscription.waits_again(ledger_id, list(entries))

    def count(self, of_subscription: DelayedEntries) -> None:
        """Called after some of it was sent: its memory is measured."""
        before, of_subscription.counted_bytes = of_subscription.counted_bytes, of_subscription.memory_bytes
        self._sets_bytes += of_subscription.counted_bytes - before
