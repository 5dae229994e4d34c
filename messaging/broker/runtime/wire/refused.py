"""What of a producer's read is not stored: damaged messages, and kinds that are not served. The rest of the read is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from messaging.broker.core.producers import Producer
from messaging.broker.runtime.topics.topic import Topic
from messaging.protocol import frames, hot
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.batch import implausible
from messaging.protocol.frames import ProtocolError
from messaging.protocol.hot import SendFrame

if TYPE_CHECKING:
    from messaging.broker.runtime.wire.opened import Opened


def publish(connection: Opened, topic: Topic, producer: Producer, buf: bytes, sent: list[SendFrame]) -> None:
    """Appends what can be stored and answers the rest, each answer where the receipt would be: clients go by the order.

    Raises `ProtocolError`, before anything is stored, where a SEND cannot be read at all."""
    if any(frame.flags & hot.MALFORMED for frame in sent):
        raise ProtocolError("a SEND whose fields cannot be read")
    good: list[SendFrame] = []
    for frame in sent:
        why = _why(frame, buf, connection.service.settings.message_bytes_max)
        if why is None:
            good.append(frame)
            continue
        if good:
            connection.append(topic, producer, buf, good, hot.summarize(good))
            good = []
        topic.publisher.run_after_pending(partial(_send_error, connection, producer, frame, *why))
    if good:
        connection.append(topic, producer, buf, good, hot.summarize(good))


def _send_error(connection: Opened, producer: Producer, frame: SendFrame, code: int, message: str, stored: bool) -> None:
    """Not after a failure of what came before: the producer is closed then, and its client sends everything again."""
    if not stored or producer.closed:
        return
    sequence_id = max(frame.sequence_id, frame.highest_sequence_id)
    error = pb.SendError(producer_id=frame.producer_id, sequence_id=sequence_id, error=cast(Any, code), message=message)
    connection.service.count_publish_error(pb.Error.Name(cast(Any, code)))
    connection.send(frames.command(pb.Command.SEND_ERROR, send_error=error))


def _why(frame: SendFrame, buf: bytes, message_bytes_max: int) -> tuple[int, str] | None:
    """Code and text of the refusal; None for a message that is to be stored."""
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
        return None if wrong is None else (pb.NotAllowedError, wrong)
    return None
