"""Rows of the live table, and a source of them for the hub, as a test says them."""

from __future__ import annotations

from messaging.adminrpc.topics import LiveAsked, NamespaceLive, TopicLive
from messaging.errors import NotReady
from messaging.storage.meta_store import partitioned_name


def live_row(topic: str, **values: object) -> TopicLive:
    fields: dict[str, object] = {
        "loaded": True, "rate_in": 0.0, "rate_out": 0.0, "throughput_in": 0.0, "throughput_out": 0.0, "messages_in": 0,
        "messages_out": 0, "storage_bytes": 0, "backlog_entries": 0, "producers": 0, "subscriptions": 0, "consumers": 0,
    }  # fmt: skip
    return TopicLive(topic=topic, **{**fields, **values})  # type: ignore[arg-type]


def unloaded_row(topic: str) -> TopicLive:
    unknown = ("messages_in", "messages_out", "storage_bytes", "backlog_entries", "subscriptions")
    return live_row(topic, loaded=False, **dict.fromkeys(unknown))


class ScriptedLive:
    """Snapshots that a test says: `poll` is what `LiveHub` calls. Counts how often each namespace was asked for; `away` makes it
    fail."""

    def __init__(self) -> None:
        self.rows: dict[str, list[TopicLive]] = {}
        self.asked: dict[str, int] = {}
        self.away = ""
        self.boot_epoch = 7
        self.sequence = 0

    async def poll(self, asked: LiveAsked) -> NamespaceLive:
        self.asked[asked.namespace] = self.asked.get(asked.namespace, 0) + 1
        if self.away:
            raise NotReady(self.away)
        answer = self.answer(asked.namespace)
        if asked.names:
            answer.topics = [row for row in answer.topics if {row.topic, partitioned_name(row.topic)} & set(asked.names)]
        return answer

    def answer(self, namespace: str) -> NamespaceLive:
        """All rows of the namespace."""
        self.sequence += 1
        return NamespaceLive(
            sequence=self.sequence,
            at_ms=1_700_000_000_000 + 1000 * self.sequence,
            boot_epoch=self.boot_epoch,
            topics=list(self.rows.get(namespace, [])),
        )
