"""Names from the parts of a route. Each part is decoded already, so a percent sign in one is only that."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from messaging.adminrpc.diagnosis import MessageTrace
from messaging.errors import InvalidValue
from messaging.limits.sizes import PARTITIONS_MAX
from messaging.protocol.names import (
    NON_PERSISTENT,
    PERSISTENT,
    NamespaceName,
    TopicName,
    parse_namespace,
    parse_topic,
    subscription_name,
)

_NUMBER = re.compile(r"-1|[0-9]{1,19}")


def namespace_of(tenant: str, local: str) -> NamespaceName:
    return parse_namespace(f"{tenant}/{local}")


def topic_of(parts: Mapping[str, str]) -> TopicName:
    """From `tenant`, `namespace`, `topic`, and what says that it is not persistent: `domain`, or `kind` in our own API."""
    domain = parts.get("domain", NON_PERSISTENT if parts.get("kind") == NON_PERSISTENT else PERSISTENT)
    return parse_topic(f"{domain}://{parts['tenant']}/{parts['namespace']}/{quote(parts['topic'], safe='')}")


def subscription_of(text: str) -> str:
    """Some clients of Pulsar escape subscription names twice, so one that still looks escaped is decoded again."""
    return subscription_name(unquote(text) if "%" in text else text)


class MessageId(NamedTuple):
    """`batch_index` -1: all of the entry."""

    topic: TopicName
    ledger_id: int
    entry_id: int
    batch_index: int


def message_of(topic: TopicName, text: str) -> MessageId:
    """As Pulsar's clients write ids: ledger:entry, and then perhaps the partition and the index in a batch, -1 for none. On a
    partitioned topic the id says which partition is meant. Raises `InvalidValue`."""
    parts = text.split(":")
    if not 2 <= len(parts) <= 4 or len(text) > 80 or not all(_NUMBER.fullmatch(part) for part in parts):
        raise InvalidValue(f"{text[:80]!r} is no message id: give ledger:entry, as 12:7, or ledger:entry:partition:batch index")
    ledger_id, entry_id, partition, batch_index = [*map(int, parts), -1, -1][:4]
    if not (0 <= ledger_id < 1 << 63 and 0 <= entry_id < 1 << 32 and partition < PARTITIONS_MAX and batch_index < 1 << 31):
        raise InvalidValue(f"{text[:80]!r} is no message id: no topic has such numbers")
    if partition >= 0 and topic.partition < 0:
        topic = topic.of_partition(partition)
    return MessageId(topic, ledger_id, entry_id, batch_index)


def trace_of(topic: str, message_id: str) -> MessageTrace:
    """Raises `InvalidValue` for what is no message id."""
    ledger, _, entry = message_id.partition(":")
    if not (ledger.isascii() and ledger.isdigit() and entry.isascii() and entry.isdigit() and len(message_id) <= 40):
        raise InvalidValue(f"{message_id[:40]!r} is no message id: give ledger:entry, as 12:7")
    return MessageTrace(topic=topic, ledger_id=int(ledger), entry_id=int(entry))
