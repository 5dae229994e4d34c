"""The stages from a batch to the operations that are sent: numbering, serializing, compression, encryption, chunks, the SEND frame.
Pure.

Sequence ids are given here, and not when a message is admitted, so that they rise in the order of sending whatever the batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from messaging.client.message import OutgoingMessage
from messaging.client.producing.batches import Outgoing
from messaging.client.producing.chunks import chunk_operations
from messaging.client.producing.compression import compressed
from messaging.client.producing.encryption import encrypted
from messaging.client.producing.options import COMPRESSION, ProducerOptions
from messaging.client.producing.pending import Operation
from messaging.client.producing.serializing import batch_payload, describe_key, describe_single
from messaging.errors import MessageTooLarge
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import build_send


@dataclass(slots=True)
class Identity:
    """What all entries of a producer have in common, once it is open."""

    producer_id: int
    name: str = ""
    next_sequence_id: int = 0
    schema_version: bytes = b""
    message_bytes_max: int = 5 << 20


class EntryBuilder:
    """`now_ms`: the time that a message is published at."""

    def __init__(self, options: ProducerOptions, identity: Identity, now_ms: Callable[[], int]) -> None:
        self._options = options
        self._identity = identity
        self._codec = COMPRESSION[options.compression]
        self._now_ms = now_ms

    def build(self, messages: list[Outgoing], now_s: float) -> list[Operation]:
        """The operations of a batch, or of a single message. Raises `MessageTooLarge`; no sequence id was then used."""
        if len(messages) == 1:
            return self._single(messages[0], now_s)
        identity = self._identity
        before = identity.next_sequence_id
        numbers = [self._number(outgoing.message) for outgoing in messages]
        metadata = self._metadata(numbers[0])
        metadata.num_messages_in_batch = len(messages)
        metadata.highest_sequence_id = numbers[-1]
        describe_key(metadata, messages[0].message)
        payload = batch_payload([outgoing.message for outgoing in messages], numbers)
        payload = encrypted(self._options.encryption, compressed(self._codec, payload, metadata), metadata)
        if len(payload) + metadata.ByteSize() > identity.message_bytes_max:
            identity.next_sequence_id = before
            raise MessageTooLarge(self._why(len(payload), f"a batch of {len(messages)} messages"))
        frame = build_send(identity.producer_id, numbers[0], metadata, payload, len(messages), highest_sequence_id=numbers[-1])
        return [Operation(numbers[0], frame, messages, now_s, batched=True)]

    def _single(self, outgoing: Outgoing, now_s: float) -> list[Operation]:
        identity, message = self._identity, outgoing.message
        before = identity.next_sequence_id
        number = self._number(message)
        metadata = self._metadata(number)
        describe_single(metadata, message)
        payload = compressed(self._codec, message.payload or b"", metadata)
        room = identity.message_bytes_max
        if self._options.chunking and len(payload) + metadata.ByteSize() > room:
            return chunk_operations(identity.producer_id, room, metadata, payload, self._options.encryption, outgoing, now_s)
        payload = encrypted(self._options.encryption, payload, metadata)
        if len(payload) + metadata.ByteSize() > room:
            identity.next_sequence_id = before
            raise MessageTooLarge(self._why(len(payload), "a message"))
        return [Operation(number, build_send(identity.producer_id, number, metadata, payload), (outgoing,), now_s)]

    def _number(self, message: OutgoingMessage) -> int:
        """A number that the message brings is taken as it is; those after it follow the highest."""
        identity = self._identity
        number = identity.next_sequence_id if message.sequence_id is None else message.sequence_id
        identity.next_sequence_id = max(identity.next_sequence_id, number + 1)
        return number

    def _metadata(self, sequence_id: int) -> pb.Metadata:
        identity = self._identity
        metadata = pb.Metadata(producer_name=identity.name, sequence_id=sequence_id, publish_time=self._now_ms())
        if identity.schema_version:
            metadata.schema_version = identity.schema_version
        return metadata

    def _why(self, size_bytes: int, what: str) -> str:
        limit = self._identity.message_bytes_max
        return f"{what} takes {size_bytes} bytes and its metadata; the broker takes {limit}: split it, compress it, or use chunking"
