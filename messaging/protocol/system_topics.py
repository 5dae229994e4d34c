"""Topics of the platform itself, which stand between those of a tenant or in a namespace of their own. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from messaging.protocol.names import TopicName, parse_topic

HEALTH_NAMESPACE = ("magnetar", "system")  # no tenant is called like this
CHANGE_EVENTS = "__change_events"  # of a namespace: the changes of its topics' policies, written by the platform
_EVENTS = frozenset(
    {
        CHANGE_EVENTS,
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_segments",
        "__transaction_buffer_snapshot_indexes",
    }
)
_PENDING_ACK = "__transaction_pending_ack"


def is_system_topic(name: TopicName) -> bool:
    """Whether the name is one of Pulsar's system topics, which lists leave out unless they are asked for, or one of our own."""
    local = name.base.local
    return (name.tenant, name.namespace_local) == HEALTH_NAMESPACE or local in _EVENTS or local.endswith(_PENDING_ACK)


def is_change_events(text: str) -> bool:
    """Whether `text`, the full name of a topic, is a topic that only the platform writes into, or a partition of one."""
    return f"/{CHANGE_EVENTS}" in text and parse_topic(text).base.local == CHANGE_EVENTS


def without_system_topics(names: Iterable[str]) -> list[str]:
    """Those of `names`, full names of topics, that are no system topics."""
    return [name for name in names if "__" not in name or not is_system_topic(parse_topic(name))]


def is_reserved(name: TopicName) -> bool:
    """Whether nobody may create a topic of this name, as in Pulsar."""
    return name.local.endswith(_PENDING_ACK)
