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
ORIGIN_SUBSCRIPTION = "REAL_SUBSCRIPTION"
REMOVED = (ORIGIN_SUBSCRIPTION, "DEAD_LETTER_REASON", "DEAD_LETTER_REDELIVERY_COUNT", REDRIVEN)
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


class Judged(NamedTuple):
    matches: bool
    refused: str  # why it stays although it matches; "": it moves
    key: str
    publish_time_ms: int
    messages: int  # that would move


def judge(entry: DeadEntry, publish_time_ms: int, wanted: RedriveConditions, unpacked_bytes_max: int) -> Judged:
    """One entry. Of a batch, what is not acknowledged counts."""
    verdicts, refused, key, messages = [], "", "", 0
    for metadata, _, _ in messages_of(entry, unpacked_bytes_max):
        properties = {as_text(pair.key): as_text(pair.value) for pair in metadata.properties}
        key = key or (as_text(metadata.partition_key) if metadata.HasField("partition_key") else "")
        messages += metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else 1
        verdicts.append(_matches(wanted, metadata, properties, publish_time_ms))
        if wanted.redriven_max and times_redriven(properties) >= wanted.redriven_max:
            refused = TOO_OFTEN
        if metadata.HasField("chunk_id") and metadata.num_chunks_from_msg > 1:
            refused = A_CHUNK
    if any(verdicts) and not all(verdicts):
        refused = MIXED_BATCH
    return Judged(any(verdicts), refused, key, publish_time_ms, messages)


def _matches(wanted: RedriveConditions, metadata: pb.Metadata, properties: dict[str, str], publish_time_ms: int) -> bool:
    return (
        (not wanted.key or (metadata.HasField("partition_key") and as_text(metadata.partition_key) == wanted.key))
        and (not wanted.property_name or properties.get(wanted.property_name) == wanted.property_value)
        and wanted.from_ms <= publish_time_ms
        and (not wanted.until_ms or publish_time_ms < wanted.until_ms)
        and (not wanted.origin_subscription or properties.get(ORIGIN_SUBSCRIPTION) == wanted.origin_subscription)
    )


def times_redriven(properties: dict[str, str]) -> int:
    text = properties.get(REDRIVEN, "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def producer_name(job: str) -> str:
    return f"magnetar.redrive.{job}"


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
