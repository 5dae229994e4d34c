"""Topics that the platform publishes to for a tenant: notices, and records of the audit log."""

from __future__ import annotations

from messaging.errors import InvalidValue
from messaging.permissions.model import Action
from messaging.protocol.names import parse_topic
from messaging.protocol.system_topics import CHANGE_EVENTS
from tenants.access import Actor, require
from tenants.actions.namespaces import existing
from tenants.actions.topics import topic_resource

PLATFORM = ""  # in place of a tenant's name


def checked_topic(actor: Actor, tenant: str, text: str) -> str:
    """The full name. What is of a tenant stays with it; what is of the platform goes to any topic. Raises `InvalidValue`,
    `NotAuthorized`, `NotFound` for the namespace."""
    if "://" not in text:
        raise InvalidValue(f"topic {text[:80]!r} is not the full name of a topic: use persistent://tenant/namespace/topic")
    topic = parse_topic(text)
    if not topic.persistent or topic.partition >= 0:
        raise InvalidValue(f"topic {text[:80]!r} is not persistent, or is a partition: a whole topic is published to")
    if topic.local == CHANGE_EVENTS:
        raise InvalidValue(f"topic {text[:80]!r} is written by the platform: choose another")
    if tenant != PLATFORM and topic.tenant != tenant:
        raise InvalidValue(f"topic {text[:80]!r} is not one of tenant {tenant}")
    require(actor, Action.PRODUCE, topic_resource(topic))
    existing(str(topic.namespace))
    return str(topic)
