"""Running totals of topics in, gapless usage records out. Pure: it receives the time as an argument and does no I/O.

    recorder = UsageRecorder("broker-1", boot_epoch=7, now_ms=...)
    recorder.sample(now_ms, totals of all loaded topics)     at least once per minute and at each full hour (`next_cut_ms`)
    recorder.retire(last totals)                             when a topic is unloaded or deleted
    records = recorder.pending(); write them; recorder.confirm(len(records))

What is promised:
- Each unit that a counter rose by stands in exactly one record; `seq` has no gap per (source, boot_epoch, series).
- A record is forgotten only when `confirm` says that it is on disk. While `PENDING_RECORDS_MAX` are waiting no new ones are made:
  counters lose nothing by that (the next sample carries the whole rise), gauges have a silence.
- A crash loses what was not confirmed (the running interval, records that wait). Nobody is charged for that usage.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import islice

from messaging.broker.usage.record import HOUR_MS, TopicTotals, UsageRecord, hour_start_ms
from messaging.usage_schema import COUNTERS, GAUGE_CARRY_MS_MAX, GAUGES, INTERVAL_MS_MAX, SCHEMA_VERSION, series_name

PENDING_RECORDS_MAX = 200_000  # about 60 MiB; a broker reaches it when its disk refuses usage files for a long time

# A timer fires some milliseconds late. What rose in them is counted before the cut, so that one minute makes one record, not two.
LATE_MS_MAX = 250

_COUNTERS = len(COUNTERS)
# Places in the numbers of a series.
_BASELINE = 0  # totals of the present load that are accounted for
_OWED = _BASELINE + _COUNTERS  # rise, of finished loads too, that no record holds yet
_CUMULATIVE = _OWED + _COUNTERS
_GAUGE = _CUMULATIVE + _COUNTERS  # values of the last records
_NEXT_SEQ = _GAUGE + len(GAUGES)  # of each counter, then of each gauge
_NUMBERS = _NEXT_SEQ + _COUNTERS + len(GAUGES)
assert TopicTotals._fields[3:9] == COUNTERS + GAUGES


class _Series:
    """What one topic's six series have reported so far. Kept for the boot, loaded or not: `seq` must continue where it stood.

    All numbers stand in one array, since there may be as many of these as there were topics."""

    __slots__ = ("names", "numbers", "tenant_uid")

    def __init__(self, tenant: str, namespace: str, topic: str, tenant_uid: str) -> None:
        self.names = (tenant, namespace, topic)
        self.tenant_uid = tenant_uid
        self.numbers = array("q", bytes(8 * _NUMBERS))

    def rise(self, totals: TopicTotals) -> None:
        """Adds the increase of the counters to what is not recorded yet. A counter below its baseline was restarted at 0."""
        numbers = self.numbers
        for index, total in enumerate(totals.counters):
            before = numbers[_BASELINE + index]
            numbers[_OWED + index] += total - before if total >= before else total
            numbers[_BASELINE + index] = total

    def unloaded(self) -> None:
        """The next load of the topic counts from 0."""
        self.numbers[_BASELINE : _BASELINE + _COUNTERS] = array("q", bytes(8 * _COUNTERS))


class UsageRecorder:
    """See the module. Not thread-safe; one owner. `boot_epoch` rises with each start of the broker `broker_id`."""

    def __init__(self, broker_id: str, boot_epoch: int, now_ms: int) -> None:
        self.source = broker_id
        self.boot_epoch = boot_epoch
        self.interval_start_ms = now_ms
        self._series: dict[str, _Series] = {}
        self._owing: set[str] = set()  # topics with a rise that no record holds yet
        self._former: list[_Series] = []  # of deleted tenants whose name, and topic's name, came again: until their last record
        self._pending: list[UsageRecord] = []

    @property
    def next_cut_ms(self) -> int:
        """When the current interval must end: a minute after its start, or at the full hour if that is sooner."""
        start = self.interval_start_ms
        return min(start + INTERVAL_MS_MAX, hour_start_ms(start) + HOUR_MS)

    def retire(self, totals: TopicTotals) -> None:
        """The topic is unloaded or deleted, these are its last totals; if it is loaded again, its counters start at 0.

        A topic that merely is missing from a sample is taken to continue later from the totals it had: nothing is counted twice.
        """
        series = self._of(totals)
        if series is not None:
            series.rise(totals)
            series.unloaded()

    def sample(self, now_ms: int, topics: Iterable[TopicTotals]) -> int:
        """Ends the running interval at `now_ms` and makes its records; their number.

        An interval that became too long is cut into pieces of at most a minute that cross no hour, and the rise is spread over
        them in proportion. Of a silence longer than `GAUGE_CARRY_MS_MAX` (the machine slept) only that much at its end counts.
        Makes nothing while the clock stands before the running interval's start, or too many records wait to be written.
        """
        if now_ms <= self.interval_start_ms - INTERVAL_MS_MAX:
            self.interval_start_ms = now_ms  # the clock was set back: continue from here; increases go to the next sample
        if now_ms <= self.interval_start_ms or len(self._pending) >= PENDING_RECORDS_MAX:
            return 0
        before = len(self._pending)
        cut_ms = self.next_cut_ms
        end_ms = cut_ms if cut_ms <= now_ms <= cut_ms + LATE_MS_MAX else now_ms
        pieces = _pieces(max(self.interval_start_ms, end_ms - GAUGE_CARRY_MS_MAX), end_ms)
        for totals in topics:
            series = self._of(totals)
            if series is None:
                continue
            series.rise(totals)
            self._count(totals.topic, series, pieces, now_ms)
            self._gauge(series, totals, pieces, now_ms)
        for topic in sorted(self._owing):
            self._count(topic, self._series[topic], pieces, now_ms)
        self._owing.clear()
        for former in self._former:
            self._count("", former, pieces, now_ms)
        self._former.clear()
        self.interval_start_ms = end_ms
        return len(self._pending) - before

    def pending(self, limit: int = PENDING_RECORDS_MAX) -> list[UsageRecord]:
        """The oldest unconfirmed records, oldest first. They stay until `confirm`."""
        return list(islice(self._pending, limit))

    def confirm(self, count: int) -> None:
        """The first `count` records of `pending` are durable."""
        assert 0 <= count <= len(self._pending)
        del self._pending[:count]

    def _of(self, totals: TopicTotals) -> _Series | None:
        """None for a topic that never had anything to report: an idle topic takes no memory here."""
        series = self._series.get(totals.topic)
        if series is not None and series.tenant_uid != totals.tenant_uid:
            self._former.append(series)
            series = None
        if series is None:
            if not any(totals[3:9]):
                return None
            series = self._series[totals.topic] = _Series(totals.tenant, totals.namespace, totals.topic, totals.tenant_uid)
        self._owing.add(totals.topic)
        return series

    def _count(self, topic: str, series: _Series, pieces: list[tuple[int, int]], now_ms: int) -> None:
        self._owing.discard(topic)
        for index, meter in enumerate(COUNTERS):
            owed = series.numbers[_OWED + index]
            if not owed:
                continue
            series.numbers[_OWED + index] = 0
            for (start, end), value in zip(pieces, _spread(owed, pieces), strict=True):
                if value:
                    series.numbers[_CUMULATIVE + index] += value
                    self._append(series, index, meter, value, series.numbers[_CUMULATIVE + index], start, end, now_ms)

    def _gauge(self, series: _Series, totals: TopicTotals, pieces: list[tuple[int, int]], now_ms: int) -> None:
        """Gauges hold the value at the interval's end. A zero after a zero says nothing new and is left out."""
        for index, (meter, value) in enumerate(zip(GAUGES, totals.gauges, strict=True)):
            if not value and not series.numbers[_GAUGE + index]:
                continue
            series.numbers[_GAUGE + index] = value
            for start, end in pieces:
                self._append(series, _COUNTERS + index, meter, value, value, start, end, now_ms)

    def _append(
        self, series: _Series, index: int, meter: str, value: int, cumulative: int, start: int, end: int, now_ms: int
    ) -> None:
        tenant, namespace, topic = series.names
        seq = series.numbers[_NEXT_SEQ + index]
        series.numbers[_NEXT_SEQ + index] = seq + 1
        name = series_name(meter, series.tenant_uid, topic)
        self._pending.append(
            UsageRecord(
                self.source, self.boot_epoch, name, seq, tenant, namespace, topic, meter, value, cumulative, start, end, now_ms,
                SCHEMA_VERSION, series.tenant_uid,
            )
        )  # fmt: skip


def _pieces(start_ms: int, end_ms: int) -> list[tuple[int, int]]:
    """[start, end) cut at full hours and after each minute."""
    pieces = []
    while start_ms < end_ms:
        cut = min(end_ms, start_ms + INTERVAL_MS_MAX, hour_start_ms(start_ms) + HOUR_MS)
        pieces.append((start_ms, cut))
        start_ms = cut
    return pieces


def _spread(amount: int, pieces: list[tuple[int, int]]) -> Iterator[int]:
    """`amount` in proportion to the widths of the pieces, in integers whose sum is `amount`."""
    first, last = pieces[0][0], pieces[-1][1]
    given = 0
    for _, end in pieces:
        due = amount * (end - first) // (last - first)
        yield due - given
        given = due
