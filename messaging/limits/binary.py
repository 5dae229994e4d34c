"""Limits of the binary protocol, by message and field as `pulsar.proto` names them.

Each text, bytes or repeated field has a row, or shares one under its field name if it means the same in every message. Numbers,
flags and enumerations without a row may have any value of their type, and a message is limited by its own fields. Commands that
only a broker sends need no rows: a client that sends one is disconnected.
"""

from __future__ import annotations

from messaging.errors import InvalidName
from messaging.limits.model import Limit
from messaging.limits.sizes import (
    ACK_SET_WORDS_MAX,
    BATCH_MESSAGES_MAX,
    INT64_MAX,
    MESSAGE_IDS_MAX,
    NAME_BYTES_MAX,
    PAIR_BYTES_MAX,
    PAIRS_COUNT_MAX,
    PAIRS_TOTAL_BYTES_MAX,
    SCHEMA_BYTES_MAX,
    TOKEN_BYTES_MAX,
    TOPIC_BYTES_MAX,
    WHY_NAME,
    WHY_PAIRS,
    WHY_SCHEMA,
    WHY_TOKEN,
    WHY_TOPIC,
)

# Messages that only the broker sends.
ANSWERS = frozenset(
    {
        "AckResponse",
        "ActiveConsumerChange",
        "AuthChallenge",
        "Connected",
        "ConsumerStatsResponse",
        "ErrorAnswer",
        "GetLastMessageIdResponse",
        "GetOrCreateSchemaResponse",
        "GetSchemaResponse",
        "GetTopicsOfNamespaceResponse",
        "LookupResponse",
        "Message",
        "PartitionedMetadataResponse",
        "ProducerSuccess",
        "ReachedEndOfTopic",
        "SendError",
        "SendReceipt",
        "Success",
        "WatchTopicListSuccess",
        "WatchTopicUpdate",
    }
)

NAME = Limit(WHY_NAME, bytes_max=NAME_BYTES_MAX)
TOPIC = Limit(WHY_TOPIC, bytes_max=TOPIC_BYTES_MAX, error=InvalidName)
NAMESPACE = Limit("two names and a slash", bytes_max=2 * NAME_BYTES_MAX + 1, error=InvalidName)
PATTERN = Limit("a pattern of topic names", bytes_max=TOPIC_BYTES_MAX)
TOPICS_HASH = Limit("a hexadecimal checksum, 8 characters today", bytes_max=64)
PAIRS = Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX, count_max=PAIRS_COUNT_MAX, total_bytes_max=PAIRS_TOTAL_BYTES_MAX)
TOKEN = Limit(WHY_TOKEN, bytes_max=TOKEN_BYTES_MAX)
METHOD = Limit("the longest method name in use has 20 characters", bytes_max=255)
VERSION = Limit("kept with the connection and logged: a name, a version and a short description", bytes_max=255)
MESSAGE_IDS = Limit("the default limit of unacknowledged messages per consumer, so nobody can name more", count_max=MESSAGE_IDS_MAX)
ACK_SET = Limit(
    "one bit for each message of the largest batch; a set must also fit the batch of its entry",
    count_max=ACK_SET_WORDS_MAX,
)
_SEQUENCE = Limit("stored as a signed 64-bit number, -1 for none", minimum=0, maximum=INT64_MAX)

# By field name, for fields without a row for their message.
BY_FIELD: dict[str, Limit] = {
    "topic": TOPIC,
    "metadata": PAIRS,
    "properties": PAIRS,
    "ack_set": ACK_SET,
    "schema_version": Limit("8 bytes in every implementation, with some margin", bytes_max=64),
}

BINARY: dict[str, Limit] = {
    "KeyValue.key": Limit("part of a properties field", bytes_max=PAIR_BYTES_MAX),
    "KeyValue.value": Limit("part of a properties field", bytes_max=PAIR_BYTES_MAX),
    "Schema.name": NAME,
    "Schema.schema_data": Limit(WHY_SCHEMA, bytes_max=SCHEMA_BYTES_MAX),
    "Schema.properties": Limit(
        f"{WHY_SCHEMA}; for Protobuf and key-value schemas they contain the schema again",
        bytes_max=SCHEMA_BYTES_MAX,
        count_max=PAIRS_COUNT_MAX,
        total_bytes_max=SCHEMA_BYTES_MAX,
    ),
    "Connect.client_version": VERSION,
    "Connect.proxy_version": VERSION,
    "Connect.auth_data": TOKEN,
    "Connect.auth_method_name": METHOD,
    "CloseConsumer.assigned_broker_service_url": Limit("the address of a broker, from one", bytes_max=1024),
    "CloseConsumer.assigned_broker_service_url_tls": Limit("the address of a broker, from one", bytes_max=1024),
    "CloseProducer.assigned_broker_service_url": Limit("the address of a broker, from one", bytes_max=1024),
    "CloseProducer.assigned_broker_service_url_tls": Limit("the address of a broker, from one", bytes_max=1024),
    "Connect.proxy_to_broker_url": Limit("the address of a broker", bytes_max=1024),
    "Connect.original_principal": Limit("what a broker says of a client, a few names of at most 1,024 characters", bytes_max=8192),
    "Connect.original_auth_data": TOKEN,
    "Connect.original_auth_method": METHOD,
    "AuthData.auth_method_name": METHOD,
    "AuthData.auth_data": TOKEN,
    "AuthResponse.client_version": VERSION,
    "Lookup.advertised_listener_name": NAME,
    "GetTopicsOfNamespace.namespace": NAMESPACE,
    "GetTopicsOfNamespace.topics_pattern": PATTERN,
    "GetTopicsOfNamespace.topics_hash": TOPICS_HASH,
    "WatchTopicList.namespace": NAMESPACE,
    "WatchTopicList.topics_pattern": PATTERN,
    "WatchTopicList.topics_hash": TOPICS_HASH,
    "Producer.producer_name": NAME,
    "Producer.initial_subscription_name": NAME,
    "Producer.topic_epoch": Limit(
        "stored as a signed 64-bit number, and each new owner of a topic adds 1", minimum=0, maximum=INT64_MAX
    ),
    "Send.sequence_id": _SEQUENCE,
    "Send.highest_sequence_id": _SEQUENCE,
    "Send.num_messages": Limit(
        "a batch of the largest size with 40 bytes per message, and at most as many as fit the payload at 6 bytes each",
        minimum=1,
        maximum=BATCH_MESSAGES_MAX,
    ),
    "Subscribe.subscription": NAME,
    "Subscribe.consumer_name": NAME,
    "Subscribe.subscription_properties": PAIRS,
    "KeySharedMeta.hash_ranges": Limit("there are 65,536 hashes, and clients send a few ranges", count_max=1024),
    "Ack.message_id": MESSAGE_IDS,
    "RedeliverUnacknowledgedMessages.message_ids": MESSAGE_IDS,
}


def limit_of(message: str, field: str) -> Limit | None:
    """The row of a field, or None if only its type limits it."""
    return BINARY.get(f"{message}.{field}") or BY_FIELD.get(field)
