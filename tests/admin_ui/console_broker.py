"""A real broker whose figures a test says: rates, sizes and connected clients, but not which topics and subscriptions there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.topics import (
    LiveAsked,
    LiveTotals,
    NamespaceLive,
    Stats,
    TopicClient,
    TopicLive,
    TopicMembers,
    TopicMembersAsked,
    TopicRef,
    TopicsRanked,
    TopicsRankedAsked,
)
from messaging.broker.runtime.admin.stats.ranking import in_order
from messaging.problems.order import Problem
from messaging.protocol.names import TopicName, parse_topic
from messaging.storage.meta_store import partitioned_name
from tenants import broker as control_plane
from tests.admin_ui.scripted_live import ScriptedLive
from tests.support.brokers.broker_line import BrokerLine
from tests.support.brokers.memory_broker import MemoryBroker

_KEYS = {"backlog": "msgBacklog", "oldest": "oldestBacklogMessageAgeSeconds"}  # of figures, in the stats


class ConsoleBroker(BrokerLine):
    """`live` has the rows of topics with figures of a test, `stats` the figures of single topics: both replace what the broker says
    of them."""

    def __init__(self, real: MemoryBroker) -> None:
        super().__init__(real)
        self.real = real
        self.live = ScriptedLive()
        self.stats: dict[str, dict[str, object]] = {}

    @property
    def topics(self) -> set[str]:
        return set(self.real.topics)

    def set_rows(self, namespace: str, rows: Sequence[TopicLive]) -> None:
        """From now on the namespace has these topics and no other, with these figures."""
        self.live.rows[namespace] = list(rows)
        names = [parse_topic(row.topic) for row in rows]
        partitions: dict[TopicName, int] = {}
        for name in names:
            if name.partition >= 0:
                partitions[name.base] = max(partitions.get(name.base, 0), name.partition + 1)
        self.real.have(namespace, {str(name) for name in names if name.partition < 0}, {str(k): n for k, n in partitions.items()})

    def set_problems(self, *problems: Problem) -> None:
        """The broker has noticed these, in topics that are not loaded, and has looked at everything."""

        async def notice() -> None:
            watch = self.real.service.problems
            for topic in dict.fromkeys(problem.topic for problem in problems):
                of_topic = [problem for problem in problems if problem.topic == topic]
                watch.put(topic, of_topic[0].tenant, of_topic)
            await watch.look()
            await self.real.service.stored_problems.read()

        self.real.run(notice())

    def perform(self, method: Method[R, A], request: R) -> A:
        answer = super().perform(method, request)
        if isinstance(answer, NamespaceLive) and isinstance(request, LiveAsked):
            scripted = self.live.answer(request.namespace)
            figures = {row.topic: row for row in scripted.topics}
            answer.topics = [figures.get(row.topic, row) for row in answer.topics]
            if answer.totals is not None:
                answer.totals = _totals(scripted.topics)
            answer.sequence, answer.at_ms, answer.boot_epoch = scripted.sequence, scripted.at_ms, scripted.boot_epoch
        elif isinstance(answer, TopicsRanked) and isinstance(request, TopicsRankedAsked):
            values = {row.topic: getattr(row, request.figure) for row in self.live.rows.get(request.namespace, []) if row.loaded}
            values = {topic: value for topic, value in values.items() if request.words in topic.rpartition("/")[2]}
            answer.topics = in_order(values, request.descending)[: request.limit]
            answer.values, answer.matching = [values[topic] for topic in answer.topics], len(values)
        elif isinstance(answer, TopicMembers) and isinstance(request, TopicMembersAsked):
            _put_members(answer, self.stats.get(request.topic, {}), request.figures)
        elif isinstance(answer, Stats) and isinstance(request, TopicRef):
            answer.stats = {**answer.stats, **self.stats.get(request.topic, {})}
        return answer


def _put_members(answer: TopicMembers, stats: Mapping[str, Any], figures: Sequence[str]) -> None:
    if "publishers" in stats:
        answer.producers = [
            TopicClient(one.get("producerName", ""), one.get("address", ""), "", one.get("schemaVersion"))
            for one in stats["publishers"]
        ]
    told = stats.get("subscriptions")
    if told is None:
        return
    answer.subscriptions = list(told)
    answer.figures = {figure: [one.get(_KEYS.get(figure, ""), 0) for one in told.values()] for figure in figures}
    if "consumers" in answer.figures:
        answer.figures["consumers"] = [len(one.get("consumers", ())) for one in told.values()]
    answer.consumers = [
        TopicClient(consumer.get("consumerName", ""), consumer.get("address", ""), name, consumer.get("schemaVersion"))
        for name, one in told.items()
        for consumer in one.get("consumers", ())
    ]


def _totals(rows: list[TopicLive]) -> LiveTotals:
    added = set(LiveTotals.__struct_fields__) & set(TopicLive.__struct_fields__)
    return LiveTotals(
        topics=len({partitioned_name(row.topic) for row in rows}),
        at_rest=sum(not row.loaded for row in rows),
        stored=sum(row.loaded for row in rows),
        **{name: sum(getattr(row, name) or 0 for row in rows) for name in added},
    )


@contextmanager
def console_broker() -> Iterator[ConsoleBroker]:
    """What the console calls. Its pages call from threads that see nothing of a test's transaction: this broker is told changes,
    and does not ask for them."""
    real = MemoryBroker()
    line = ConsoleBroker(real)
    control_plane.use(line)
    try:
        yield line
    finally:
        control_plane.use(None)
        real.stop()
