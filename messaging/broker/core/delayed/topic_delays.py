"""The delayed messages of one topic: one index for all its subscriptions, and when to look again. Pure: the time is an argument.

`cutoff_ms` is the latest delivery time that counts as due. It moves only in `advance`, which takes out of the index what it passes,
so that reading and the index never disagree about an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from messaging.broker.core.cursor import Cursor
from messaging.broker.core.delayed.delayed_entries import DelayedEntries, Ranges, not_due, without
from messaging.broker.core.delayed.index import NEVER_MS, DelayedIndex
from messaging.broker.core.entries import EntryBlock

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
        self.cutoff_ms = 0
        self.full = False  # some entry is not read because there was no room for it
        self.entries: dict[DelayedEntries, None] = {}
        self._sets_bytes = 0  # of all `entries`
        self._behind = False  # more is due than one turn takes
        self._allows = allows

    @property
    def memory_bytes(self) -> int:
        return self.index.memory_bytes + self._sets_bytes

    def join(self, cursor: Cursor) -> DelayedEntries:
        """For a subscription that delays messages."""
        one = DelayedEntries(cursor)
        self.entries[one] = None
        return one

    def leave(self, one: DelayedEntries) -> None:
        """The subscription is gone. Idempotent."""
        if one in self.entries:
            del self.entries[one]
            one.clear()
            self.count(one)
        self._forget_unneeded()

    def advance(self, now_ms: int, policy: DelayPolicy) -> list[DelayedEntries]:
        """Releases what is due by now. Returns those that can be sent some of it."""
        self._forget_unneeded()
        until_ms = policy.cutoff_ms(now_ms)
        due = self.index.take_due(until_ms)
        self.cutoff_ms = due.until_ms
        self._behind = due.until_ms < until_ms
        self.full = False
        if not due.entries:
            return []
        released = [one for one in self.entries if one.release(due.entries)]
        for one in self.entries:
            self.count(one)
        return released

    def wake_ms(self, now_ms: int, policy: DelayPolicy) -> int | None:
        """When to call `advance` again; None: not before something is added."""
        following = now_ms if self._behind else self.index.next_ms()
        if self.full:  # others may have given memory back by then
            return min(now_ms + policy.tick_ms, NEVER_MS if following is None else max(following, now_ms))
        return following

    def _forget_unneeded(self) -> None:
        """After a seek, or when a subscription is gone, nobody may wait for what is in the index."""
        if self.index.memory_bytes and not any(one.waiting for one in self.entries):
            self.index.clear()

    def hold_back(self, block: EntryBlock, ranges: Ranges) -> DueRanges:
        """Parts `ranges` of a delayed block into what is due and what is not. Changes nothing but `full`: call `wait` for what
        reading has passed."""
        times = not_due(block, ranges, self.cutoff_ms)
        if not times:
            return DueRanges(ranges, times, None)
        if self._allows(ROOM_BYTES * len(times)):
            return DueRanges(without(ranges, [entry for entry, _ in times]), times, None)
        self.full = True
        stop = times[0][0]
        return DueRanges([(first, min(last, stop - 1)) for first, last in ranges if first < stop], (), stop)

    def wait(self, one: DelayedEntries, ledger_id: int, times: Sequence[tuple[int, int]]) -> None:
        """Reading passed over these entries: they are delivered when they are due."""
        if times:
            one.wait(ledger_id, [entry for entry, _ in times])
            self.index.add(ledger_id, times)
            self.count(one)

    def count(self, one: DelayedEntries) -> None:
        """Called after some of it was sent: its memory is measured."""
        before, one.counted_bytes = one.counted_bytes, one.memory_bytes
        self._sets_bytes += one.counted_bytes - before
