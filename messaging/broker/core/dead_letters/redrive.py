"""Redrive of dead letters: which messages a job moves back, and in which form. Pure.

A message goes back as it came: its payload, key, ordering key, properties and event time. The properties that say why it was
dead-lettered are removed, so that the next time says why anew; one counts how often it was redriven.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from messaging.broker.core.dead_letters.dead_entries import DeadEntry, messages_of, prepare
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.frames import as_text, build_send

REDRIVEN = "MAGNETAR_REDRIVE_COUNT"
ORIGIN_SUBSCRIPTION, ORIGIN_TOPIC, REASON = "REAL_SUBSCRIPTION", "REAL_TOPIC", "DEAD_LETTER_REASON"
REMOVED = (ORIGIN_SUBSCRIPTION, REASON, "DEAD_LETTER_REDELIVERY_COUNT", REDRIVEN)
MIXED_BATCH = "a batch of which only some messages match"
TOO_OFTEN = "it was redriven too often"
A_CHUNK = "a chunk of a large message"


class RedriveConditions(NamedTuple):
    """See `messaging.adminrpc.redrive.RedriveFilter`."""

    key: str = ""
    property_name: str = ""
    property_value: str = ""
    from_ms: int = 0
    until_ms: int = 0
    origin_subscription: str = ""
    redriven_max: int = 0
    origin_topic: str = ""
    reason: str = ""
    producer: str = ""


class Told(NamedTuple):
    """What a message says of how it became a dead letter; "" for what it does not say. Of a batch its first message's."""

    origin_topic: str = ""
    origin_subscription: str = ""
    reason: str = ""
    producer: str = ""
    shown_property: str = ""  # the value of the property that was asked for


class Edit(NamedTuple):
    """What a message goes back with, in place of what it has. `key` None: without one."""

    payload: bytes
    key: str | None
    properties: dict[str, str]


class NotEditable(ValueError):
    """Says why."""


class Judged(NamedTuple):
    matches: bool
    refused: str  # why it stays although it matches; "": it moves
    key: str
    publish_time_ms: int
    messages: int  # that would move
    told: Told


def judge(
    entry: DeadEntry, publish_time_ms: int, wanted: RedriveConditions, unpacked_bytes_max: int, shown_property: str = ""
) -> Judged:
    """One entry. Of a batch, what is not acknowledged counts."""
    verdicts, refused, key, messages = [], "", "", 0
    told: Told | None = None
    for metadata, _, _ in messages_of(entry, unpacked_bytes_max):
        properties = {as_text(pair.key): as_text(pair.value) for pair in metadata.properties}
        key = key or (as_text(metadata.partition_key) if metadata.HasField("partition_key") else "")
        messages += metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 1
        if told is None:
            told = _told(metadata, properties, shown_property)
        verdicts.append(_matches(wanted, metadata, properties, publish_time_ms))
        if wanted.redriven_max and times_redriven(properties) >= wanted.redriven_max:
            refused = TOO_OFTEN
        if metadata.HasField("chunk_id") and metadata.num_chunks_from_msg > 1:
            refused = A_CHUNK
    if any(verdicts) and not all(verdicts):
        refused = MIXED_BATCH
    return Judged(any(verdicts), refused, key, publish_time_ms, messages, told or Told())


def _told(metadata: pb.Metadata, properties: dict[str, str], shown_property: str) -> Told:
    said = properties.get
    producer = as_text(metadata.producer_name)
    return Told(said(ORIGIN_TOPIC, ""), said(ORIGIN_SUBSCRIPTION, ""), said(REASON, ""), producer, said(shown_property, ""))


def _matches(wanted: RedriveConditions, metadata: pb.Metadata, properties: dict[str, str], publish_time_ms: int) -> bool:
    return (
        (not wanted.key or (metadata.HasField("partition_key") and as_text(metadata.partition_key) == wanted.key))
        and (not wanted.property_name or properties.get(wanted.property_name) == wanted.property_value)
        and wanted.from_ms <= publish_time_ms
        and (not wanted.until_ms or publish_time_ms < wanted.until_ms)
        and (not wanted.origin_subscription or properties.get(ORIGIN_SUBSCRIPTION) == wanted.origin_subscription)
        and (not wanted.origin_topic or properties.get(ORIGIN_TOPIC) == wanted.origin_topic)
        and (not wanted.reason or properties.get(REASON) == wanted.reason)
        and (not wanted.producer or as_text(metadata.producer_name) == wanted.producer)
    )


def times_redriven(properties: dict[str, str]) -> int:
    text = properties.get(REDRIVEN, "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def producer_name(job: str) -> str:
    return f"magnetar.redrive.{job}"


def edited_frame(
    entry: DeadEntry, edit: Edit, producer: str, sequence_id: int, now_ms: int, unpacked_bytes_max: int
) -> tuple[bytes, int]:
    """The SEND frame of its message as it was edited. Raises `NotEditable`."""
    messages = list(messages_of(entry, unpacked_bytes_max))
    if len(messages) != 1:
        raise NotEditable(f"it is a batch of {len(messages)} messages: publish one like each of them instead")
    ((metadata, _, _),) = messages
    if metadata.HasField("num_messages_in_batch") and metadata.num_messages_in_batch > 1:
        raise NotEditable("it is a batch that cannot be unpacked")
    if metadata.encryption_keys:
        raise NotEditable("it is encrypted: only its producer could encrypt an edited one")
    if metadata.HasField("chunk_id") and metadata.num_chunks_from_msg > 1:
        raise NotEditable(f"it is {A_CHUNK}")
    times = times_redriven({as_text(pair.key): as_text(pair.value) for pair in metadata.properties}) + 1
    prepare(metadata, producer, sequence_id, now_ms)
    del metadata.properties[:]
    kept = ((name, value) for name, value in edit.properties.items() if name not in REMOVED)
    for name, value in (*kept, (REDRIVEN, str(times))):
        metadata.properties.add(key=name, value=value)
    for field in ("compression", "uncompressed_size", "null_value", "partition_key", "partition_key_b64_encoded", *_OF_A_BATCH):
        metadata.ClearField(field)
    if edit.key is not None:
        metadata.partition_key = edit.key
    return build_send(0, sequence_id, metadata, edit.payload, 1), 1


_OF_A_BATCH = ("num_messages_in_batch", "null_partition_key")


def redriven_frames(
    entries: Iterable[DeadEntry], producer: str, sequence_id: int, now_ms: int, unpacked_bytes_max: int
) -> Iterator[tuple[bytes, int]]:
    """(SEND frame, messages in it). Each message of a batch becomes one of its own; one that cannot be unpacked stays whole."""
    for entry in entries:
        for metadata, payload, _ in messages_of(entry, unpacked_bytes_max):
            count = metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 1
            prepare(metadata, producer, sequence_id, now_ms)
            kept = [(pair.key, pair.value) for pair in metadata.properties]
            times = times_redriven({as_text(key): as_text(value) for key, value in kept}) + 1
            del metadata.properties[:]
            for name, value in (*((name, value) for name, value in kept if name not in REMOVED), (REDRIVEN, str(times))):
                metadata.properties.add(key=name, value=value)
            yield build_send(0, sequence_id, metadata, payload, count), count
            sequence_id += count
