"""Finds the messages that are looked for in entries that were read: unpacks them one at a time and compares. Pure; for a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from messaging.adminrpc.browse import BrowsedMessage
from messaging.broker.runtime.admin.browse.slices import BrowsedEntry
from messaging.payloads.filters import MessageFilter
from messaging.payloads.reading import SchemaReader, read_payload
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import Single, batch_size, singles, unpack, unpacked_bytes
from messaging.protocol.frames import ProtocolError, as_text
from messaging.storage.ledger_store import Position
from messaging.times import TIME_MS_MAX

PAGE_BYTES = 1 << 20  # of payloads, keys and properties: a page ends behind the message that passes it
TEXT_SHOWN = 4096  # characters of a key, a property or its value
PROPERTIES_SHOWN = 100
BACK_MESSAGES, BACK_BYTES = 1_000, 4 << 20  # of a batch that is looked through backwards: so many are kept at a time
Readers = Mapping[int, SchemaReader | None]


class BrowseConditions(NamedTuple):
    """`readers`: of the versions of the schema, where a value is compared. `unpacked_max`: bytes of an entry."""

    filter: MessageFilter
    readers: Readers
    payload_bytes_max: int
    unpacked_max: int
    backward: bool
    expired: Callable[[], bool]


class PageEnd(NamedTuple):
    """Where a page ended, and the next goes on: the message `batch_index` of the entry, -1: at its beginning."""

    position: Position
    batch_index: int


class BrowsedPage:
    """Messages that were found, in the order in which they were looked at."""

    def __init__(self, messages_max: int) -> None:
        self.messages: list[BrowsedMessage] = []
        self.size_bytes = 0
        self._messages_max = messages_max

    @property
    def full(self) -> bool:
        return len(self.messages) >= self._messages_max or self.size_bytes >= PAGE_BYTES

    def add(self, message: BrowsedMessage) -> None:
        self.messages.append(message)
        self.size_bytes += len(message.payload) + len(message.key or "") + sum(map(len, message.encryption_keys))
        self.size_bytes += _texts_in(message.properties)


def look(entries: Sequence[BrowsedEntry], wanted: BrowseConditions, page: BrowsedPage, first_index: int) -> PageEnd | None:
    """Adds what matches to `page`. None: all of `entries` were looked at. `first_index`: of the message to go on
    with in the batch that is the first entry; -1: all."""
    for number, looked in enumerate(entries):
        if page.full or (number and wanted.expired()):  # the first one always, so that each call comes further
            return PageEnd(looked.position, first_index)
        index = _look_at(looked, wanted, page, first_index)
        if index is not None:
            return PageEnd(looked.position, index)
        first_index = -1
    return None


def unpacked_size(looked: BrowsedEntry, unpacked_max: int) -> int:
    """What unpacking an entry makes; 0 where it is not unpacked."""
    try:
        return 0 if looked.problem else unpacked_bytes(looked.stored, unpacked_max)
    except ProtocolError:
        return 0


def _look_at(looked: BrowsedEntry, wanted: BrowseConditions, page: BrowsedPage, first_index: int) -> int | None:
    """The index of the message to go on with, where that is in this entry."""
    stored, problem = looked.stored, looked.problem
    readable = not problem and not stored.metadata.encryption_keys
    if not problem:
        try:
            data = unpack(stored, wanted.unpacked_max)
            batched = batch_size(stored, data)
        except ProtocolError as error:
            problem, readable = str(error), False
    if problem:
        whole = _single_of(stored.metadata, stored.payload)
        if _matches(whole, looked, wanted, readable=False):
            page.add(_message(whole, looked, wanted, problem))
        return None
    if wanted.backward and batched:
        return _look_back(lambda: singles(stored, data), looked, wanted, page, first_index, readable=readable)
    messages = iter([_single_of(stored.metadata, data)]) if not batched else singles(stored, data)
    looks = False
    try:
        for single in messages:
            if single.batch_index < first_index:
                continue
            if page.full or (looks and wanted.expired()):
                return single.batch_index
            looks = True
            if _matches(single, looked, wanted, readable=readable):
                page.add(_message(single, looked, wanted))
    except ProtocolError as error:
        page.add(_message(_single_of(stored.metadata, b""), looked, wanted, str(error)))
    return None


def _look_back(
    unpacked: Callable[[], Iterator[Single]],
    looked: BrowsedEntry,
    wanted: BrowseConditions,
    page: BrowsedPage,
    first_index: int,
    *,
    readable: bool,
) -> int | None:
    """The same for the messages of a batch from its end on, a piece of it at a time."""
    last = first_index if first_index >= 0 else looked.stored.metadata.num_messages_in_batch - 1
    looks = False
    while last >= 0:
        kept, problem = _last_up_to(unpacked(), last)
        if problem and not (kept and kept[-1].batch_index == last):  # else a page before said so
            page.add(_message(_single_of(looked.stored.metadata, b""), looked, wanted, problem))
        for single in reversed(kept):
            if page.full or (looks and wanted.expired()):
                return single.batch_index
            looks = True
            if _matches(single, looked, wanted, readable=readable):
                page.add(_message(single, looked, wanted))
        last = kept[0].batch_index - 1 if kept else -1
    return None


def _last_up_to(messages: Iterator[Single], last: int) -> tuple[Sequence[Single], str]:
    """The last few of a batch up to the message `last`, one at least, read from the front; and why there are no more of it."""
    kept: deque[Single] = deque()
    size = 0
    try:
        for single in messages:
            if single.batch_index > last:
                break
            kept.append(single)
            size += _size_of(single)
            while len(kept) > 1 and (len(kept) > BACK_MESSAGES or size > BACK_BYTES):
                size -= _size_of(kept.popleft())
    except ProtocolError as error:
        return list(kept), str(error)
    return list(kept), ""


def _size_of(single: Single) -> int:
    return len(single.payload) + _texts_in(single.properties)


def _texts_in(properties: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in properties.items())


def _matches(single: Single, looked: BrowsedEntry, wanted: BrowseConditions, *, readable: bool) -> bool:
    """What cannot be read holds no text and no value."""
    conditions = wanted.filter
    if not conditions.names(single.partition_key, single.properties):
        return False
    if not (conditions.text or conditions.path):
        return True
    if not readable or not conditions.holds_text(single.payload):
        return False
    if not conditions.path:
        return True
    version = schema_version(looked.stored.metadata)
    reader = wanted.readers.get(version) if version is not None else None
    reading = read_payload(single.payload, reader)
    return reading.decoded and conditions.value_matches(reading.value)


def schema_version(metadata: pb.Metadata) -> int | None:
    """None: it was published without a schema."""
    return int.from_bytes(metadata.schema_version, "big") if len(metadata.schema_version) == 8 else None


def _single_of(metadata: pb.Metadata, payload: bytes) -> Single:
    properties = {as_text(pair.key): as_text(pair.value) for pair in metadata.properties}
    key = as_text(metadata.partition_key) if metadata.HasField("partition_key") else None
    return Single(
        -1,
        1,
        properties,
        key,
        metadata.partition_key_b64_encoded,
        metadata.event_time,
        metadata.sequence_id,
        payload,
        metadata.null_value,
    )


def _message(single: Single, looked: BrowsedEntry, wanted: BrowseConditions, problem: str = "") -> BrowsedMessage:
    metadata = looked.stored.metadata
    properties = {name[:TEXT_SHOWN]: value[:TEXT_SHOWN] for name, value in list(single.properties.items())[:PROPERTIES_SHOWN]}
    key = None if single.partition_key is None else single.partition_key[:TEXT_SHOWN]
    return BrowsedMessage(
        ledger_id=looked.position.ledger_id,
        entry_id=looked.position.entry_id,
        batch_index=single.batch_index,
        batch_size=single.batch_size,
        publish_time_ms=min(metadata.publish_time, TIME_MS_MAX),  # a producer may say anything
        event_time_ms=min(single.event_time_ms, TIME_MS_MAX),
        stored_at_ms=looked.stored_at_ms,
        deliver_at_ms=looked.deliver_at_ms,
        producer=as_text(metadata.producer_name)[:TEXT_SHOWN],
        sequence_id=single.sequence_id,
        key=key,
        key_is_base64=single.key_b64_encoded,
        properties=properties,
        metadata_cut=key != single.partition_key or properties != single.properties,
        schema_version=schema_version(metadata),
        compression=pb.Compression.Name(metadata.compression),
        encryption_keys=[as_text(each.key)[:TEXT_SHOWN] for each in metadata.encryption_keys][:PROPERTIES_SHOWN],
        chunk_id=metadata.chunk_id if metadata.num_chunks_from_msg > 1 else -1,
        chunks=metadata.num_chunks_from_msg if metadata.num_chunks_from_msg > 1 else 0,
        null_value=single.null_value,
        size_bytes=len(single.payload),
        payload=single.payload[: wanted.payload_bytes_max],
        problem=problem,
    )
