"""What flows through the topics of a broker: rates of those where something happens, totals that never fall, and usage records."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

import structlog

from messaging.broker.runtime.admin.stats import max_backlog
from messaging.broker.runtime.topics.services import TopicRates
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.usage.collector import UsageCollector
from messaging.broker.usage.record import TopicTotals
from messaging.clock import passed_ms

log = structlog.get_logger("broker.metering")

TOTALS = ("messages_in", "bytes_in", "messages_out", "bytes_out")  # as `Topic.totals` has them
RETRY_S = 5.0
SAMPLES_MAX = 1_000  # topics a second


class Metering:
    """`topics` gives the loaded topics."""

    def __init__(self, topics: Callable[[], Iterable[Topic]], now_ms: Callable[[], int]) -> None:
        self.usage: UsageCollector | None = None
        self.retired = Counter[str]()  # totals of topics that were unloaded since the start
        self._topics = topics
        self._now_ms = now_ms
        self._active: deque[Topic] = deque()  # those that have `rates`

    def active(self, topic: Topic) -> None:
        """Something happened there: its rates are sampled until it falls quiet."""
        topic.rates = TopicRates()
        self._active.append(topic)

    def unloaded(self, topic: Topic) -> None:
        topic.rates = None
        for name, total in zip(TOTALS, topic.totals, strict=True):
            self.retired[name] += total
        if self.usage is not None:
            self.usage.retire(totals_of(topic))

    def sample_rates(self) -> None:
        """Only topics where something happens are looked at, and of very many a part at a time, each in its turn: the rates of
        100,000 busy topics are then means over minutes, and cost no more than those of a thousand."""
        now_ms = passed_ms()
        for _ in range(min(len(self._active), SAMPLES_MAX)):
            topic = self._active.popleft()
            rates = topic.rates
            if rates is None:
                continue
            for rate, total in zip(rates.all(), topic.totals, strict=True):
                rate.sample(now_ms, total)
            if all(rate.quiet for rate in rates.all()) and not any(one.consumers for one in topic.subscriptions.values()):
                topic.rates = None
            else:
                self._active.append(topic)

    def usage_totals(self) -> Iterator[TopicTotals]:
        """Of every topic when its turn comes. One that is closed by then is left out: its last totals were or will be `retired`."""
        for topic in self._topics():
            if topic.closed is None:
                yield totals_of(topic)

    async def collect(self) -> None:
        """Writes usage out, minute by minute, for ever."""
        while self.usage is not None:
            await asyncio.sleep(max(self.usage.wait_ms(self._now_ms()), 50) / 1000)
            if self.usage.wait_ms(self._now_ms()):
                continue  # a flush came in between and began another interval
            await self.flush()

    async def flush(self) -> None:
        if self.usage is None:
            return
        try:
            await self.usage.collect()
        except OSError as error:  # the records are kept and go with the next flush
            log.error("usage.write_failed", error=str(error))
            await asyncio.sleep(RETRY_S)


def totals_of(topic: Topic) -> TopicTotals:
    name = topic.name
    return TopicTotals(name.tenant, str(name.namespace), topic.text, *topic.totals, topic.ledger.stored_bytes, max_backlog(topic))
