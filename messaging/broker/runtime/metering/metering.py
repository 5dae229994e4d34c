"""Metering of topics: rates of active topics, running totals, and usage records."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

import structlog

from messaging.background import BackgroundLoops
from messaging.broker.runtime.metering.history import HistorySampler, note_second
from messaging.broker.runtime.metering.totals import totals_of
from messaging.broker.runtime.topics.loaded_topic import LoadedTopic, TopicCounters
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.topics.topic_rates import TopicRates
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.broker.usage.collector import UsageCollector
from messaging.broker.usage.record import TopicTotals
from messaging.clock import boottime_ms

log = structlog.get_logger("broker.metering")

TOTALS = TopicCounters._fields
RETRY_S = 5.0
SAMPLES_MAX = 1_000  # topics a second
MEMBERS_MAX = 2_000  # producers, subscriptions and consumers per second, over all sampled topics
MEMBERS_MIN = 4  # per topic, however many topics there are


class Metering:
    def __init__(self, now_ms: Callable[[], int], background: BackgroundLoops, slices: Callable[[str], TurnSlices]) -> None:
        self.history = HistorySampler(now_ms, slices, background)
        self.usage: UsageCollector | None = None
        self.tenants: Iterable[TopicTotals] = ()
        self.retired = Counter[str]()  # totals of topics that were unloaded since the start
        self._now_ms = now_ms
        self._sampling = background.register("sample_rates")
        self._collecting = background.register("collect_usage")
        self.sampled_every_ms = 1_000  # each topic
        self._active: deque[LoadedTopic] = deque()  # those that have `rates`

    def active(self, topic: LoadedTopic) -> None:
        """Something happened there: its rates are sampled until it falls quiet."""
        topic.rates = TopicRates()
        topic.rates.mark = self.history.began(topic)
        self._active.append(topic)

    def unloaded(self, topic: Topic) -> None:
        self.history.unloaded(topic)
        topic.rates = None
        for name, total in zip(TOTALS, topic.totals, strict=True):
            self.retired[name] += total
        if self.usage is not None:
            self.usage.retire(totals_of(topic))

    def deleted(self, topic: str) -> None:
        if self.usage is not None:
            self.usage.gone(topic)

    def sample_rates(self) -> None:
        """Only topics where something happens are looked at, and of very many a part at a time, each in its turn: the rates of
        100,000 busy topics are then means over minutes, and cost no more than those of a thousand."""
        now_ms = boottime_ms()
        self.sampled_every_ms = 1_000 * max(1, len(self._active) // SAMPLES_MAX)
        turn = [self._active.popleft() for _ in range(min(len(self._active), SAMPLES_MAX))]
        members_max = max(MEMBERS_MIN, MEMBERS_MAX // max(1, len(turn)))
        self._sampling.each(turn, lambda topic: self._sample(topic, now_ms, members_max))

    def _sample(self, topic: LoadedTopic, now_ms: int, members_max: int) -> None:
        rates = topic.rates
        if rates is None:
            return
        self._active.append(topic)
        for rate, total in zip(rates.all(), topic.totals, strict=True):
            rate.sample(now_ms, total)
        if rates.mark is not None:
            note_second(rates.mark, topic, rates, self.sampled_every_ms)
        rates.members.sample(topic.producers, topic.subscriptions.table.values(), now_ms, members_max)
        if rates.quiet:
            self._active.pop()
            topic.rates = None

    def usage_totals(self, topics: Iterable[Topic]) -> Iterator[TopicTotals]:
        """Of each of the loaded `topics` when its turn comes. One that is closed by then is left out: its last totals were or will
        be `retired`."""
        for topic in topics:
            if topic.closed is None:
                try:
                    totals = totals_of(topic)
                except Exception as error:  # what it carried goes to the next interval; the other topics' usage does not wait
                    self._collecting.failed(error, topic=topic.text)
                else:
                    yield totals
        yield from self.tenants

    def wait_s(self) -> float:
        """Until the running interval of usage ends."""
        return max(self.usage.wait_ms(self._now_ms()), 50) / 1000 if self.usage is not None else RETRY_S

    async def collect(self) -> None:
        """Writes usage out, unless a flush came in between and began another interval. Raises `OSError`: the records are kept."""
        if self.usage is not None and not self.usage.wait_ms(self._now_ms()):
            await self.usage.collect()

    async def flush(self) -> None:
        """At the end: what cannot be written now is lost with the process."""
        if self.usage is None:
            return
        try:
            await self.usage.collect(ended=True)
        except OSError as error:
            log.error("usage.write_failed", error=str(error))
