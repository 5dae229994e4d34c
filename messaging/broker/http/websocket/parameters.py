"""Query parameters of the WebSocket API, by their Pulsar names and with Pulsar's defaults. What is not named here is skipped."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec

from messaging.bodies import explain
from messaging.broker.http.websocket.encryption import read_keys
from messaging.broker.runtime.local.messages import InitialPosition
from messaging.errors import InvalidValue
from messaging.json_types import converted
from messaging.limits import websocket as limits
from messaging.limits.model import Limit
from messaging.limits.sizes import INT32_MAX, INT64_MAX, TOPIC_BYTES_MAX, WHY_TOPIC
from messaging.limits.structs import check

QUEUE_SIZE_MAX = 1000  # Pulsar's cap on receiverQueueSize
_FIELDS_MAX = 64
_QUERY_BYTES_MAX = 32 << 10

Count = Annotated[int, limits.COUNT]
Millis = Annotated[int, Limit("64 bits, as in Pulsar", minimum=0, maximum=INT64_MAX)]


class ProducerParameters(msgspec.Struct, rename="camel"):
    """Batching and compression are taken for what they are, hints: messages of one read are stored as one block anyway."""

    producer_name: Annotated[str | None, limits.NAME] = None
    initial_sequence_id: Annotated[int | None, Limit("the next one must fit 64 bits", minimum=-1, maximum=INT64_MAX - 1)] = None
    hashing_scheme: Literal["JavaStringHash", "Murmur3_32Hash"] = "JavaStringHash"
    send_timeout_millis: Count = 30_000
    batching_enabled: bool = False
    batching_max_messages: Count = 1000
    batching_max_publish_delay: Count = 10
    max_pending_messages: Count = 1000
    message_routing_mode: Literal["SinglePartition", "RoundRobinPartition", "CustomPartition"] = "SinglePartition"
    compression_type: Literal["NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY"] = "NONE"
    encryption_keys: Annotated[str, Limit("base64 of keys that are stored with each message", bytes_max=16 << 10)] = ""

    def check(self) -> None:
        read_keys(self.encryption_keys)


class ConsumerParameters(msgspec.Struct, rename="camel"):
    subscription_type: Literal["Exclusive", "Shared", "Failover", "Key_Shared"] = "Exclusive"
    subscription_mode: Literal["Durable", "NonDurable"] = "Durable"
    subscription_initial_position: Literal["Latest", "Earliest"] = "Latest"
    receiver_queue_size: Count = QUEUE_SIZE_MAX
    consumer_name: Annotated[str, limits.NAME] = ""
    priority_level: Count = 0
    ack_timeout_millis: Millis = 0
    negative_ack_redelivery_delay: Count = 60_000
    max_redeliver_count: Annotated[int | None, Limit("32 bits, and more than none, as in Pulsar", minimum=1, maximum=INT32_MAX)] = (
        None
    )
    dead_letter_topic: Annotated[str, Limit(WHY_TOPIC, bytes_max=TOPIC_BYTES_MAX)] = ""
    pull_mode: bool = False
    crypto_failure_action: Literal["FAIL", "DISCARD", "CONSUME"] = "FAIL"

    def check(self) -> None:
        if self.dead_letter_topic and self.max_redeliver_count is None:
            raise InvalidValue("deadLetterTopic needs maxRedeliverCount: say how often a message may come again")
        if self.max_redeliver_count is not None and self.subscription_type not in ("Shared", "Key_Shared"):
            raise InvalidValue("maxRedeliverCount needs a Shared or Key_Shared subscription: of others no redeliveries are counted")
        if 0 < self.ack_timeout_millis < 1000:
            raise InvalidValue(f"ackTimeoutMillis {self.ack_timeout_millis} is too short: use 0 to disable it, or at least 1000")

    @property
    def initial(self) -> InitialPosition:
        return "latest" if self.subscription_initial_position == "Latest" else "earliest"

    @property
    def window(self) -> int:
        return min(max(self.receiver_queue_size, 1), QUEUE_SIZE_MAX)


class TopicsParameters(msgspec.Struct, rename="camel"):
    """What a consumer of several topics has beside `ConsumerParameters`: one of the two."""

    topics: Annotated[str, Limit("names with commas between them, in a request line of 8 KiB", bytes_max=7 << 10)] = ""
    topics_pattern: Annotated[str, Limit("a pattern of topic names", bytes_max=TOPIC_BYTES_MAX)] = ""

    def check(self) -> None:
        if bool(self.topics) == bool(self.topics_pattern):
            raise InvalidValue("send either topics, which are names with commas between them, or topicsPattern")

    @property
    def names(self) -> list[str]:
        return [name.strip() for name in self.topics.split(",")]


class ReaderParameters(msgspec.Struct, rename="camel"):
    reader_name: Annotated[str, limits.NAME] = ""
    receiver_queue_size: Count = QUEUE_SIZE_MAX
    message_id: Annotated[str, limits.MESSAGE_ID] = "latest"  # or "earliest", or the text of a message id: read what comes after it
    crypto_failure_action: Literal["FAIL", "DISCARD", "CONSUME"] = "FAIL"

    def check(self) -> None:
        pass

    @property
    def window(self) -> int:
        return min(max(self.receiver_queue_size, 1), QUEUE_SIZE_MAX)


PARAMETERS: tuple[type[msgspec.Struct], ...] = (ProducerParameters, ConsumerParameters, TopicsParameters, ReaderParameters)

P = TypeVar("P", ProducerParameters, ConsumerParameters, TopicsParameters, ReaderParameters)


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
        parameters = converted({key: value for key, value in query.items() if value}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidValue(f"query parameter {explain(error, kind)}") from None
    check(parameters)
    parameters.check()
    return parameters
