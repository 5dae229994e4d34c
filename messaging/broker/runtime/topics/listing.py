"""The names of the topics of a namespace."""

from __future__ import annotations

from collections.abc import Iterable

from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol.names import PERSISTENT
from messaging.storage.meta_store import MetaStore


async def stored_names(meta: MetaStore, namespace: str) -> list[str]:
    """Of its persistent topics, partitions one by one."""
    names: list[str] = []
    after = PERSISTENT  # before the names of these, and after those of others
    while page := await meta.list_topics(namespace, after=after):
        names += page
        after = names[-1]
    return names


def unstored_names(loaded: Iterable[Topic]) -> list[str]:
    """Of its non-persistent topics: those that are loaded, as in Pulsar."""
    return sorted(topic.text for topic in loaded if not topic.keeps_messages)
