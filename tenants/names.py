"""Names from the parts of a route. Each part is decoded already, so a percent sign in one is only that."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote

from messaging.adminrpc.schema import MessageTrace
from messaging.errors import InvalidValue
from messaging.protocol.names import (
    NON_PERSISTENT,
    PERSISTENT,
    NamespaceName,
    TopicName,
    parse_namespace,
    parse_topic,
    subscription_name,
)


def namespace_of(tenant: str, local: str) -> NamespaceName:
    return parse_namespace(f"{tenant}/{local}")


def topic_of(parts: Mapping[str, str]) -> TopicName:
    """From `tenant`, `namespace`, `topic`, and what says that it is not persistent: `domain`, or `kind` in our own API."""
    domain = parts.get("domain", NON_PERSISTENT if parts.get("kind") == NON_PERSISTENT else PERSISTENT)
    return parse_topic(f"{domain}://{parts['tenant']}/{parts['namespace']}/{quote(parts['topic'], safe='')}")


def subscription_of(text: str) -> str:
    """Some clients of Pulsar escape subscription names twice, so one that still looks escaped is decoded again."""
    return subscription_name(unquote(text) if "%" in text else text)


def trace_of(topic: str, message_id: str) -> MessageTrace:
    """Raises `InvalidValue` for what is no message id."""
    ledger, _, entry = message_id.partition(":")
    if not (ledger.isascii() and ledger.isdigit() and entry.isascii() and entry.isdigit() and len(message_id) <= 40):
        raise InvalidValue(f"{message_id[:40]!r} is no message id: give ledger:entry, as 12:7")
    return MessageTrace(topic=topic, ledger_id=int(ledger), entry_id=int(entry))
