"""Pages of messages that somebody may read: asked for partition by partition, and decoded by their schemas.

A request looks at so much and no more; where it found too little it says where the next one goes on, and how much is left.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from messaging.adminrpc.base import Method
from messaging.adminrpc.browse import PIECE_BYTES, BrowsedMessage, MessagesBrowse, MessagesBrowsed
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.methods import MESSAGES_BROWSE, SCHEMAS_GET, SCHEMAS_LIST, TOPICS_PARTITIONS
from messaging.adminrpc.schemas import SchemaGet
from messaging.adminrpc.topics import PartitionsGet, TopicRef
from messaging.broker.core.schemas.model import Schema, SchemaType
from messaging.errors import InvalidValue, MagnetarError, NotFound, NotReady
from messaging.fairness.waiting import ThreadTurns
from messaging.limits.sizes import INT64_MAX
from messaging.payloads.budget import PayloadError
from messaging.payloads.masks import MASK, Masks
from messaging.payloads.reading import Format, Reading, SchemaReader, read_payload, schema_reader
from messaging.permissions.model import Action
from messaging.protocol.names import TopicName
from tenants.access import Actor, require
from tenants.actions.topics import topic_resource
from tenants.browsing.query import MessageQuery, Place

CALLS_MAX = 20  # of the broker, for one page of a topic with many partitions
SECONDS_MAX = 1.0  # after which no further partition is asked
# Of this process; a tenant is the one whose messages are read, since who asks may be a hundred members at as many addresses. A read
# takes up to 2.5 s of the broker's turns, and decodes on a thread that slows the others down.
UNDER_WAY_MAX, OF_A_TENANT_MAX, WAITING_MAX, WAIT_S = 16, 4, 32, 2.0
VALUES_MAX = 50_000  # that are decoded for one page
VALUES_PER_MESSAGE = 5_000


class MessageRow(msgspec.Struct, kw_only=True):
    message_id: Annotated[str, Meta(description="ledger:entry:partition:batch index")]
    publish_time_ms: Annotated[int, Meta(description="By the clock of the producer, milliseconds since 1970.")]
    stored_at_ms: Annotated[int, Meta(description="By the clock of the broker.")]
    event_time_ms: Annotated[int, Meta(description="0: not set.")]
    deliver_at_ms: Annotated[int, Meta(description="0: at once.")]
    producer: str
    sequence_id: int
    key: str | None
    key_is_base64: bool
    properties: dict[str, str]
    metadata_cut: Annotated[bool, Meta(description="Key or properties are longer than what is shown.")]
    batch_size: Annotated[int, Meta(description="Messages that were published together with it, itself included.")]
    chunks: Annotated[int, Meta(description="Pieces that it was published in; 0: one.")]
    compression: str
    encryption_keys: Annotated[list[str], Meta(description="Names of the keys; empty: it is not encrypted.")]
    schema_version: int | None
    schema_type: Annotated[str, Meta(description="Empty: without a schema, or it is not known any more.")]
    size_bytes: Annotated[int, Meta(description="Of the payload, uncompressed.")]
    format: Annotated[
        str, Meta(description="How the payload was read: json, avro, protobuf, text, cbor, msgpack, hex, encrypted, ...")
    ]
    decoded: Annotated[bool, Meta(description="Whether `value` is what the payload says.")]
    value: Annotated[Any, Meta(description="What the payload says, as JSON.")] = None
    text: Annotated[str, Meta(description="Of format text: the payload.")]
    payload_base64: Annotated[
        str, Meta(description="Its first bytes, or all; as it is stored where it is encrypted or has a problem.")
    ]
    payload_cut: bool
    problem: Annotated[str, Meta(description="Why it could not be unpacked or decoded; empty: it was.")]
    masked: Annotated[
        bool, Meta(description="Parts of it are hidden by the policy `masked_fields`, as •••, and all of its bytes.")
    ] = False


class MessagesPage(msgspec.Struct, kw_only=True):
    items: list[MessageRow]
    next: Annotated[str | None, Meta(description="`after` of the next page, which may be empty; null: nothing is left.")]
    end: Annotated[str, Meta(description="`after` of what will be published from here on, of a topic or a partition.")]
    looked_at: Annotated[int, Meta(description="Entries that were looked at for this page.")]
    left: Annotated[int, Meta(description="Entries that are left, of this partition.")]
    partition: Annotated[int, Meta(description="Where the next page goes on; -1: the topic has none.")]
    partitions: int
    unreadable: Annotated[int, Meta(description="Entries that are damaged, of those that were looked at.")]


def require_reading(actor: Actor, topic: TopicName, query: MessageQuery) -> None:
    """Raises `NotAuthorized`. Reads the database; `browse` and `message_at` do not."""
    require(actor, Action.MESSAGE_READ, topic_resource(topic, query.subscription))


turns = ThreadTurns(UNDER_WAY_MAX, OF_A_TENANT_MAX, WAITING_MAX, WAIT_S)


def browse(
    rpc: TypedCalls, topic: TopicName, query: MessageQuery, masks: Masks, *, payload_bytes_max: int = PIECE_BYTES
) -> MessagesPage:
    """Raises `TopicNotFound`, `SubscriptionNotFound`, `InvalidValue`, `NotAuthorized` for a filter on what is masked, and
    `NotReady`, also where too many read messages of the tenant. Blocks. The caller `require_reading` before, and `masks_of`."""
    wanted = query.filter
    masks.check_filter(key=wanted.key is not None, property_name=wanted.property_name, text=bool(wanted.text), path=wanted.path)
    if masks.key and (wanted.text or wanted.path) and _may_hold_keys(rpc, topic):
        masks.check_key_filter(text=bool(wanted.text), path=wanted.path)
    if masks.of_payload:  # by the schema: in another form the same fields have other names, or none
        query = query._replace(format="auto")
    if not turns.begin(topic.tenant):
        raise NotReady(
            f"{OF_A_TENANT_MAX} reads of messages of tenant {topic.tenant} are under way and others wait: try again when one has "
            "ended, and search less at a time, by a span of time or a lower limit"
        )
    try:
        partitions = 0 if topic.partition >= 0 else rpc.call(TOPICS_PARTITIONS, PartitionsGet(topic=str(topic))).partitions
        return _Browsing(rpc, topic, query, masks, partitions, payload_bytes_max).page()
    finally:
        turns.end(topic.tenant)


def _may_hold_keys(rpc: TypedCalls, topic: TopicName) -> bool:
    """Whether payloads of the topic have keys in them, by any version of its schema."""
    try:
        versions = rpc.call(SCHEMAS_LIST, TopicRef(topic=str(topic.base))).versions
    except NotFound:
        return False
    return any(each.type == _KEY_VALUE and each.properties.get("kv.encoding.type") != "SEPARATED" for each in versions)


def message_at(rpc: TypedCalls, topic: TopicName, query: MessageQuery, masks: Masks, payload_bytes_max: int) -> MessageRow:
    """The message that `query.place` names. Raises `NotFound`, and as `browse`."""
    page = browse(rpc, topic, query._replace(exact=True, limit=1), masks, payload_bytes_max=payload_bytes_max)
    if not page.items:
        raise NotFound(f"topic {topic} has no such message")
    return page.items[0]


READ_SHOWN_MAX = 100  # ranges of ids in one record of the audit log


def messages_read(message_ids: Iterable[str]) -> dict[str, Any]:
    """Which messages somebody was shown, for the audit log: entries as `ledger:first-last`, behind them the partition where there
    is one. Of more than `READ_SHOWN_MAX` ranges the others are counted."""
    entries = dict[tuple[int, int], set[int]]()
    count = 0
    for message_id in message_ids:
        ledger, entry, partition, _ = map(int, message_id.split(":"))
        entries.setdefault((partition, ledger), set()).add(entry)
        count += 1
    ranges: list[str] = []
    for (partition, ledger), numbers in sorted(entries.items()):
        ordered = sorted(numbers)
        begins = [one for one in ordered if one - 1 not in numbers]
        ends = [one for one in ordered if one + 1 not in numbers]
        behind = "" if partition < 0 else f":{partition}"
        ranges += [
            f"{ledger}:{begin}{behind}" if begin == end else f"{ledger}:{begin}-{end}{behind}"
            for begin, end in zip(begins, ends, strict=True)
        ]
    further = {"further_ranges": len(ranges) - READ_SHOWN_MAX} if len(ranges) > READ_SHOWN_MAX else {}
    return {"messages": count, "read": ranges[:READ_SHOWN_MAX], **further}


_KEY_VALUE = SchemaType.KEY_VALUE.name
_BY_NUMBERS = "PROTOBUF"  # a schema of which only the outermost fields have names
_OF_PARTS, _WITH_NUMBERS = "key-value", "protobuf"  # formats; in both, fields that a schema does not know have numbers


def masked(row: MessageRow, masks: Masks, *, holds_key: bool = False) -> MessageRow:
    """The row without what is hidden. `holds_key`: the key is a part of the payload, or may be."""
    if not masks.any:
        return row
    if masks.key and row.key is not None:
        row.key, row.key_is_base64, row.masked = MASK, False, True
    if any(map(masks.hides_property, row.properties)):
        row.properties, row.masked = masks.shown_properties(row.properties), True
    holds_key = holds_key and masks.key
    if (masks.of_payload or holds_key) and row.format != "null":
        by_name = row.decoded and not row.problem and row.schema_type != _BY_NUMBERS
        of_parts, numbered = row.format == _OF_PARTS, row.format in (_OF_PARTS, _WITH_NUMBERS)
        if not by_name or (holds_key and not of_parts):
            row.value = MASK
        elif masks.of_payload:
            row.value = masks.shown_value(row.value, key_value=of_parts, numbered=numbered)
        if holds_key and isinstance(row.value, dict):
            row.value = {**row.value, "key": MASK}
        row.decoded, row.masked = True, True
        row.text = row.payload_base64 = row.problem = ""
    return row


class _Browsing:
    def __init__(
        self, rpc: TypedCalls, topic: TopicName, query: MessageQuery, masks: Masks, partitions: int, payload_bytes_max: int
    ) -> None:
        self._masks = masks
        self._rpc = rpc
        self._topic = topic
        self._query = query
        self._partitions = partitions
        self._payload_bytes_max = payload_bytes_max
        self._schemas: dict[int, tuple[str, SchemaReader | None]] = {}
        self._values_left = VALUES_MAX

    def page(self) -> MessagesPage:
        query, ends_s = self._query, time.monotonic() + SECONDS_MAX
        place = query.place or self._beginning(0)
        if self._partitions and place.partition < 0:
            if place.ledger_id not in (-1, INT64_MAX):
                raise InvalidValue(f"{self._topic} is partitioned: give ledger:entry:partition, or a time")
            place = place._replace(partition=0)
        if place.partition >= 0 and place.partition >= max(self._partitions, self._topic.partition + 1):
            raise NotFound(f"topic {self._topic} has no partition {place.partition}")
        page = MessagesPage(
            items=[], next=None, end="", looked_at=0, left=0, partition=place.partition, partitions=self._partitions, unreadable=0
        )
        for _ in range(CALLS_MAX):
            answer = self._ask(place, query.limit - len(page.items))
            for message in answer.messages:
                row, holds_key = self._row(message, place.partition), self._holds_key(message)
                page.items.append(masked(row, self._masks, holds_key=holds_key))
            page.looked_at += answer.looked_at
            page.unreadable += answer.unreadable
            page.left, page.partition = answer.left_entries, place.partition
            reached = Place(place.partition, answer.ledger_id, answer.entry_id, answer.batch_index)
            page.next = page.end = reached.token(self._topic, query.given)
            if answer.done:
                if query.exact or place.partition + 1 >= self._partitions:
                    page.next = None
                    break
                place = self._beginning(place.partition + 1)
                page.next, page.partition = place.token(self._topic, query.given), place.partition
            else:
                place = reached
            if len(page.items) >= query.limit or not answer.done or time.monotonic() >= ends_s:
                break
        return page

    def _beginning(self, partition: int) -> Place:
        """Of what was asked for in this partition."""
        query, where = self._query, partition if self._partitions else self._topic.partition
        backward = query.newest_first and not (query.subscription or query.publish_time_ms)
        at_end = backward or query.given.get("position") == "latest"
        return Place(where, INT64_MAX, INT64_MAX) if at_end else Place(where)

    def _ask(self, place: Place, messages_max: int) -> MessagesBrowsed:
        query, wanted = self._query, self._query.filter
        topic = self._topic.of_partition(place.partition) if self._partitions else self._topic
        method: Method[MessagesBrowse, MessagesBrowsed] = MESSAGES_BROWSE
        asked = MessagesBrowse(
            topic=str(topic),
            ledger_id=place.ledger_id,
            entry_id=place.entry_id,
            batch_index=place.batch_index,
            start_ms=query.publish_time_ms,
            subscription=query.subscription,
            backward=query.newest_first,
            exact=query.exact,
            messages_max=messages_max,
            payload_bytes_max=self._payload_bytes_max,
            message_key=wanted.key,
            property_name=wanted.property_name,
            property_value=wanted.property_value,
            text=query.given.get("text", ""),
            path=query.given.get("path", ""),
            comparison=wanted.comparison,
            value=wanted.value,
            from_ms=wanted.from_ms,
            until_ms=wanted.until_ms,
        )
        return self._rpc.call(method, asked)

    def _row(self, message: BrowsedMessage, partition: int) -> MessageRow:
        schema_type, reading = self._read(message)
        return MessageRow(
            message_id=f"{message.ledger_id}:{message.entry_id}:{partition}:{message.batch_index}",
            publish_time_ms=message.publish_time_ms,
            stored_at_ms=message.stored_at_ms,
            event_time_ms=message.event_time_ms,
            deliver_at_ms=message.deliver_at_ms,
            producer=message.producer,
            sequence_id=message.sequence_id,
            key=message.key,
            key_is_base64=message.key_is_base64,
            properties=message.properties,
            metadata_cut=message.metadata_cut,
            batch_size=message.batch_size,
            chunks=message.chunks,
            compression=message.compression,
            encryption_keys=message.encryption_keys,
            schema_version=message.schema_version,
            schema_type=schema_type,
            size_bytes=message.size_bytes,
            format=reading.format,
            decoded=reading.decoded,
            value=reading.value,
            text=reading.text,
            payload_base64=base64.b64encode(message.payload).decode(),
            payload_cut=len(message.payload) < message.size_bytes,
            problem=reading.problem,
        )

    def _read(self, message: BrowsedMessage) -> tuple[str, Reading]:
        schema_type, reader = self._schema(message.schema_version)
        if message.encryption_keys:
            return schema_type, Reading("encrypted")
        if message.problem:
            return schema_type, Reading("hex", problem=f"{message.problem[:1].upper()}{message.problem[1:]}.")
        if message.null_value:
            return schema_type, Reading("null", decoded=True)
        if len(message.payload) < message.size_bytes:
            has = f"It has {message.size_bytes} bytes"
            problem = (
                f"{has}, more than are decoded: this is its beginning."
                if self._query.exact
                else f"{has}, of which {len(message.payload)} are shown here: open it to have it decoded."
            )
            return schema_type, _beginning_of(message.payload)._replace(problem=problem)
        if self._values_left <= 0:
            return schema_type, Reading(
                "hex", problem="The messages before it hold so many values that it is not decoded: open it."
            )
        form: Format = "auto" if self._masks.key and self._holds_key(message) else self._query.format
        reading = read_payload(message.payload, reader, form, min(VALUES_PER_MESSAGE, self._values_left))
        self._values_left -= max(reading.spent, _values_in(reading.value) if reading.decoded else 1)
        return schema_type, reading

    def _holds_key(self, message: BrowsedMessage) -> bool:
        """Whether the payload may have the key in it: by a schema `KEY_VALUE` that does not keep it apart, or one not known."""
        schema_type, reader = self._schema(message.schema_version)
        if schema_type == _KEY_VALUE:
            return reader is None or reader.format == _OF_PARTS
        return message.schema_version is not None and not schema_type

    def _schema(self, version: int | None) -> tuple[str, SchemaReader | None]:
        if version is None:
            return "", None
        if version not in self._schemas:
            self._schemas[version] = self._asked_schema(version)
        return self._schemas[version]

    def _asked_schema(self, version: int) -> tuple[str, SchemaReader | None]:
        try:
            (stored,) = self._rpc.call(SCHEMAS_GET, SchemaGet(topic=str(self._topic), version=version)).versions
            reader = schema_reader(Schema(SchemaType[stored.type], stored.data, stored.properties))
        except (MagnetarError, PayloadError, KeyError, ValueError):  # it was deleted, or cannot be read
            return "", None
        return stored.type, reader


def _beginning_of(payload: bytes) -> Reading:
    """Of a payload that is cut."""
    text = payload.decode("utf-8", "ignore")
    return Reading("text", text=text) if text and all(each.isprintable() or each in "\t\r\n" for each in text) else Reading("hex")


def _values_in(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_values_in, value.values()))
    return 1 + sum(map(_values_in, value)) if isinstance(value, list) else 1
