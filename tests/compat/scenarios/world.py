"""What a scenario may use: clients, topics and names of its own, and the admin API, on whatever platform it runs against."""

from __future__ import annotations

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pulsar

from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

COMPACTED_S = 60.0
Outcome = Any
"""JSON values: what a client observed, without what differs from run to run."""
Scenario = Callable[["World"], Outcome]


class Platform(NamedTuple):
    """Where the scenarios run. `token` is a superuser's, or None where everybody may do everything."""

    broker_url: str
    web_url: str
    ws_url: str
    token: str | None
    log_file: Path

    @classmethod
    def of(cls, standalone: Standalone, log_file: Path) -> Platform:
        ready = standalone.ready
        return cls(ready["broker_url"], ready["web_url"], ready["ws_url"], standalone.admin_token, log_file)


class Answer(NamedTuple):
    status: int
    body: Any


class World:
    """One scenario's view of the platform. Names are unique to the run, so that scenarios may run side by side and again."""

    def __init__(self, platform: Platform, scenario: str) -> None:
        self.platform = platform
        self._scenario = scenario
        self._run = f"{scenario}-{secrets.token_hex(4)}"
        self._logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(platform.log_file))
        self._clients: list[pulsar.Client] = []
        self._namespaces = 0

    # --- clients ---

    def new_client(self, **options: Any) -> pulsar.Client:
        """A client with a connection of its own."""
        token = self.platform.token
        authentication = None if token is None else pulsar.AuthenticationToken(token)
        options = {"operation_timeout_seconds": 10, **options}
        client = pulsar.Client(self.platform.broker_url, authentication, logger=self._logger, **options)
        self._clients.append(client)
        return client

    @cached_property
    def client(self) -> pulsar.Client:
        return self.new_client()

    def producer(self, topic: str, **options: Any) -> pulsar.Producer:
        """One message an entry, unless `options` say otherwise."""
        client = options.pop("client", None) or self.client
        return client.create_producer(topic, **{"batching_enabled": False, "send_timeout_millis": 10_000, **options})

    def consumer(self, topic: Any, name: str = "s", kind: str = "Exclusive", **options: Any) -> pulsar.Consumer:
        client = options.pop("client", None) or self.client
        return client.subscribe(topic, name, getattr(pulsar.ConsumerType, kind), **options)

    def reader(self, topic: str, start: Any = pulsar.MessageId.earliest, **options: Any) -> pulsar.Reader:
        return self.client.create_reader(topic, start, **options)

    def send(self, topic: str, *texts: str, **options: Any) -> list[Any]:
        """The ids of `texts`, sent one after the other by a producer that is closed afterwards."""
        producer = self.producer(topic, **options)
        ids = [producer.send(text.encode()) for text in texts]
        producer.close()
        return ids

    def send_batch(self, topic: str, *texts: str, key: str | None = None) -> list[Any]:
        """The ids of `texts`, sent as one batch."""
        producer = self.batching(topic, len(texts))
        ids = send_together(producer, *texts, partition_key=key)
        producer.close()
        return ids

    def batching(self, topic: str, size: int, **options: Any) -> pulsar.Producer:
        """A producer whose batches are full with `size` messages and wait for that long enough."""
        batch = {"batching_enabled": True, "batching_max_messages": max(size, 2), "batching_max_publish_delay_ms": 2_000}
        return self.producer(topic, **{**batch, **options})

    # --- names ---

    def name(self, suffix: str) -> str:
        return f"{self._run}-{suffix}"

    def topic(self, suffix: str = "t") -> str:
        return f"persistent://public/default/{self.name(suffix)}"

    def unstored_topic(self, suffix: str = "t") -> str:
        return f"non-{self.topic(suffix)}"

    def fixed_topic(self) -> str:
        """A topic of the same name in every run, for decisions that depend on the name; new all the same."""
        topic = f"persistent://public/default/fixed-{self._scenario}"
        self.admin("DELETE", f"{topic_path(topic)}?force=true")
        return topic

    def partitioned(self, partitions: int, suffix: str = "parts") -> str:
        topic = self.topic(suffix)
        answer = self.admin("PUT", f"{topic_path(topic)}/partitions", partitions)
        assert answer.status == 204, answer
        return topic

    def namespace(self, **policies: Any) -> str:
        """The prefix of topics in a namespace of its own, with policies by the names of their paths in the admin API."""
        self._namespaces += 1
        name = f"public/{self.name('n')}{self._namespaces}"
        answer = self.admin("PUT", f"namespaces/{name}", {"replication_clusters": ["standalone"]})
        assert answer.status == 204, answer
        for path, value in policies.items():
            answer = self.admin("POST", f"namespaces/{name}/{path}", value)
            assert answer.status == 204, (path, answer)
        return f"persistent://{name}/"

    def plain(self, text: str) -> str:
        """`text` without the names of this run."""
        return text.replace(self._run, "RUN")

    # --- the admin API ---

    def admin(self, method: str, path: str, body: Any = None) -> Answer:
        """One request below /admin/v2; any status is an answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.platform.web_url}/admin/v2/{path}", data=data, method=method)
        request.add_header("Content-Type", "application/json")
        if self.platform.token is not None:
            request.add_header("Authorization", f"Bearer {self.platform.token}")
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return Answer(response.status, _json(response.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _json(error.read()))

    def stats(self, topic: str) -> Any:
        answer = self.admin("GET", f"{topic_path(topic)}/stats")
        assert answer.status == 200, answer
        return answer.body

    def subscription_stats(self, topic: str, name: str = "s") -> Any:
        return self.stats(topic)["subscriptions"][name]

    def backlog(self, topic: str, name: str = "s") -> int:
        return int(self.subscription_stats(topic, name)["msgBacklog"])

    def compact(self, topic: str) -> str:
        """Compacts a topic. How that ended: SUCCESS."""
        path = f"{topic_path(topic)}/compaction"
        answer = self.admin("PUT", path)
        assert answer.status == 204, answer
        return str(self.settled(lambda: self.admin("GET", path).body["status"], "SUCCESS", COMPACTED_S))

    def settled(self, look: Callable[[], Any], wanted: Any, seconds: float = 3.0) -> Any:
        """What `look` finds: `wanted` as soon as it is that (acknowledgements are on their way), or what it is in the end."""
        seen: list[Any] = [None]

        def same() -> bool:
            seen[0] = look()
            return bool(seen[0] == wanted)

        try:
            eventually_sync(same, seconds)
        except AssertionError:
            pass
        return seen[0]

    def close(self) -> None:
        for client in self._clients:
            try:
                client.close()
            except pulsar.PulsarException:
                pass  # the scenario closed it


def topic_path(topic: str) -> str:
    return topic.replace("://", "/", 1)


def send_together(producer: pulsar.Producer, *texts: str, **options: Any) -> list[Any]:
    """The ids of `texts` that were handed to the producer at once."""
    ids: list[Any] = []
    for text in texts:
        producer.send_async(text.encode(), lambda result, identifier: ids.append(identifier), **options)
    producer.flush()
    return ids


def _json(data: bytes) -> Any:
    try:
        return json.loads(data or b"null")
    except ValueError:
        return data.decode(errors="replace")
