"""Finds the messages of a producer's read that are not stored, damaged ones or unsupported kinds; the others are stored. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, cast

from messaging.protocol import frames, hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import implausible
from messaging.protocol.frames import ProtocolError
from messaging.protocol.hot import SendFrame


class Refusal(NamedTuple):
    """Why one message is not stored."""

    producer_id: int
    sequence_id: int
    code: int
    reason: str

    @property
    def error_name(self) -> str:
        return pb.Error.Name(cast(Any, self.code))

    def encode(self) -> bytes:
        error = pb.SendError(
            producer_id=self.producer_id, sequence_id=self.sequence_id, error=cast(Any, self.code), message=self.reason
        )
        return frames.command(pb.Command.SEND_ERROR, send_error=error)


class Delays(Protocol):
    def refusal(self, frame: SendFrame) -> str:
        """Why its delivery time is refused; "" where it is not."""


def storable(
    sent: list[SendFrame],
    buf: bytes,
    message_bytes_max: int,
    delays: Delays | None,
    *,
    encrypted: bool = False,
    topic_max: int = 0,
) -> Iterator[list[SendFrame] | Refusal]:
    """The messages of `sent` that can be stored, and the refusals of the others, in order. `delays` judges their delivery
    times; None: any may be. `encrypted`: only those that are. `topic_max`: the policy max_message_size_bytes.

    Raises `ProtocolError`, before anything else, if a SEND cannot be parsed."""
    if any(frame.flags & hot.MALFORMED for frame in sent):
        raise ProtocolError("a SEND with unreadable fields")
    good: list[SendFrame] = []
    for frame in sent:
        refusal = _refusal(frame, buf, message_bytes_max, delays, encrypted, topic_max)
        if refusal is None:
            good.append(frame)
            continue
        if good:
            yield good
            good = []
        yield refusal
    if good:
        yield good


def fenced_refusal(frame: SendFrame) -> Refusal:
    """For a message of a producer that another one has fenced. Its client connects again and is told then."""
    sequence_id = max(frame.sequence_id, frame.highest_sequence_id)
    return Refusal(
        frame.producer_id, sequence_id, pb.PersistenceError, "another producer took the topic over: the producer is closed"
    )


def no_room(frame: SendFrame, why: str) -> Refusal:
    """For a message of a tenant that has stored as much as it may."""
    return Refusal(frame.producer_id, max(frame.sequence_id, frame.highest_sequence_id), pb.NotAllowedError, why)


def _refusal(
    frame: SendFrame, buf: bytes, message_bytes_max: int, delays: Delays | None, encrypted: bool, topic_max: int
) -> Refusal | None:
    """None for a message that can be stored."""
    why = _why(frame, buf, message_bytes_max)
    if why is None and topic_max and not frame.flags & hot.CHUNK and (size := frame.end - frame.payload_start) > topic_max:
        why = (
            pb.NotAllowedError,
            f"the message has {size} bytes; max_message_size_bytes of the topic is {topic_max}: send it in chunks",
        )
    if why is None and encrypted:
        why = _unencrypted(frame, buf)
    if why is None and delays is not None and (late := delays.refusal(frame)):  # the last: who passes is counted
        why = pb.NotAllowedError, late
    return None if why is None else Refusal(frame.producer_id, max(frame.sequence_id, frame.highest_sequence_id), *why)


def _unencrypted(frame: SendFrame, buf: bytes) -> tuple[int, str] | None:
    try:
        metadata = frames.parse_metadata(memoryview(buf)[frame.payload_start : frame.end])
    except ProtocolError as error:
        return pb.MetadataError, str(error)
    if metadata.encryption_keys:
        return None
    return pb.MetadataError, "the message is not encrypted, and its producer was opened as one that encrypts"


def _why(frame: SendFrame, buf: bytes, message_bytes_max: int) -> tuple[int, str] | None:
    """The error code and text of the refusal."""
    flags = frame.flags
    if flags & hot.BAD_CHECKSUM:
        return pb.ChecksumError, "the checksum does not match the message: send it again"
    if flags & hot.TRANSACTION:
        return pb.NotAllowedError, "transactions are not served yet"
    if flags & hot.MARKER:
        return pb.NotAllowedError, "markers are the broker's own"
    if flags & hot.DOUBTFUL:
        stored = buf[frame.payload_start : frame.end]
        wrong = implausible(frame.sequence_id, frame.highest_sequence_id, frame.message_count, stored, message_bytes_max)
        if wrong is not None:
            return pb.NotAllowedError, wrong
    return None
