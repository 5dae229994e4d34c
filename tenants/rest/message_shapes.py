"""The objects of the part of our API that is about subscriptions, messages and schemas."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from messaging.adminrpc.schemas import SchemaStored
from messaging.adminrpc.subscriptions import PeekAnswer
from messaging.adminrpc.topics import MessageIdAnswer
from messaging.bodies import AS_SENT, Text
from messaging.limits import rest as limits
from messaging.limits.model import Limit
from messaging.limits.sizes import INT64_MAX, NAME_BYTES_MAX
from tenants.schema_text import schema_text

MessageId = Annotated[str, Limit("a message id: ledger:entry", bytes_max=80), Meta(description="ledger:entry, as 12:7.")]
Milliseconds = Annotated[int, limits.MILLISECONDS]
Properties = Annotated[dict[str, str], limits.PROPERTIES, AS_SENT]


class SubscriptionShape(msgspec.Struct, kw_only=True):
    name: str
    type: Annotated[str, Meta(description="Exclusive, Shared, Failover or Key_Shared; empty: it has had no consumer.")]
    durable: bool
    backlog_entries: int
    unacked_messages: Annotated[int, Meta(description="Sent to consumers and not acknowledged.")]
    delayed_messages: int
    consumers: int
    rate_out: Annotated[float, Meta(description="Messages per second.")]
    properties: dict[str, str]


class NewSubscription(msgspec.Struct, kw_only=True):
    name: Annotated[Text, limits.NAME]
    position: Annotated[
        str,
        Limit("earliest, latest or a message id", bytes_max=80),
        Meta(description="Where it starts: earliest, latest (the default) or a message id, ledger:entry."),
    ] = "latest"
    properties: Properties = {}


class NewProperties(msgspec.Struct, kw_only=True):
    properties: Properties


class MoveShape(msgspec.Struct, kw_only=True):
    id: str
    at: str
    until: Annotated[str, Meta(description="So long it can be undone.")]
    action: Annotated[str, Meta(description="As in the audit log, such as subscription.reset.")]
    before: Annotated[dict[str, str], Meta(description="Where it stood, by topic or partition: ledger:entry.")]
    left_out_entries: Annotated[
        int, Meta(description="Acknowledged one by one behind that position, and not in the record: they come again.")
    ]
    undoable: Annotated[bool, Meta(description="false: the record does not have the position of every partition.")]


class Skip(msgspec.Struct, kw_only=True):
    entries: Annotated[
        int, Limit("of one subscription, 64 bits", minimum=0, maximum=INT64_MAX), Meta(description="How many are passed over.")
    ]


class Reset(msgspec.Struct, kw_only=True):
    """One of the fields says where to."""

    position: Annotated[Literal["earliest", "latest"], Meta(description="The first message, or behind the last.")] | UnsetType = (
        UNSET
    )
    publish_time_ms: Annotated[Milliseconds, Meta(description="To the first message published then or later.")] | UnsetType = UNSET
    publish_until_ms: (
        Annotated[
            Milliseconds,
            Meta(description="Beside publish_time_ms: only what was published before this comes again; all else stays as it is."),
        ]
        | UnsetType
    ) = UNSET
    message_id: MessageId | UnsetType = UNSET
    excluded: Annotated[bool, Meta(description="Of message_id: begin behind it.")] = False


class Expire(msgspec.Struct, kw_only=True):
    """One of `older_than_s` and `message_id`."""

    older_than_s: (
        Annotated[int, Limit("seconds; the milliseconds fit 64 bits", minimum=1, maximum=INT64_MAX // 1000)] | UnsetType
    ) = UNSET
    message_id: MessageId | UnsetType = UNSET
    excluded: Annotated[bool, Meta(description="Of message_id: not that message itself.")] = False


class Disconnect(msgspec.Struct, kw_only=True):
    """Those producers and consumers that fit all of it; without any field all of them."""

    kind: Annotated[Literal["producer", "consumer"], Meta(description="Left out: both.")] | UnsetType = UNSET
    name: Annotated[str, limits.NAME, Meta(description="Of the producer or consumer, as the stats have it.")] = ""
    subscription: Annotated[str, limits.NAME, Meta(description="Of the consumers.")] = ""
    address: Annotated[
        str, Limit("of a client: host and port", bytes_max=NAME_BYTES_MAX), Meta(description="Of the client, as the stats have it.")
    ] = ""


class BacklogShape(msgspec.Struct, kw_only=True):
    entries: int
    messages: int
    first: Annotated[str, Meta(description="The id of the first entry, ledger:entry; empty: there is none.")]
    last: str
    complete: Annotated[bool, Meta(description="false: there are more, and only so many were read.")]


class MessageShape(msgspec.Struct, kw_only=True):
    message_id: Annotated[str, Meta(description="ledger:entry")]
    payload_base64: Annotated[str, Meta(description="Uncompressed. Of a batch, the whole batch as its producer packed it.")]
    headers: Annotated[dict[str, str], Meta(description="What Pulsar's admin API says of a message in headers, X-Pulsar-...")]


class NewMessage(msgspec.Struct, kw_only=True):
    """The payload is one of `text` and `payload_base64`."""

    text: Annotated[str, Limit("a request holds it", bytes_max=limits.BODY_BYTES_MAX), AS_SENT] | UnsetType = UNSET
    payload_base64: Annotated[str, Limit("a request holds it", bytes_max=limits.BODY_BYTES_MAX)] | UnsetType = UNSET
    key: Annotated[str, limits.TOPIC, AS_SENT] | UnsetType = UNSET
    properties: Properties = {}
    event_time_ms: Annotated[Milliseconds, Meta(description="Milliseconds since 1970; 0: not set.")] = 0
    deliver_at_ms: Annotated[Milliseconds, Meta(description="Milliseconds since 1970; 0: at once.")] = 0


class NewMessages(msgspec.Struct, kw_only=True):
    messages: Annotated[list[NewMessage], Limit("published by one request", count_max=100)]


class PublishedShape(msgspec.Struct, kw_only=True):
    message_ids: Annotated[list[str], Meta(description="In the order of the request: ledger:entry:partition:batch index.")]


class PositionShape(msgspec.Struct, kw_only=True):
    message_id: Annotated[str, Meta(description="ledger:entry:partition:batch index; -1: none.")]


class SchemaShape(msgspec.Struct, kw_only=True):
    version: int
    type: str
    schema: Annotated[str, Meta(description="The definition as text; of KEY_VALUE, a JSON object with key and value.")]
    properties: dict[str, str]
    created_ms: Annotated[int, Meta(description="Milliseconds since 1970.")]


class NewSchema(msgspec.Struct, kw_only=True):
    type: Annotated[Text, limits.SCHEMA_TYPE, Meta(description="Such as AVRO, JSON, PROTOBUF, STRING or KEY_VALUE.")]
    schema: Annotated[
        str,
        Limit("a quarter of a request body; clients of the binary protocol may send more", bytes_max=limits.BODY_BYTES_MAX // 4),
    ] = ""
    properties: Properties = {}


class SchemaVersionShape(msgspec.Struct, kw_only=True):
    version: Annotated[int, Meta(description="-1: there is none.")]


class SchemaVerdict(msgspec.Struct, kw_only=True):
    compatible: bool
    strategy: str
    reason: Annotated[str, Meta(description="Why it is not compatible; empty: it is.")]


class TopicChange(msgspec.Struct, kw_only=True):
    partitions: Annotated[int, limits.PARTITIONS, Meta(description="More than there are; of a partitioned topic.")] | UnsetType = (
        UNSET
    )
    properties: Annotated[Properties, Meta(description="Others stay.")] | UnsetType = UNSET
    removed_property: Annotated[Text, limits.NAME, Meta(description="The name of a property to remove.")] | UnsetType = UNSET


class TopicProperties(msgspec.Struct, kw_only=True):
    topic: str
    partitions: int
    properties: dict[str, str]


class CompactionShape(msgspec.Struct, kw_only=True):
    status: Annotated[str, Meta(description="NOT_RUN, RUNNING, SUCCESS or ERROR.")]
    last_error: str


def show_message(message: PeekAnswer) -> MessageShape:
    return MessageShape(
        message_id=f"{message.ledger_id}:{message.entry_id}", payload_base64=message.payload, headers=message.headers
    )


def show_id(answer: MessageIdAnswer) -> str:
    return f"{answer.ledger_id}:{answer.entry_id}:{answer.partition}:{answer.batch_index}"


def show_schema(stored: SchemaStored) -> SchemaShape:
    return SchemaShape(
        version=stored.version,
        type=stored.type,
        schema=schema_text(stored),
        properties=stored.properties,
        created_ms=stored.created_ms,
    )
