"""The names of the topics of a namespace."""

from __future__ import annotations

from collections.abc import Iterable

from messaging.adminrpc.topics import PageTopic, TopicsPage
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol.names import PERSISTENT
from messaging.protocol.system_topics import without_system_topics
from messaging.storage.meta_store import MetaStore, partitioned_name


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


async def page_of_topics(
    meta: MetaStore, loaded: Iterable[Topic], namespace: str, after: str, limit: int, words: str = ""
) -> TopicsPage:
    """`loaded`: those of the namespace. The store is asked once for all that is stored, however long the list is. `words` (lower
    case): of topics whose local name contains them."""
    unstored = unstored_names(loaded) if after < PERSISTENT else []
    unstored = [name for name in unstored if words in name.split("/", 4)[4].lower()]
    while True:
        stored = await meta.page_of_topics(namespace, after=after, limit=limit + 1, words=words)
        rows = {topic.name: topic.partitions for topic in stored}
        end = stored[-1].name if len(stored) > limit else ""
        for name in await _without_parent(meta, unstored, rows, after, end, limit + 1):
            rows[name] = 0
        names = sorted(rows)
        more = len(names) > limit
        topics = [PageTopic(topic=name, partitions=rows[name]) for name in without_system_topics(names[:limit])]
        if topics or not more:
            return TopicsPage(topics=topics, next=names[limit - 1] if more else "")
        after = names[limit - 1]  # system topics alone, of which a namespace has a few


async def _without_parent(
    meta: MetaStore, names: list[str], partitioned: dict[str, int], after: str, end: str, limit: int
) -> list[str]:
    """The first `limit` of `names` after `after`, up to `end` ("": all), that are no partitions. The store is asked for the parent
    of a name that is called like a partition, where `partitioned` does not have it."""
    parents = {name: count > 0 for name, count in partitioned.items()}
    chosen: list[str] = []
    for name in names:
        if len(chosen) == limit or (end and name > end):
            break
        if name <= after:
            continue
        parent = partitioned_name(name)
        if parent != name:
            if parent not in parents:
                parents[parent] = await meta.get_partitioned(parent) is not None
            if parents[parent]:
                continue
        chosen.append(name)
    return chosen
