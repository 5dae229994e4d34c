"""A broker that is only what a test says it is: which topics there are, what their rates are, and whether it answers."""

from __future__ import annotations

from typing import Any, TypeVar

from messaging.adminrpc import schema as s
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.schema import NamespaceLive, TopicLive
from messaging.errors import Conflict, NotReady, TopicNotFound
from messaging.protocol.names import parse_topic
from tenants import feed
from tests.support.feed_holder import FeedHolder

A = TypeVar("A", bound=s.Answer)


def live_row(topic: str, **values: object) -> TopicLive:
    fields: dict[str, object] = {
        "loaded": True, "rate_in": 0.0, "rate_out": 0.0, "throughput_in": 0.0, "throughput_out": 0.0, "messages_in": 0,
        "messages_out": 0, "storage_bytes": 0, "backlog_entries": 0, "producers": 0, "subscriptions": 0, "consumers": 0,
    }  # fmt: skip
    return TopicLive(topic=topic, **{**fields, **values})  # type: ignore[arg-type]


def unloaded_row(topic: str) -> TopicLive:
    unknown = ("messages_in", "messages_out", "storage_bytes", "backlog_entries", "subscriptions")
    return live_row(topic, loaded=False, **dict.fromkeys(unknown))


class FakeLive:
    """`poll` is what `LiveHub` calls. Counts how often each namespace was asked for; `away` makes it fail."""

    def __init__(self) -> None:
        self.rows: dict[str, list[TopicLive]] = {}
        self.asked: dict[str, int] = {}
        self.away = ""
        self.boot_epoch = 7
        self.sequence = 0

    async def poll(self, namespace: str) -> NamespaceLive:
        self.asked[namespace] = self.asked.get(namespace, 0) + 1
        if self.away:
            raise NotReady(self.away)
        return self.answer(namespace)

    def answer(self, namespace: str) -> NamespaceLive:
        self.sequence += 1
        return NamespaceLive(
            sequence=self.sequence,
            at_ms=1_700_000_000_000 + 1000 * self.sequence,
            boot_epoch=self.boot_epoch,
            topics=list(self.rows.get(namespace, [])),
        )


class FakeBroker(TypedCalls):
    """The methods that the console and its actions call. `away` makes every call fail. A test writes, calls read."""

    def __init__(self) -> None:
        self.live = FakeLive()
        self.topics: set[str] = set()
        self.partitioned: dict[str, int] = {}
        self.subscriptions: list[tuple[str, str]] = []
        self.stats: dict[str, dict[str, Any]] = {}
        self.called: list[str] = []
        self.feed = FeedHolder()
        self.away = ""

    def set_rows(self, namespace: str, rows: list[TopicLive]) -> None:
        self.live.rows[namespace] = rows
        self.topics = {row.topic for found in self.live.rows.values() for row in found}

    def perform(self, method: str, request: s.Request, answer_type: type[A]) -> A:
        self.called.append(method)
        if self.away:
            raise NotReady(self.away)
        answer = getattr(self, "do_" + method.replace(".", "_"))(request)
        assert isinstance(answer, answer_type)
        return answer

    def do_status(self, request: s.Request) -> s.BrokerStatus:
        return s.BrokerStatus(
            broker_id="broker-1",
            boot_epoch=7,
            version="0.1.0",
            uptime_ms=3_723_000,
            ready=True,
            why_not_ready="",
            feed_version=self.feed.version,
            connections=12,
            topics_loaded=len(self.topics),
            producers=5,
            consumers=9,
            hot_loops="compiled",
            durability="sync",
            resident_bytes=71_000_000,
        )

    def do_feed_version(self, request: s.Request) -> s.FeedVersion:
        return s.FeedVersion(version=self.feed.version)

    def do_feed_pull(self, request: s.Request) -> s.FeedVersion:
        return s.FeedVersion(version=self.feed.pull(feed.since))

    def do_feed_apply(self, request: s.FeedApply) -> s.FeedVersion:
        return s.FeedVersion(version=self.feed.apply(request))

    def do_namespaces_live(self, request: s.TopicsList) -> NamespaceLive:
        self.live.asked[request.namespace] = self.live.asked.get(request.namespace, 0) + 1
        return self.live.answer(request.namespace)

    def do_namespaces_purge(self, request: s.TopicsList) -> s.Empty:
        return s.Empty()

    def do_topics_list(self, request: s.TopicsList) -> s.TopicNames:
        here = f"persistent://{request.namespace}/"
        return s.TopicNames(
            topics=sorted(topic for topic in self.topics if topic.startswith(here)),
            partitioned={topic: count for topic, count in self.partitioned.items() if topic.startswith(here)},
        )

    def do_names_search(self, request: s.NamesSearch) -> s.SearchResult:
        def has(name: str) -> bool:
            of_tenant = request.everywhere or name.partition("://")[2].partition("/")[0] in request.tenants
            return of_tenant and request.words in name.partition("://")[2].lower()

        subscriptions = [
            s.SubscriptionFound(topic=topic, name=name) for topic, name in self.subscriptions if has(f"{topic}/{name}")
        ]
        return s.SearchResult(
            topics=sorted(filter(has, self.topics))[: request.limit], subscriptions=subscriptions[: request.limit]
        )

    def do_topics_create(self, request: s.TopicCreate) -> s.Empty:
        if request.topic in self.topics or request.topic in self.partitioned:
            raise Conflict(f"topic {request.topic} already exists")
        names = [request.topic]
        if request.partitions:
            self.partitioned[request.topic] = request.partitions
            names = [f"{request.topic}-partition-{index}" for index in range(request.partitions)]
        self.topics.update(names)
        rows = self.live.rows.setdefault(str(parse_topic(request.topic).namespace), [])
        rows.extend(live_row(name) for name in names)
        return s.Empty()

    def do_topics_delete(self, request: s.TopicDelete) -> s.Empty:
        if request.topic not in self.topics and request.topic not in self.partitioned:
            raise TopicNotFound(f"topic {request.topic} does not exist")
        gone = {topic for topic in self.topics if topic == request.topic or topic.startswith(f"{request.topic}-partition-")}
        self.partitioned.pop(request.topic, None)
        self.topics -= gone
        for rows in self.live.rows.values():
            rows[:] = [row for row in rows if row.topic not in gone]
        return s.Empty()

    def do_topics_partitions(self, request: s.PartitionsGet) -> s.Partitions:
        return s.Partitions(partitions=self.partitioned.get(request.topic, 0))

    def do_topics_stats(self, request: s.TopicRef) -> s.Stats:
        if request.topic not in self.topics:
            raise TopicNotFound(f"topic {request.topic} does not exist")
        return s.Stats(stats=self.stats.get(request.topic, {}))

    def do_topics_partitioned_stats(self, request: s.TopicRef) -> s.Stats:
        partitions = {f"{request.topic}-partition-{index}": {"msgRateIn": 1.0} for index in range(self.partitioned[request.topic])}
        return s.Stats(stats={"partitions": partitions, **self.stats.get(request.topic, {})})
