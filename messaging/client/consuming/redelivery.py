"""When a message comes again: after a negative acknowledgement, or because it is not acknowledged for too long. Pure."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple

from messaging.errors import InvalidValue


class Entry(NamedTuple):
    """What the broker delivers as a whole: a message, or a batch."""

    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True)
class RedeliveryBackoff:
    """Doubles (or what `multiplier` says) with each delivery of a message, from `min_s` to `max_s`."""

    min_s: float = 1.0
    max_s: float = 60.0
    multiplier: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.min_s <= self.max_s or self.multiplier < 1:
            raise InvalidValue(
                f"a backoff from {self.min_s} to {self.max_s} s by {self.multiplier}: use 0 <= min_s <= max_s, and 1 or more"
            )

    def delay_s(self, redelivery_count: int) -> float:
        return min(self.max_s, self.min_s * self.multiplier ** min(max(0, redelivery_count), 64))


class Schedule:
    """Entries that are due at a time. An entry that is scheduled again keeps the earlier time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, Entry]] = []
        self._due_s: dict[Entry, float] = {}

    def __len__(self) -> int:
        return len(self._due_s)

    @property
    def next_s(self) -> float | None:
        while self._heap and self._due_s.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def add(self, entry: Entry, due_s: float) -> None:
        before = self._due_s.get(entry)
        if before is None or due_s < before:
            self._due_s[entry] = due_s
            heapq.heappush(self._heap, (due_s, entry))

    def remove(self, entry: Entry) -> None:
        self._due_s.pop(entry, None)
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._due_s):  # mostly of entries that are gone
            self._heap = [(due_s, entry) for entry, due_s in self._due_s.items()]
            heapq.heapify(self._heap)

    def take_due(self, now_s: float) -> list[Entry]:
        due = []
        while (next_s := self.next_s) is not None and next_s <= now_s:
            entry = heapq.heappop(self._heap)[1]
            del self._due_s[entry]
            due.append(entry)
        return due

    def clear(self) -> None:
        self._heap.clear()
        self._due_s.clear()
