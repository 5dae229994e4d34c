"""Query parameters of the WebSocket API, by their Pulsar names and with Pulsar's defaults. What is not named here is skipped.

Parameters that ask for something the broker does not do yet are refused rather than skipped, where ignoring them would break
what the client relies on.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from messaging.broker.http.websocket.encryption import read_keys
from messaging.errors import InvalidValue
from messaging.limits.structs import check

QUEUE_SIZE_MAX = 1000  # Pulsar's cap on receiverQueueSize
_FIELDS_MAX = 64
_QUERY_BYTES_MAX = 32 << 10

Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Millis = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class ProducerParameters(msgspec.Struct, rename="camel"):
    """Batching and compression are taken for what they are, hints: messages of one read are stored as one block anyway."""

    producer_name: str | None = None
    initial_sequence_id: Annotated[int, Meta(ge=-1, le=2**63 - 2)] | None = None
    hashing_scheme: Literal["JavaStringHash", "Murmur3_32Hash"] = "JavaStringHash"
    send_timeout_millis: Count = 30_000
    batching_enabled: bool = False
    batching_max_messages: Count = 1000
    batching_max_publish_delay: Count = 10
    max_pending_messages: Count = 1000
    message_routing_mode: Literal["SinglePartition", "RoundRobinPartition", "CustomPartition"] = "SinglePartition"
    compression_type: Literal["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"] = "NONE"
    encryption_keys: str = ""

    def check(self) -> None:
        read_keys(self.encryption_keys)


class ConsumerParameters(msgspec.Struct, rename="camel"):
    subscription_type: Literal["Exclusive", "Shared", "Failover", "Key_Shared"] = "Exclusive"
    subscription_mode: Literal["Durable", "NonDurable"] = "Durable"
    subscription_initial_position: Literal["Latest", "Earliest"] = "Latest"
    receiver_queue_size: Count = QUEUE_SIZE_MAX
    consumer_name: str = ""
    priority_level: Count = 0
    ack_timeout_millis: Millis = 0
    negative_ack_redelivery_delay: Count = 60_000
    max_redeliver_count: Count | None = None
    dead_letter_topic: str = ""
    pull_mode: bool = False
    crypto_failure_action: Literal["FAIL", "DISCARD", "CONSUME"] = "FAIL"

    def check(self) -> None:
        dead_letters = self.max_redeliver_count is not None or bool(self.dead_letter_topic)
        _refuse("maxRedeliverCount and deadLetterTopic", dead_letters, "set a dead-letter policy of the subscription")
        if 0 < self.ack_timeout_millis < 1000:
            raise InvalidValue(f"ackTimeoutMillis {self.ack_timeout_millis} is too short: use 0 to disable it, or at least 1000")

    @property
    def window(self) -> int:
        return min(max(self.receiver_queue_size, 1), QUEUE_SIZE_MAX)


class ReaderParameters(msgspec.Struct, rename="camel"):
    reader_name: str = ""
    receiver_queue_size: Count = QUEUE_SIZE_MAX
    message_id: str = "latest"  # or "earliest", or the text of a message id: read what comes after it
    crypto_failure_action: Literal["FAIL", "DISCARD", "CONSUME"] = "FAIL"

    def check(self) -> None:
        pass

    @property
    def window(self) -> int:
        return min(max(self.receiver_queue_size, 1), QUEUE_SIZE_MAX)


P = TypeVar("P", ProducerParameters, ConsumerParameters, ReaderParameters)


def parse_query(query: bytes) -> dict[str, str]:
    """The parameters as text; the first of a repeated one counts. Raises `InvalidValue`."""
    if len(query) > _QUERY_BYTES_MAX:
        raise InvalidValue(f"the query is longer than {_QUERY_BYTES_MAX} bytes")
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict")
    except ValueError:
        raise InvalidValue(f"the query is not up to {_FIELDS_MAX} parameters in URL encoding") from None
    return dict(reversed(pairs))


def read_parameters(kind: type[P], query: dict[str, str]) -> P:
    """Raises `InvalidValue` naming the parameter."""
    try:
        parameters = msgspec.convert({key: value for key, value in query.items() if value}, kind, strict=False)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        raise InvalidValue(f"query parameter {where.rstrip('`') or '?'} is not valid: {message}") from None
    check(parameters, "websocket")
    parameters.check()
    return parameters


def _refuse(what: str, asked: bool, instead: str) -> None:
    if asked:
        raise InvalidValue(f"{what} is not supported on WebSockets: {instead}")
