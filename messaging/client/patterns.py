"""Topics whose names match a pattern."""

from __future__ import annotations

from collections.abc import Sequence

import re2

from messaging.client.wire.connections import Connections
from messaging.errors import InvalidName, InvalidValue
from messaging.protocol.names import NON_PERSISTENT, PERSISTENT, TopicName, parse_namespace, parse_topic


async def matching_topics(connections: Connections, pattern: str) -> Sequence[TopicName]:
    """``persistent://tenant/namespace/pattern``; the pattern is a regular expression for the last part of the name, without
    backward references. A partitioned topic is one, whatever its partitions. Raises `InvalidValue`."""
    domain, separator, rest = pattern.partition("://")
    tenant, _, rest = rest.partition("/")
    namespace, _, local = rest.partition("/")
    if not separator or domain not in (PERSISTENT, NON_PERSISTENT) or not local:
        raise InvalidValue(f"the pattern {pattern[:160]!r} is not {PERSISTENT}://tenant/namespace/regular-expression")
    parse_namespace(f"{tenant}/{namespace}")
    try:
        expression = re2.compile(local)
    except re2.error as error:
        raise InvalidValue(f"the pattern {local[:160]!r} is not a regular expression: {error}") from None
    names: dict[TopicName, None] = {}
    for name in await connections.topics_of(f"{tenant}/{namespace}", persistent=domain == PERSISTENT):
        try:
            topic = parse_topic(name).base
        except InvalidName:
            continue  # of another broker, which takes names that we do not
        if not topic.local.startswith("__") and expression.fullmatch(topic.local):
            names[topic] = None
    return list(names)
