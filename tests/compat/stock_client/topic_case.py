"""A topic of a platform, its policies over the admin API, and a stock client of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pulsar

from tests.support.brokers.standalone import Standalone

EARLIEST, SHARED = pulsar.InitialPosition.Earliest, pulsar.ConsumerType.Shared


@dataclass
class Case:
    """A topic of its own, a client, and the policy that is tried; other policies can be set beside it."""

    standalone: Standalone
    client: pulsar.Client
    another: pulsar.Client
    topic: str

    @property
    def path(self) -> str:
        return f"/admin/v2/{self.topic.replace('://', '/')}"

    def set(self, path: str, value: Any, method: str = "POST") -> None:
        in_query = f"?messageTTL={value}" if path == "messageTTL" else ""
        body = None if in_query else value
        answer = self.standalone.http(method, f"{self.path}/{path}{in_query}", body, token=self.standalone.admin_token)
        assert answer.status == 204, answer.text

    def stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = self.standalone.http("GET", f"{self.path}/stats", token=self.standalone.admin_token).json()
        return stats

    def metrics(self) -> str:
        """Of the broker, as Prometheus scrapes them."""
        return self.standalone.http(
            "GET", "/metrics", token=self.standalone.admin_token, url=self.standalone.ready["ws_url"].replace("ws", "http", 1)
        ).text

    def produce(self, *payloads: bytes, **options: Any) -> float:
        """How long it took, in seconds."""
        producer = self.client.create_producer(self.topic, batching_enabled=False, **options)
        begin = time.monotonic()
        for payload in payloads:
            producer.send_async(payload, lambda result, message_id: None)
        producer.flush()
        producer.close()
        return time.monotonic() - begin

    def subscribe(self, name: str = "s", **options: Any) -> pulsar.Consumer:
        return self.client.subscribe(self.topic, name, **{"consumer_type": SHARED, "initial_position": EARLIEST, **options})
