"""Where a dead letter came from, for jobs that move each message back there. Pure."""

from __future__ import annotations

from typing import NamedTuple

from messaging.adminrpc.redrive import RedriveFound
from messaging.errors import InvalidValue
from messaging.protocol.names import TopicName, parse_topic


class Destination(NamedTuple):
    """`topic`: full name of a topic or a partition; or `why` there is none."""

    topic: str = ""
    why: str = ""


def destination(letters: TopicName, entry: RedriveFound) -> Destination:
    """Of an entry of the topic `letters`. Whoever publishes there says where it came from, so it may only lead to a topic of the
    same namespace: that is what the permission to start such a job is about."""
    text = entry.origin_topic
    if not text:
        return Destination(why="it does not say which topic it came from")
    if "://" not in text:
        return Destination(why="what it says it came from is not the full name of a topic")
    try:
        origin = parse_topic(text)
    except InvalidValue:
        return Destination(why="what it says it came from is not the name of a topic")
    if not origin.persistent:
        return Destination(why="it came from a non-persistent topic")
    if origin.namespace != letters.namespace:
        return Destination(why=f"it came from another namespace, {origin.namespace}"[:200])
    if str(origin) == str(letters):
        return Destination(why="it says that it came from this topic")
    return Destination(str(origin))
