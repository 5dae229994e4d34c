"""A broker in memory behind the admin RPC: the real view of the feed, and topics that are names."""

from __future__ import annotations

import base64
from typing import Any, TypeVar

import msgspec

from messaging import errors
from messaging.adminrpc import schema as s
from messaging.adminrpc.calls import TypedCalls
from tenants import feed
from tests.support.feed_holder import FeedHolder

A = TypeVar("A", bound=s.Answer)
LATEST = 2**63 - 1


class FakeBroker(TypedCalls):
    """`away`: does not answer. `deaf_to_feed`: answers, but takes no changes. `calls`: every (method, request), in order.

    Requests and answers go through JSON, as on the wire.
    """

    def __init__(self) -> None:
        self.away = False
        self.deaf_to_feed = False
        self.calls: list[tuple[str, Any]] = []
        self.feed = FeedHolder()
        self.topics: dict[str, set[str]] = {}  # plain topics and partitions -> subscriptions
        self.partitioned: dict[str, tuple[int, dict[str, str]]] = {}
        self.attached: set[str] = set()  # topics with a producer

    def perform(self, method: str, request: s.Request, answer_type: type[A]) -> A:
        request_type, declared = s.METHODS[method]
        assert declared is answer_type
        if self.away:
            raise errors.NotReady("the broker is not responding at http://127.0.0.1:1: check that it is running, and try again")
        received = msgspec.json.decode(msgspec.json.encode(request), type=request_type)
        self.calls.append((method, received))
        answer = getattr(self, method.replace(".", "_"))(received)
        return msgspec.json.decode(msgspec.json.encode(answer or s.Empty()), type=answer_type)

    def called(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    # --- the feed

    @property
    def version(self) -> int:
        return self.feed.version

    @property
    def state(self) -> dict[tuple[str, str], dict[str, Any]]:
        return self.feed.state

    def feed_apply(self, request: s.FeedApply) -> s.FeedVersion:
        return s.FeedVersion(version=self.version if self.deaf_to_feed else self.feed.apply(request))

    def feed_pull(self, request: s.Request) -> s.FeedVersion:
        return s.FeedVersion(version=self.feed.pull(feed.since))

    # --- topics

    def _require(self, topic: str) -> set[str]:
        if topic not in self.topics:
            raise errors.TopicNotFound(f"topic {topic} does not exist")
        return self.topics[topic]

    def topics_list(self, request: s.TopicsList) -> s.TopicNames:
        def inside(topic: str) -> bool:
            return topic.partition("://")[2].startswith(request.namespace + "/")

        return s.TopicNames(
            topics=sorted(topic for topic in self.topics if inside(topic)),
            partitioned={topic: count for topic, (count, _) in sorted(self.partitioned.items()) if inside(topic)},
        )

    def namespaces_purge(self, request: s.TopicsList) -> None:
        if request.namespace in self.feed.view.namespaces:
            raise errors.PreconditionFailed(f"namespace {request.namespace} exists")
        names = self.topics_list(request)
        for name in (*names.topics, *names.partitioned):
            self.topics.pop(name, None)
            self.partitioned.pop(name, None)

    def topics_create(self, request: s.TopicCreate) -> None:
        if request.topic in self.topics or request.topic in self.partitioned:
            raise errors.Conflict(f"topic {request.topic} already exists")
        if request.partitions is None:
            self.topics[request.topic] = set()
            return
        self.partitioned[request.topic] = (request.partitions, request.properties)
        for index in range(request.partitions):
            self.topics[f"{request.topic}-partition-{index}"] = set()

    def topics_delete(self, request: s.TopicDelete) -> None:
        if not request.partitioned and request.topic in self.partitioned:
            raise errors.Conflict(f"topic {request.topic} is partitioned")
        if request.partitioned and request.topic not in self.partitioned:
            raise errors.TopicNotFound(f"topic {request.topic} does not exist")
        count = self.partitioned[request.topic][0] if request.partitioned else 0
        names = [f"{request.topic}-partition-{index}" for index in range(count)] or [request.topic]
        for name in names:
            if (self._require(name) or name in self.attached) and not request.force:
                raise errors.PreconditionFailed(f"topic {name} has active producers or subscriptions")
        for name in names:
            del self.topics[name]
        self.partitioned.pop(request.topic, None)

    def topics_partitions(self, request: s.PartitionsGet) -> s.Partitions:
        if request.topic in self.partitioned:
            count, properties = self.partitioned[request.topic]
            return s.Partitions(partitions=count, properties=properties)
        if not request.check_auto_creation:
            self._require(request.topic)
        return s.Partitions(partitions=0)

    def topics_update_partitions(self, request: s.PartitionsUpdate) -> None:
        if request.topic not in self.partitioned:
            raise errors.Conflict(f"topic {request.topic} is not partitioned")
        count, properties = self.partitioned[request.topic]
        if request.partitions < count:
            raise errors.PreconditionFailed(f"topic {request.topic} has {count} partitions: it cannot have fewer")
        self.partitioned[request.topic] = (request.partitions, properties)
        for index in range(count, request.partitions):
            self.topics[f"{request.topic}-partition-{index}"] = set()

    def topics_lookup(self, request: s.TopicLookup) -> s.LookupAnswer:
        return s.LookupAnswer(broker_url="pulsar://127.0.0.1:6650", broker_url_tls="", http_url="", http_url_tls="")

    def topics_stats(self, request: s.TopicRef) -> s.Stats:
        names = self._require(request.topic)
        return s.Stats(stats={"msgRateIn": 0.0, "subscriptions": {name: {"msgBacklog": 0} for name in sorted(names)}})

    def topics_internal_stats(self, request: s.TopicRef) -> s.Stats:
        self._require(request.topic)
        return s.Stats(stats={"numberOfEntries": 0, "cursors": {}})

    def topics_partitioned_stats(self, request: s.TopicRef) -> s.Stats:
        if request.topic not in self.partitioned:
            raise errors.TopicNotFound(f"topic {request.topic} does not exist")
        count = self.partitioned[request.topic][0]
        parts = {f"{request.topic}-partition-{index}": {"msgRateIn": 0.0} for index in range(count)}
        return s.Stats(stats={"metadata": {"partitions": count}, "partitions": parts})

    def topics_unload(self, request: s.TopicRef) -> None:
        self._require(request.topic)

    def topics_terminate(self, request: s.TopicRef) -> s.MessageIdAnswer:
        self._require(request.topic)
        return s.MessageIdAnswer(ledger_id=3, entry_id=9)

    def topics_truncate(self, request: s.TopicRef) -> None:
        if request.topic not in self.partitioned:
            self._require(request.topic)

    def topics_last_message_id(self, request: s.TopicRef) -> s.MessageIdAnswer:
        self._require(request.topic)
        return s.MessageIdAnswer(ledger_id=3, entry_id=8)

    def health(self, request: s.Request) -> None: ...

    # --- subscriptions

    def _subscription(self, request: Any) -> set[str]:
        names = self._require(request.topic)
        if request.subscription not in names:
            raise errors.SubscriptionNotFound(f"subscription {request.subscription} does not exist")
        return names

    def subscriptions_list(self, request: s.TopicRef) -> s.SubscriptionNames:
        return s.SubscriptionNames(subscriptions=sorted(self._require(request.topic)))

    def subscriptions_create(self, request: s.SubscriptionCreate) -> s.SubscriptionMoved:
        names = self._require(request.topic)
        if request.subscription in names:
            raise errors.Conflict(f"subscription {request.subscription} already exists")
        names.add(request.subscription)
        return s.SubscriptionMoved(moved={request.topic: ("", "3:8")})

    def subscriptions_delete(self, request: s.SubscriptionDelete) -> s.SubscriptionMoved:
        names = self._subscription(request)
        if request.topic in self.attached and not request.force:
            raise errors.PreconditionFailed(f"subscription {request.subscription} has active consumers")
        names.discard(request.subscription)
        return s.SubscriptionMoved(moved={request.topic: ("3:1", "")})

    def subscriptions_skip(self, request: s.SubscriptionSkip) -> s.SubscriptionMoved:
        self._subscription(request)
        return s.SubscriptionMoved(moved={request.topic: ("3:1", "3:8")})

    def subscriptions_reset(self, request: s.SubscriptionReset) -> None:
        assert (request.timestamp_ms is None) != (request.ledger_id is None or request.entry_id is None)
        self._subscription(request)

    def subscriptions_expire(self, request: s.SubscriptionExpire) -> s.SubscriptionMoved:
        self._subscription(request)
        return s.SubscriptionMoved(moved={request.topic: ("3:1", "3:8")})

    def subscriptions_peek(self, request: s.SubscriptionPeek) -> s.PeekAnswer:
        self._subscription(request)
        payload = base64.b64encode(b"stored bytes").decode()
        return s.PeekAnswer(ledger_id=3, entry_id=request.position, payload=payload, headers={"X-Pulsar-num-batch-message": "1"})
