"""An entry becomes messages: checksum, decryption, decompression, batches. Pure."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

from crc32c import crc32c

from messaging.client.consuming.acks import bits_of
from messaging.client.encryption import Decryptor
from messaging.client.errors import DecryptionFailed, KeyUnavailable
from messaging.client.message import EncryptionContext, Key, Message, MessageId
from messaging.client.schemas import BYTES, Schema
from messaging.errors import InvalidValue, MagnetarError
from messaging.limits.sizes import BATCH_MESSAGES_MAX
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import UNPACKED_TIMES_MAX, batch_size, decompress, parts
from messaging.protocol.frames import ProtocolError, Stored, as_text, parse_stored

# Reasons for which the broker is told that an entry cannot be read; numbers of the protocol's ValidationError.
UNCOMPRESSED_SIZE, DECOMPRESSION, CHECKSUM, BATCH, DECRYPTION = 0, 1, 2, 3, 4


UNRESOLVED = object()  # a value that takes the schema that it was written with


class Unreadable(Exception):
    """`reason` is one of the numbers above. `discard`: it is acknowledged, because it will never be readable. Otherwise it comes
    again; `passing`: it may be readable then, and what follows can wait. `metadata`: of one that was not decrypted."""

    def __init__(
        self, reason: int, text: str, *, discard: bool = True, passing: bool = False, metadata: pb.Metadata | None = None
    ) -> None:
        super().__init__(text)
        self.reason = reason
        self.discard = discard
        self.passing = passing
        self.metadata = metadata


class Opened(NamedTuple):
    """An entry without its checksum and encryption; `encrypted`: it could not be decrypted, and is passed on as it is."""

    stored: Stored
    encrypted: bool


def open_entry(rest: bytes, decryptor: Decryptor | None, crypto_failure: str) -> Opened:
    """`rest`: what follows the command of a MESSAGE frame. Raises `Unreadable`."""
    if rest[:2] == b"\x0e\x02":  # the broker's own metadata, which we did not ask for
        rest = rest[6 + int.from_bytes(rest[2:6], "big") :]
    if rest[:2] == b"\x0e\x01" and crc32c(rest[6:]) != int.from_bytes(rest[2:6], "big"):
        raise Unreadable(CHECKSUM, "the checksum does not match")
    try:
        stored = parse_stored(rest)
    except ProtocolError as error:
        raise Unreadable(BATCH, str(error)) from None
    if not stored.metadata.encryption_keys:
        return Opened(stored, False)
    try:
        if decryptor is None:
            raise DecryptionFailed("an encrypted message, and this consumer has no keys")
        return Opened(Stored(stored.metadata, decryptor.decrypt(stored.payload, stored.metadata)), False)
    except DecryptionFailed as error:
        if crypto_failure == "consume":
            return Opened(stored, True)
        raise Unreadable(DECRYPTION, str(error), discard=crypto_failure == "discard", metadata=stored.metadata) from None
    except KeyUnavailable as error:  # for now: whatever is to become of what no key fits, this is not known to be one
        raise Unreadable(DECRYPTION, str(error), discard=False, passing=True, metadata=stored.metadata) from error


def message_count(delivery: pb.Message, rest: bytes) -> int:
    """How many permits a delivery cost that nobody looks at."""
    try:
        count = open_entry(rest, None, "consume").stored.metadata.num_messages_in_batch
    except Unreadable:
        return 1
    count = max(1, min(count, BATCH_MESSAGES_MAX))
    if delivery.ack_set:
        count = (bits_of(delivery.ack_set[: count // 64 + 1]) & ((1 << count) - 1)).bit_count()
    return max(1, count)


class Unpacker:
    def __init__(self, topic: str, partition: int, schema: Schema[Any]) -> None:
        self._topic = topic
        self._partition = partition
        self._schema = schema
        self._plain = schema is BYTES

    def messages(self, delivery: pb.Message, opened: Opened, message_bytes_max: int) -> tuple[list[Message], int, int]:
        """The messages that are still to be acknowledged, the size of the batch (0: none) and their bits. Raises `Unreadable`."""
        stored, metadata = opened.stored, opened.stored.metadata
        entry, count = delivery.message_id, delivery.redelivery_count
        if opened.encrypted:
            message = self._whole(metadata, entry, count, stored.payload, _context(metadata))
            return [message], 0, 1
        try:
            # Chunks are put together before, so that the limit is what the message declares, within reason.
            limit = max(UNPACKED_TIMES_MAX * message_bytes_max, UNPACKED_TIMES_MAX * len(stored.payload))
            data = decompress(metadata.compression, stored.payload, metadata.uncompressed_size, limit)
        except ProtocolError as error:
            raise Unreadable(DECOMPRESSION, str(error)) from None
        del metadata.encryption_keys[:]  # it is decrypted: what reads batches would leave it alone otherwise
        plain = Stored(metadata, data)
        if not metadata.HasField("num_messages_in_batch") or metadata.HasField("chunk_id"):
            return [self._whole(metadata, entry, count, data, None)], 0, 1
        try:
            size = batch_size(plain, data)
            bits = (1 << size) - 1
            if delivery.ack_set:
                bits &= bits_of(delivery.ack_set[: size // 64 + 1])
            messages = self._singles(metadata, entry, count, bits, plain)
        except ProtocolError as error:
            raise Unreadable(BATCH, str(error)) from None
        left = sum(1 << message.id.batch_index for message in messages)
        return messages, size, left

    def _whole(
        self, metadata: pb.Metadata, entry: pb.MessageId, count: int, payload: bytes, context: EncryptionContext | None
    ) -> Message:
        return Message(
            MessageId(entry.ledger_id, entry.entry_id, -1, self._partition_of(entry)),
            payload,
            _properties(metadata),
            metadata.publish_time,
            count,
            _key(metadata),
            metadata.event_time if metadata.HasField("event_time") and metadata.event_time else None,
            metadata.null_value,
            self._topic,
            metadata.producer_name,
            metadata.sequence_id,
            metadata.ordering_key if metadata.HasField("ordering_key") else None,
            metadata.schema_version,
            context,
            payload if context is not None else self._value(metadata, metadata, payload),
        )

    def _singles(self, metadata: pb.Metadata, entry: pb.MessageId, count: int, bits: int, plain: Stored) -> list[Message]:
        """What all messages of a batch have in common is read once. Raises `ProtocolError`."""
        ledger_id, entry_id, partition = entry.ledger_id, entry.entry_id, self._partition_of(entry)
        published, name, topic, version = metadata.publish_time, metadata.producer_name, self._topic, metadata.schema_version
        first = metadata.sequence_id
        messages = []
        for index, single, payload in parts(plain, plain.payload):
            if not bits >> index & 1 or single.compacted_out:
                continue
            messages.append(
                Message(
                    MessageId(ledger_id, entry_id, index, partition),
                    payload,
                    _properties(single) if single.properties else {},
                    published,
                    count,
                    _key(single),
                    single.event_time or None,
                    single.null_value,
                    topic,
                    name,
                    single.sequence_id if single.HasField("sequence_id") else first + index,
                    single.ordering_key if single.HasField("ordering_key") else None,
                    version,
                    None,
                    self._value(metadata, single, payload),
                )
            )
        return messages

    def _partition_of(self, entry: pb.MessageId) -> int:
        return entry.partition if entry.partition >= 0 else self._partition

    def _value(self, metadata: pb.Metadata, own: pb.Metadata | pb.SingleMetadata, payload: bytes) -> Any:
        if self._plain:
            return None if own.null_value else payload
        if self._schema.resolves and metadata.schema_version:
            return UNRESOLVED
        return value_of(self._schema, payload, _key(own), null=own.null_value, writer=None)


def value_of(schema: Schema[Any], payload: bytes, key: Key, *, null: bool, writer: pb.Schema | None) -> Any:
    """A message that does not fit the schema is delivered: its `value` is the error, and its bytes are there."""
    data = None if null else payload
    try:
        return schema.decode_with_key(data, key) if writer is None else schema.decode_written(data, key, writer)
    except MagnetarError as error:
        return error
    except Exception as failure:  # of a schema of the user, or of lists within lists without end
        unread = InvalidValue(f"the message cannot be read with this schema: {type(failure).__name__}: {failure}")
        unread.__cause__ = failure
        return unread


def _properties(metadata: pb.Metadata | pb.SingleMetadata) -> dict[str, str]:
    return {as_text(pair.key): as_text(pair.value) for pair in metadata.properties}


def _key(metadata: pb.Metadata | pb.SingleMetadata) -> Key:
    if not metadata.HasField("partition_key"):
        return None
    text = as_text(metadata.partition_key)
    if not metadata.partition_key_b64_encoded:
        return text
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return text


def _context(metadata: pb.Metadata) -> EncryptionContext:
    return EncryptionContext(
        {entry.key: entry.value for entry in metadata.encryption_keys},
        metadata.encryption_param,
        metadata.encryption_algo,
        metadata.compression,
        metadata.uncompressed_size,
        metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 0,
    )
