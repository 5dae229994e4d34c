"""The frames of Pulsar's JSON WebSocket API, as a client writes and reads them. Another protocol would be another codec."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from messaging.client.errors import SendFailed
from messaging.client.message import Message, MessageId, OutgoingMessage
from messaging.errors import MagnetarError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class InvalidAnswer(Exception):
    """The server sent what no server should."""


class _SendFrame(msgspec.Struct, rename="camel", omit_defaults=True):
    payload: bytes
    context: str
    sequence_id: int | UnsetType = UNSET
    properties: dict[str, str] | UnsetType = UNSET
    key: str | UnsetType = UNSET
    event_time: str | UnsetType = UNSET
    deliver_at: int | UnsetType = UNSET


class _ReceiptFrame(msgspec.Struct, rename="camel"):
    result: str
    message_id: str = ""
    error_msg: str = ""
    context: str = ""


class _MessageFrame(msgspec.Struct, rename="camel"):
    message_id: str
    payload: bytes | None
    publish_time: str
    properties: dict[str, str] | None = None
    redelivery_count: int = 0
    key: str | None = None
    event_time: str | None = None


class Receipt(NamedTuple):
    """What became of operation `number`: `error` None means stored as `message_id`."""

    number: int
    message_id: MessageId
    error: MagnetarError | None


_ENCODER = msgspec.json.Encoder()
_RECEIPTS = msgspec.json.Decoder(_ReceiptFrame)
_MESSAGES = msgspec.json.Decoder(_MessageFrame)


def encode_send(number: int, message: OutgoingMessage, sequence_id: int | None) -> str:
    """`number` comes back in the answer; by `sequence_id` the broker knows a repetition, where deduplication is on."""
    frame = _SendFrame(
        payload=message.payload,
        context=str(number),
        sequence_id=UNSET if sequence_id is None else sequence_id,
        properties=message.properties or UNSET,
        key=UNSET if message.key is None else message.key,
        event_time=UNSET if message.event_time_ms is None else _time_text(message.event_time_ms),
        deliver_at=UNSET if message.deliver_at_ms is None else message.deliver_at_ms,
    )
    return _ENCODER.encode(frame).decode()


def decode_receipt(text: str) -> Receipt:
    """Raises `InvalidAnswer`."""
    try:
        frame = _RECEIPTS.decode(text)
        number = int(frame.context)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidAnswer(f"the broker's response to a message is not valid: {error}") from None
    if frame.result == "ok":
        return Receipt(number, MessageId(frame.message_id), None)
    code = frame.result.rpartition(":")[2]
    return Receipt(number, MessageId(""), SendFailed(frame.error_msg or frame.result, int(code) if code.isdecimal() else 8))


def decode_message(text: str) -> Message:
    """Raises `InvalidAnswer`."""
    try:
        frame = _MESSAGES.decode(text)
        return Message(
            MessageId(frame.message_id),
            frame.payload or b"",
            frame.properties or {},
            _time_ms(frame.publish_time),
            frame.redelivery_count,
            frame.key,
            None if frame.event_time is None else _time_ms(frame.event_time),
            frame.payload is None,
        )
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidAnswer(f"the broker sent an invalid message: {error}") from None


def encode_ack(message_id: MessageId) -> str:
    return _ENCODER.encode({"messageId": message_id.text}).decode()


def encode_nack(message_id: MessageId) -> str:
    return _ENCODER.encode({"type": "negativeAcknowledge", "messageId": message_id.text}).decode()


def _time_text(time_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _time_ms(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // _MILLISECOND
