"""Running totals of topics in, gapless usage records out. Pure: it receives the time as an argument and does no I/O.

    recorder = UsageRecorder("broker-1", boot_epoch=7, now_ms=...)
    recorder.sample(now_ms, totals of all loaded topics)     at least once per minute and at each full hour (`next_cut_ms`)
    recorder.retire(last totals)                             when a topic is unloaded or deleted
    recorder.rest(totals of a topic)                         it is stored but not loaded: what it holds is recorded all the same
    records = recorder.pending(); write them; recorder.confirm(len(records))

What is promised:
- Each unit that a counter rose by stands in exactly one record; `seq` has no gap per (source, boot_epoch, series).
- A record is forgotten only when `confirm` says that it is on disk. While `PENDING_RECORDS_MAX` are waiting no new ones are made:
  counters lose nothing by that (the next sample carries the whole rise), gauges have a silence.
- A crash loses what was not confirmed (the running interval, records that wait). Nobody is charged for that usage.
- What a topic that is not loaded holds is said within `GAUGE_CARRY_MS_MAX`, every minute as long as those are not very many.
- Meters of topics are complete. Of those of clients and subscriptions only so many series are kept, in all and for a tenant: what
  would need more is not attributed.
- A series whose topic, client or subscription is gone is forgotten as soon as it is said. If it comes again, its numbers begin at
  another span (`messaging.usage_schema`), so nothing is kept for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from messaging.broker.usage.record import HOUR_MS, DetailTotals, TopicTotals, UsageRecord, hour_start_ms
from messaging.broker.usage.series import Series, SeriesKey
from messaging.usage_schema import GAUGE_CARRY_MS_MAX, INTERVAL_MS_MAX, SCHEMA_VERSION, SCOPES, TOPIC, series_name

PENDING_RECORDS_MAX = 200_000  # about 60 MiB; a broker reaches it when its disk refuses usage files for a long time
DETAILS_MAX = 200_000  # series of clients, subscriptions and keys; about 500 bytes each
DETAILS_OF_TENANT_MAX = 50_000
RESTING_A_SAMPLE = 20_000  # topics that are not loaded
RESTING_SHARE = 4  # at least this part of them at each sample, one a minute: well within `GAUGE_CARRY_MS_MAX`

# A timer fires some milliseconds late. What rose in them is counted before the cut, so that one minute makes one record, not two.
LATE_MS_MAX = 250


class UsageRecorder:
    """See the module. Not thread-safe; one owner. `boot_epoch` rises with each start of the broker `broker_id`."""

    def __init__(self, broker_id: str, boot_epoch: int, now_ms: int) -> None:
        self.source = broker_id
        self.boot_epoch = boot_epoch
        self.interval_start_ms = self.started_ms = now_ms
        self._series: dict[SeriesKey, Series] = {}
        self._forgotten = 0  # series, since the boot
        self._samples = 0
        self._details: Counter[tuple[str, str]] = Counter()  # by tenant
        self._details_kept = 0
        self._owing: set[SeriesKey] = set()  # with a rise that no record holds yet
        self._resting: dict[str, TopicTotals] = {}  # topics that are not loaded, the one last said of last
        self._pending: list[UsageRecord] = []

    @property
    def next_cut_ms(self) -> int:
        """When the current interval must end: a minute after its start, or at the full hour if that is sooner."""
        start = self.interval_start_ms
        return min(start + INTERVAL_MS_MAX, hour_start_ms(start) + HOUR_MS)

    def retire(self, totals: TopicTotals) -> None:
        """The topic is unloaded or deleted, these are its last totals; if it is loaded again, its counters start at 0. What it
        still holds it goes on to hold: one that was deleted has gauges of 0.

        A topic that merely is missing from a sample is taken to continue later from the totals it had: nothing is counted twice.
        """
        for part in totals.parts():
            key = _key(totals, part)
            series = self._of(key, part)
            if series is not None:
                if series.rise(part.counters):
                    self._owing.add(key)
                series.unloaded()
        self._resting[totals.topic] = totals._replace(details=())

    def gone(self, topic: str) -> None:
        """It was deleted without being loaded: it holds nothing from here on."""
        totals = self._resting.get(topic)
        if totals is not None:
            self._resting[topic] = totals._replace(stored_bytes=0, backlog_entries=0)

    def keep(self, has: Callable[[str], bool]) -> None:
        """Only of the topics that `has` says so of is what they hold said from here on: the others have another owner."""
        self._resting = {topic: totals for topic, totals in self._resting.items() if has(topic)}

    def rest(self, totals: TopicTotals) -> None:
        """A topic that was not loaded yet holds what `totals` says, until it is loaded. Of one that was, its last totals count."""
        self._resting.setdefault(totals.topic, totals)

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
        self._samples += 1
        for totals in topics:
            self._resting.pop(totals.topic, None)
            for part in totals.parts():
                key = _key(totals, part)
                series = self._of(key, part)
                if series is not None:
                    if series.rise(part.counters):
                        self._count(key, series, pieces, now_ms)
                    self._gauge(key, series, part.gauges, pieces, now_ms)
        for key in sorted(self._owing):
            self._count(key, self._series[key], pieces, now_ms)
        self._owing.clear()
        self._say_resting(pieces, now_ms)
        gone = [key for key, series in self._series.items() if series.sampled != self._samples and key.scope != TOPIC]
        for key in gone:
            self._forget(key)
        self.interval_start_ms = end_ms
        return len(self._pending) - before

    def pending(self, limit: int = PENDING_RECORDS_MAX) -> list[UsageRecord]:
        """The oldest unconfirmed records, oldest first. They stay until `confirm`."""
        return list(islice(self._pending, limit))

    def confirm(self, count: int) -> None:
        """The first `count` records of `pending` are durable."""
        assert 0 <= count <= len(self._pending)
        del self._pending[:count]

    def _of(self, key: SeriesKey, part: DetailTotals) -> Series | None:
        """None for what never had anything to report: an idle topic takes no memory here. Also for details beyond their limit."""
        series = self._series.get(key)
        if series is None:
            if not (any(part.counters) or any(part.gauges)) or not self._may_keep(key):
                return None
            series = self._series[key] = Series(part.scope, self._forgotten)
        series.sampled = self._samples
        return series

    def _may_keep(self, key: SeriesKey) -> bool:
        if key.scope == TOPIC:
            return True
        tenant = (key.tenant, key.tenant_uid)
        if self._details_kept >= DETAILS_MAX or self._details[tenant] >= DETAILS_OF_TENANT_MAX:
            return False
        self._details_kept += 1
        self._details[tenant] += 1
        return True

    def _forget(self, key: SeriesKey) -> None:
        """Unless totals of it may come that continue from what it had."""
        series = self._series.get(key)
        if series is None or not series.settled:
            return
        del self._series[key]
        self._forgotten += 1
        if key.scope != TOPIC:
            tenant = (key.tenant, key.tenant_uid)
            self._details_kept -= 1
            self._details[tenant] -= 1
            if not self._details[tenant]:
                del self._details[tenant]

    def _say_resting(self, pieces: list[tuple[int, int]], now_ms: int) -> None:
        """Of so many that each has its turn in time, those that had theirs longest ago. One that holds nothing says so once."""
        turn = max(RESTING_A_SAMPLE, -(-len(self._resting) // RESTING_SHARE))
        for topic in list(islice(self._resting, turn)):
            totals = self._resting.pop(topic)
            if any(totals.gauges):
                self._resting[topic] = totals
            part = next(totals.parts())
            key = _key(totals, part)
            series = self._of(key, part)
            if series is not None:
                self._gauge(key, series, part.gauges, pieces, now_ms)
            if not any(totals.gauges):
                self._forget(key)

    def _count(self, key: SeriesKey, series: Series, pieces: list[tuple[int, int]], now_ms: int) -> None:
        self._owing.discard(key)
        for index, meter in enumerate(SCOPES[key.scope][0]):
            owed = series.take_owed(index)
            if not owed:
                continue
            for (start, end), value in zip(pieces, _spread(owed, pieces), strict=True):
                if value:
                    self._append(key, series, index, meter, value, series.accumulate(index, value), start, end, now_ms)

    def _gauge(self, key: SeriesKey, series: Series, values: tuple[int, ...], pieces: list[tuple[int, int]], now_ms: int) -> None:
        """Gauges hold the value at the interval's end."""
        counters, gauges = SCOPES[key.scope]
        for index, (meter, value) in enumerate(zip(gauges, values, strict=True)):
            if series.gauge(index, value):
                for start, end in pieces:
                    self._append(key, series, len(counters) + index, meter, value, value, start, end, now_ms)

    def _append(
        self, key: SeriesKey, series: Series, index: int, meter: str, value: int, cumulative: int, start: int, end: int, now_ms: int
    ) -> None:
        name = series_name(meter, key.tenant_uid, key.topic or key.namespace, key.subscription, key.key)
        self._pending.append(
            UsageRecord(
                self.source, self.boot_epoch, name, series.next_seq(index), key.tenant, key.namespace, key.topic, meter, value,
                cumulative, start, end, now_ms, SCHEMA_VERSION, key.tenant_uid, key.subscription, key.key,
            )
        )  # fmt: skip


def _key(totals: TopicTotals, part: DetailTotals) -> SeriesKey:
    return SeriesKey(part.scope, totals.tenant, totals.tenant_uid, totals.namespace, totals.topic, part.subscription, part.key)


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
