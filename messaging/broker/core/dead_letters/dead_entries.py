"""Server-side dead letters: which entries of a subscription are to be moved to another topic, and in which form. Pure.

A policy belongs to one subscription. An entry that its consumers asked for again more often than the policy allows is sent to
nobody any more: it waits in `Redeliveries.dead` until it is stored in the target and then acknowledged. A *move* is one block of
such entries. It is written down before it is appended, and the block carries its number, so that a crash leaves no doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from messaging.broker.core.dead_letters.moves import Move, Part
from messaging.json_types import decoder_of
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import parts, unpack
from messaging.protocol.frames import ProtocolError, Stored, build_send, parse_stored
from messaging.storage.ledger_store import EARLIEST, Position

REASON = "max redeliver count exceeded"
BACKOFF_MS, BACKOFF_MS_MAX = 1_000, 60_000


class DeadLetterPolicy(msgspec.Struct, frozen=True):
    """`target`: full name of a topic, partitioned or not. `owner`: the role on whose behalf messages are moved."""

    policy_id: str  # unique: sequence ids of moves begin anew with each policy
    max_redeliver_count: int
    target: str
    owner: str
    initial_subscription: str = ""  # created on the target where it is missing; "": none


class DeadLetterRecord(msgspec.Struct, frozen=True):
    """As it is stored."""

    subscription_id: int
    policy: DeadLetterPolicy
    sequence_id: int = 0  # of the next message that is moved
    move: Move | None = None


class DeadLetters:
    """The policy of one subscription, and what became of it."""

    __slots__ = ("failures", "last_error", "last_moved_ms", "moved_messages", "moving", "record", "retry_at_ms")

    def __init__(self, record: DeadLetterRecord) -> None:
        self.record = record
        self.moving = False  # only one move of a subscription at a time
        self.moved_messages = 0
        self.last_moved_ms = 0
        self.last_error = ""
        self.failures = 0
        self.retry_at_ms = 0

    @property
    def policy(self) -> DeadLetterPolicy:
        return self.record.policy

    def failed(self, why: str, now_ms: int) -> None:
        """What is to be moved stays, and is tried again after a growing delay."""
        self.last_error = why
        self.retry_at_ms = now_ms + min(BACKOFF_MS << min(self.failures, 16), BACKOFF_MS_MAX)
        self.failures += 1

    def moved(self, messages: int, now_ms: int) -> None:
        self.moved_messages += messages
        self.last_moved_ms = now_ms
        self.last_error, self.failures, self.retry_at_ms = "", 0, 0


def default_target(topic: str, subscription: str) -> str:
    """Pulsar's name. `topic`: without ``-partition-N``."""
    return f"{topic}-{subscription}-DLQ"


def producer_name(policy_id: str) -> str:
    return f"magnetar.dead-letters.{policy_id}"


def move_extension(policy_id: str, sequence_id: int) -> bytes:
    return f"{policy_id}/{sequence_id}".encode()


# --- the messages


class Origin(NamedTuple):
    topic: str
    subscription: str
    partition: int


class DeadEntry(NamedTuple):
    """An entry to be moved. `open_bits`: its unacknowledged messages, None for all. `redeliveries`: how often it was asked for.
    `messages`: in all of it."""

    position: Position
    stored: bytes
    open_bits: int | None
    redeliveries: int
    messages: int = 1


def frames_of(
    origin: Origin, entries: Iterable[DeadEntry], producer: str, part: Part, now_ms: int, unpacked_bytes_max: int
) -> Iterator[tuple[bytes, int]]:
    """(SEND frame, messages in it) for each message that is to be moved. Single messages keep their bytes as they are. Of a batch,
    each message that is not acknowledged becomes one of its own; one that cannot be unpacked (it is encrypted) stays whole."""
    chunked: dict[tuple[str, str], int] = {}  # all chunks of a message have one sequence id
    begin, continues = part.sequence_id, part.continues
    for entry in entries:
        sequence_id = begin
        for metadata, payload, batch_index in messages_of(entry, unpacked_bytes_max):
            count = metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 1
            is_chunk = metadata.HasField("chunk_id") and metadata.num_chunks_from_msg > 1
            own = sequence_id
            if is_chunk:
                own = chunked.setdefault((metadata.producer_name, metadata.uuid), sequence_id if continues < 0 else continues)
            continues = -1
            prepare(metadata, producer, own, now_ms)
            _describe(metadata, origin, entry, batch_index)
            yield build_send(0, own, metadata, payload, count, is_chunk=is_chunk), count
            sequence_id += count
        begin = max(begin + entry.messages, sequence_id)


def messages_of(entry: DeadEntry, unpacked_bytes_max: int) -> Iterator[tuple[pb.Metadata, bytes, int]]:
    """Metadata, payload and index in the batch (-1: none) of what is not acknowledged of an entry. One that cannot be read, or
    unpacked, is one message."""
    try:
        stored = parse_stored(entry.stored)
        if not stored.metadata.HasField("num_messages_in_batch") or stored.metadata.encryption_keys:
            yield stored.metadata, stored.payload, -1
            return
        messages = list(_unpacked(stored, entry.open_bits, unpacked_bytes_max))
    except ProtocolError:  # moved unchanged: an entry that cannot be read must not be lost
        try:
            stored = parse_stored(entry.stored)
        except ProtocolError:
            stored = Stored(pb.Metadata(producer_name="", sequence_id=0, publish_time=0), entry.stored)
        yield stored.metadata, stored.payload, -1
        return
    yield from messages


def _unpacked(stored: Stored, open_bits: int | None, bytes_max: int) -> Iterator[tuple[pb.Metadata, bytes, int]]:
    for index, single, payload in parts(stored, unpack(stored, bytes_max)):
        if open_bits is not None and not open_bits >> index & 1:
            continue
        metadata = pb.Metadata(producer_name="", sequence_id=0, publish_time=0)
        metadata.properties.MergeFrom(single.properties)
        for field in (
            "partition_key",
            "partition_key_b64_encoded",
            "ordering_key",
            "event_time",
            "null_value",
            "null_partition_key",
        ):
            if single.HasField(field):
                setattr(metadata, field, getattr(single, field))
        yield metadata, payload, index


_DROPPED = (  # they speak of the origin, or would change how the target delivers
    "replicated_from",
    "schema_version",
    "deliver_at_time",
    "marker_type",
    "txnid_least_bits",
    "txnid_most_bits",
    "highest_sequence_id",
)


def prepare(metadata: pb.Metadata, producer: str, sequence_id: int, now_ms: int) -> None:
    """Makes it metadata of a message that `producer` publishes now."""
    metadata.producer_name = producer
    metadata.sequence_id = sequence_id
    metadata.publish_time = now_ms
    metadata.ClearField("replicate_to")
    for name in _DROPPED:
        metadata.ClearField(name)


def _describe(metadata: pb.Metadata, origin: Origin, entry: DeadEntry, batch_index: int) -> None:
    """Properties with the names that Pulsar's clients use. The first two stay those of the first origin, as with these clients."""
    message_id = f"{entry.position.ledger_id}:{entry.position.entry_id}:{origin.partition}"
    if batch_index >= 0:
        message_id += f":{batch_index}"
    first = {"REAL_TOPIC": origin.topic, "ORIGIN_MESSAGE_ID": message_id}
    latest = {
        "REAL_SUBSCRIPTION": origin.subscription,
        "DEAD_LETTER_REASON": REASON,
        "DEAD_LETTER_REDELIVERY_COUNT": str(entry.redeliveries),
    }
    kept = [(pair.key, pair.value) for pair in metadata.properties if pair.key not in latest]
    known = {key for key, _ in kept}
    del metadata.properties[:]
    for key, value in (*kept, *((key, value) for key, value in first.items() if key not in known), *latest.items()):
        metadata.properties.add(key=key, value=value)


# --- storing


def key_of(topic: str) -> str:
    """The key in MetaStore of all policies of a topic."""
    return f"dead-letters:{topic}"


def encode(records: dict[str, DeadLetterRecord]) -> bytes:
    """By name of the subscription."""
    return msgspec.json.encode(records)


def decode(data: bytes) -> dict[str, DeadLetterRecord]:
    """Raises `ValueError` for malformed bytes."""
    return decoder_of(dict[str, DeadLetterRecord]).decode(data)


def position_of(pair: tuple[int, int]) -> Position:
    return Position(*pair) if pair[0] >= 0 else EARLIEST
