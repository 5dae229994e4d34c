"""Which topics an alert rule with a pattern is about: those of its namespace whose name matches, by name, and not more than
`TOPICS_MAX` with `PARTITIONS_MAX` partitions together."""

from __future__ import annotations

from typing import NamedTuple

from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.methods import TOPICS_PAGE
from messaging.adminrpc.topics import TopicsPageAsked
from messaging.permissions.model import matches
from messaging.protocol.names import parse_topic

TOPICS_MAX = 100  # of one rule: each is looked at every minute
PARTITIONS_MAX = 1_000  # of the topic of a rule, or of all its topics together
PAGE, PAGES_MAX = 1_000, 20  # of names that are looked at


class Matching(NamedTuple):
    """Full names; `complete`: there are no others."""

    topics: list[str]
    complete: bool


def matching_topics(rpc: TypedCalls, pattern: str) -> Matching:
    """A partitioned topic counts as one. Names that begin otherwise are not read. Raises what the broker answers."""
    topic = parse_topic(pattern)
    namespace = str(topic.namespace)
    prefix = f"{topic.domain}://{namespace}/{topic.local.partition('*')[0]}"
    topics: list[str] = []
    partitions, complete = 0, True
    after = _just_before(prefix)
    for _ in range(PAGES_MAX):
        page = rpc.call(TOPICS_PAGE, TopicsPageAsked(namespace=namespace, after=after, limit=PAGE)).whole()
        for row in page.topics:
            if not row.topic.startswith(prefix):
                if row.topic > prefix:
                    return Matching(topics, complete)
                continue
            if matches(topic.local, parse_topic(row.topic).local):
                if len(topics) == TOPICS_MAX:
                    return Matching(topics, False)
                if partitions + row.partitions > PARTITIONS_MAX:
                    complete = False  # others of fewer may fit
                    continue
                partitions += row.partitions
                topics.append(row.topic)
        if not page.next:
            return Matching(topics, complete)
        after = page.next
    return Matching(topics, False)


def _just_before(prefix: str) -> str:
    """Names come by their characters: those that begin with `prefix` follow this, and hardly any others come between."""
    before = min(ord(prefix[-1]) - 1, 0xD7FF) if ord(prefix[-1]) <= 0xE000 else ord(prefix[-1]) - 1  # half a pair is no character
    return f"{prefix[:-1]}{chr(before)}\U0010fffd"
