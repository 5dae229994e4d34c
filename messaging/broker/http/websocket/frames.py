"""The JSON frames of the WebSocket API, both directions. Field names are Pulsar's.

producer  in   {"payload": base64 or null, "properties"?, "context"?, "key"?, "eventTime"?, "sequenceId"?, "deliverAt"?,
                "deliverAfterMs"?, "encryptionParam"?, "compressionType"?, "uncompressedMessageSize"?}
          out  {"result": "ok", "messageId", "context"?}  |  {"result": "send-error:<code>", "errorMsg", "context"?}, both with
               {"errorCode": 0, "schemaVersion": 0}
consumer  out  {"messageId", "payload", "properties", "publishTime", "redeliveryCount", "key"?, "eventTime"?, "encryptionContext"?}
          in   {"messageId"} acknowledges; {"type": "negativeAcknowledge", "messageId"}; {"type": "permit", "permitMessages"};
               {"type": "unsubscribe"}; {"type": "isEndOfTopic"}

A payload that is null is a message without a value: a tombstone, which is not the same as an empty message. A scalar of another
type than its field's is converted as Pulsar's parser does: `scalars.py`.
"""

from __future__ import annotations

import binascii
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType

from messaging.broker.http.websocket.encryption import Keys, read_context
from messaging.broker.http.websocket.scalars import INT32, INT64, convert
from messaging.broker.runtime.local.messages import DeliveredMessage, EncryptionContext, MessagePosition, OutgoingMessage
from messaging.errors import AuthenticationFailed, InvalidValue, MagnetarError, NotAuthorized
from messaging.json_types import converted, decoder_of
from messaging.limits import websocket as limits
from messaging.limits.json_values import check_values
from messaging.limits.model import Limit
from messaging.limits.sizes import INT32_MAX, INT64_MAX, NAME_BYTES_MAX, PERMITS_MAX
from messaging.limits.structs import over_limit
from messaging.message_id import decode_message_id, encode_message_id
from messaging.times import EPOCH, TIME_MS_MAX, time_text

# Codes after "send-error:", and in the reason of a close frame.
AUTHENTICATION_ERROR, NOT_AUTHORIZED, BAD_JSON, BAD_PAYLOAD, UNKNOWN_ERROR = 5, 6, 3, 7, 8

Milliseconds = Annotated[int, Limit("milliseconds, up to the year 9999", minimum=0, maximum=TIME_MS_MAX)]
_TIME = Limit("an ISO 8601 time, with some margin", bytes_max=64)

Compression = Literal["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"]
_ENCODER = msgspec.json.Encoder()


class InvalidFrame(Exception):
    """An invalid frame. `code` is Pulsar's error number; `context` that of the frame, if it could be read."""

    def __init__(self, code: int, message: str, context: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.context = context


class ProducerFrame(msgspec.Struct, rename="camel"):
    payload: Annotated[str | UnsetType | None, Limit("base64 of the largest message", setting="message_bytes_max")] = UNSET
    properties: Annotated[
        dict[str, str | None] | None,
        Limit(
            "part of the message; each property is an object until it is stored",
            bytes_max=64 << 10,
            count_max=1000,
            total_bytes_max=64 << 10,
        ),
    ] = None
    context: Annotated[str | None, Limit("kept until the response and returned with it", bytes_max=1024)] = None
    key: Annotated[str | None, Limit("part of the message", bytes_max=64 << 10)] = None
    event_time: Annotated[str | None, _TIME] = None
    sequence_id: Annotated[int | None, Limit("stored as a signed 64-bit number, -1 for none", minimum=0, maximum=INT64_MAX - 1)] = (
        None
    )
    deliver_at: Milliseconds | None = None
    deliver_after_ms: Milliseconds | None = None
    replication_clusters: Annotated[
        list[str] | None, Limit("always refused: there is one cluster", bytes_max=NAME_BYTES_MAX, count_max=100)
    ] = None
    disable_replication: bool | None = None
    encryption_param: Annotated[str | None, Limit("base64 of a nonce, with some margin", bytes_max=1024)] = None
    compression_type: Annotated[str | None, Limit("the longest type has 6 characters", bytes_max=64)] = None
    uncompressed_message_size: Annotated[int | None, limits.COUNT] = None


class ConsumerCommand(msgspec.Struct, rename="camel"):
    type: Annotated[str | None, Limit("the longest command has 19 characters", bytes_max=64)] = None
    message_id: Annotated[str | None, limits.MESSAGE_ID] = None
    permit_messages: Annotated[
        int | None,
        Limit("permits that one consumer may hold; none are granted below 1", minimum=-INT32_MAX - 1, maximum=PERMITS_MAX),
    ] = None


FRAMES: tuple[type[msgspec.Struct], ...] = (ProducerFrame, ConsumerCommand)


class _Receipt(msgspec.Struct, rename="camel", omit_defaults=True):
    result: str
    error_code: int  # this and the next: Pulsar sends them, and nothing else than 0
    schema_version: int
    error_msg: str | UnsetType = UNSET
    message_id: str | UnsetType = UNSET
    context: str | UnsetType = UNSET


class _EncryptionKey(msgspec.Struct, rename="camel"):
    key_value: bytes
    metadata: dict[str, str]


class _EncryptionContext(msgspec.Struct, rename="camel"):
    keys: dict[str, _EncryptionKey]
    param: bytes
    algorithm: str
    compression_type: str
    uncompressed_message_size: int
    batch_size: int | None


class _Message(msgspec.Struct, rename="camel", omit_defaults=True):
    message_id: str
    payload: bytes | None
    properties: dict[str, str]
    publish_time: str
    redelivery_count: int
    key: str | UnsetType = UNSET
    event_time: str | UnsetType = UNSET
    encryption_context: _EncryptionContext | UnsetType = UNSET


_PRODUCER_FRAMES = decoder_of(ProducerFrame)
_COMMANDS = decoder_of(ConsumerCommand)
_PRODUCER_INTEGERS = {"sequenceId": INT64, "deliverAt": INT64, "deliverAfterMs": INT64, "uncompressedMessageSize": INT32}
_COMMAND_INTEGERS = {"permitMessages": INT32}
_COMPRESSIONS: tuple[Compression, ...] = get_args(Compression)


# --- what clients send -------------------------------------------------------------------------------------------------------


def read_outgoing(text: str | bytes, now_ms: int, keys: Keys | None = None) -> tuple[OutgoingMessage, str | None]:
    """The message to publish and the frame's context. `keys`: those of a producer that encrypts. Raises `InvalidFrame`."""
    try:
        check_values(text, "the frame")
        try:
            frame = _PRODUCER_FRAMES.decode(text)
        except msgspec.ValidationError:
            frame = convert(text, ProducerFrame, _PRODUCER_INTEGERS)
    except (InvalidValue, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidFrame(BAD_JSON, f"the frame is not the JSON of a message: {error}") from None
    wrong = over_limit(frame)
    if wrong is not None:  # the context is sent back, unless it is what is too long
        raise InvalidFrame(BAD_JSON, wrong[0], frame.context if not wrong[0].startswith("context ") else None)
    if frame.replication_clusters or frame.disable_replication:
        raise InvalidFrame(
            BAD_JSON, "replication is not supported: remove replicationClusters and disableReplication", frame.context
        )
    message = OutgoingMessage(
        _payload(frame),
        properties=_properties(frame),
        key=frame.key,
        event_time_ms=_read_time_ms(frame),
        sequence_id=frame.sequence_id,
        deliver_at_ms=_deliver_at_ms(frame, now_ms),
        null_value=frame.payload is None,
        encryption=_encryption(frame, keys or {}),
    )
    return message, frame.context


def _encryption(frame: ProducerFrame, keys: Keys) -> EncryptionContext | None:
    if bool(keys) != bool(frame.encryption_param):
        wrong = "has no encryptionParam" if keys else "has an encryptionParam, and its producer was opened without encryptionKeys"
        raise InvalidFrame(BAD_JSON, f"the frame {wrong}: send both or none of them", frame.context)
    if not frame.encryption_param:
        return None
    compression = next((known for known in _COMPRESSIONS if known == frame.compression_type), None)
    if compression is None and frame.compression_type is not None:
        raise InvalidFrame(
            BAD_JSON, f"compressionType {frame.compression_type[:40]!r} is none of {', '.join(_COMPRESSIONS)}", frame.context
        )
    compression, size = compression or "NONE", frame.uncompressed_message_size
    if compression != "NONE" and size is None:
        raise InvalidFrame(BAD_JSON, "uncompressedMessageSize is missing: send it with compressionType", frame.context)
    try:
        return read_context(keys, frame.encryption_param, compression, size or 0)
    except ValueError as error:
        raise InvalidFrame(BAD_JSON, f"encryptionParam is not base64: {error}", frame.context) from None


def _payload(frame: ProducerFrame) -> bytes:
    if frame.payload is None:
        return b""
    if frame.payload is UNSET:
        raise InvalidFrame(
            BAD_PAYLOAD, 'the frame has no payload: send base64, which is "" for an empty message, or null', frame.context
        )
    padding = "" if frame.payload.endswith("=") else "=" * (-len(frame.payload) % 4)  # some clients leave it out
    text = frame.payload + padding
    try:
        return converted(text, bytes)  # in a third of the time, on the loop: 5 MiB are 10 ms
    except msgspec.ValidationError:
        pass  # it takes less, and does not say what is wrong
    try:
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise InvalidFrame(BAD_PAYLOAD, f"the payload is not base64: {error}", frame.context) from None


def _properties(frame: ProducerFrame) -> dict[str, str]:
    return {key: value for key, value in (frame.properties or {}).items() if value is not None}


def _read_time_ms(frame: ProducerFrame) -> int:
    if frame.event_time is None:
        return 0
    try:
        if "T" not in frame.event_time:
            raise ValueError("a date without a time of day")
        moment = datetime.fromisoformat(frame.event_time)
        time_ms = (moment.replace(tzinfo=moment.tzinfo or UTC) - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise InvalidFrame(
            BAD_PAYLOAD,
            f"eventTime {frame.event_time[:40]!r} is not an ISO 8601 time such as 2026-01-31T12:00:00.000Z",
            frame.context,
        ) from None
    if time_ms < 0:
        raise InvalidFrame(
            BAD_JSON, f"eventTime {frame.event_time[:40]!r} is before 1970, which the protocol cannot express", frame.context
        )
    return time_ms


def _deliver_at_ms(frame: ProducerFrame, now_ms: int) -> int:
    if frame.deliver_after_ms:
        return now_ms + frame.deliver_after_ms
    return frame.deliver_at or 0


def read_command(text: str | bytes) -> ConsumerCommand:
    try:
        check_values(text, "the frame")
        try:
            command = _COMMANDS.decode(text)
        except msgspec.ValidationError:
            command = convert(text, ConsumerCommand, _COMMAND_INTEGERS)
    except (InvalidValue, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidFrame(BAD_JSON, f"the frame is not the JSON of a command: {error}") from None
    wrong = over_limit(command)
    if wrong is not None:
        raise InvalidFrame(BAD_JSON, wrong[0])
    return command


def read_position(message_id: str | None) -> MessagePosition:
    try:
        return MessagePosition(*decode_message_id(message_id or ""))
    except InvalidValue as error:
        raise InvalidFrame(BAD_JSON, error.message) from None


# --- what they get -----------------------------------------------------------------------------------------------------------


def receipt_frame(position: MessagePosition, context: str | None) -> str:
    return _text(_Receipt("ok", 0, 0, message_id=position_text(position), context=UNSET if context is None else context))


def send_error_frame(code: int, message: str, context: str | None) -> str:
    return _text(_Receipt(f"send-error:{code}", 0, 0, error_msg=message, context=UNSET if context is None else context))


def send_error_code(error: MagnetarError) -> int:
    if isinstance(error, AuthenticationFailed):
        return AUTHENTICATION_ERROR
    return NOT_AUTHORIZED if isinstance(error, NotAuthorized) else UNKNOWN_ERROR


def message_frame(message: DeliveredMessage) -> str:
    return _text(
        _Message(
            message_id=position_text(message.position),
            payload=None if message.null_value else message.payload,
            properties=message.properties,
            publish_time=time_text(message.publish_time_ms),
            redelivery_count=message.redelivery_count,
            key=UNSET if message.key is None else message.key,
            event_time=time_text(message.event_time_ms) if message.event_time_ms else UNSET,
            encryption_context=UNSET if message.encryption is None else _encryption_context(message.encryption),
        )
    )


def _encryption_context(encryption: EncryptionContext) -> _EncryptionContext:
    return _EncryptionContext(
        {name: _EncryptionKey(key.value, key.metadata) for name, key in encryption.keys.items()},
        encryption.param,
        encryption.algorithm,
        encryption.compression,
        encryption.uncompressed_bytes,
        encryption.batch_size,
    )


def end_of_topic_frame(ended: bool) -> str:
    return '{"endOfTopic":true}' if ended else '{"endOfTopic":false}'


def position_text(position: MessagePosition) -> str:
    return encode_message_id(position.ledger_id, position.entry_id, position.batch_index, position.partition)


def _text(frame: Any) -> str:
    return _ENCODER.encode(frame).decode("utf-8")
