"""What one series has reported so far: running totals in, amounts that no record holds yet out. Pure."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from messaging.usage_schema import SCOPES, SEQUENCE_SPAN


class SeriesKey(NamedTuple):
    """What a group of series of one scope is about. Tenants are told apart by uid: a later one of the name has its own."""

    scope: str
    tenant: str
    tenant_uid: str
    namespace: str
    topic: str
    subscription: str
    key: str


class Series:
    """The series of the meters of one scope. Their sequence numbers begin at the span of that number, which is higher than that
    of any earlier series of the same things.

    All numbers stand in one array, since there may be as many of these as there are topics and clients of them."""

    __slots__ = ("gauges_at", "numbers", "sampled")

    def __init__(self, scope: str, span: int) -> None:
        counters, gauges = SCOPES[scope]
        self.sampled = 0  # the sample that had it last
        self.gauges_at = 3 * len(counters)  # after the baselines, what is owed, and the cumulative values
        unsaid = bytes(8 * (3 * len(counters) + len(gauges)))
        self.numbers = array("q", unsaid) + array("q", [span * SEQUENCE_SPAN]) * (len(counters) + len(gauges))

    @property
    def _counters(self) -> int:
        return self.gauges_at // 3

    @property
    def settled(self) -> bool:
        """Whether it is not loaded and owes nothing: totals that come later are of another load."""
        return not any(self.numbers[: 2 * self._counters])

    def rise(self, totals: tuple[int, ...]) -> bool:
        """Adds the increase of the counters to what is owed; whether anything is. A counter below its baseline was restarted at
        0."""
        numbers, count, owing = self.numbers, self._counters, 0
        for index, total in enumerate(totals):
            before = numbers[index]
            numbers[count + index] += total - before if total >= before else total
            numbers[index] = total
            owing |= numbers[count + index]
        return owing > 0

    def unloaded(self) -> None:
        """The next load of the topic counts from 0."""
        self.numbers[: self._counters] = array("q", bytes(8 * self._counters))

    def take_owed(self, index: int) -> int:
        """What the counter rose by since its last record; it is the caller's to record."""
        at = self._counters + index
        owed, self.numbers[at] = self.numbers[at], 0
        return owed

    def accumulate(self, index: int, value: int) -> int:
        """The counter's running total, with `value`."""
        at = 2 * self._counters + index
        self.numbers[at] += value
        return self.numbers[at]

    def gauge(self, index: int, value: int) -> bool:
        """Whether there is anything to say: a zero after a zero says nothing new."""
        at = self.gauges_at + index
        before, self.numbers[at] = self.numbers[at], value
        return bool(value or before)

    def next_seq(self, index: int) -> int:
        """Of the counters, then of the gauges."""
        gauges = (len(self.numbers) - 4 * self._counters) // 2
        at = self.gauges_at + gauges + index
        self.numbers[at] += 1
        return self.numbers[at] - 1
