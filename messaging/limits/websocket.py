"""Limits of the WebSocket API: fields of frames, by the names of `messaging.broker.http.websocket.frames`, and query parameters.

A message over a limit gets a ``send-error:<code>`` with its context. Any other frame over a limit closes the connection with 1007
and
the reason. A query parameter over a limit refuses the upgrade with 400.
"""

from __future__ import annotations

from messaging.limits.model import Limit
from messaging.limits.sizes import (
    BATCH_MESSAGES_MAX,
    INT32_MAX,
    INT64_MAX,
    NAME_BYTES_MAX,
    PERMITS_MAX,
    TOPIC_BYTES_MAX,
    WHY_NAME,
    WHY_TOPIC,
)
from messaging.times import TIME_MS_MAX

_NAME = Limit(WHY_NAME, bytes_max=NAME_BYTES_MAX)
_TIME = Limit("an ISO 8601 time, with some margin", bytes_max=64)
_MESSAGE_ID = Limit("a message id has fewer than 100 characters; ids of other brokers may be longer", bytes_max=4096)
_COUNT = Limit("32 bits, as in Pulsar", minimum=0, maximum=INT32_MAX)

WEBSOCKET: dict[str, Limit] = {
    # What producers send
    "ProducerFrame.payload": Limit("base64 of the largest message", setting="message_bytes_max"),
    "ProducerFrame.properties": Limit(
        "part of the message; each property is an object until it is stored",
        bytes_max=64 << 10,
        count_max=1000,
        total_bytes_max=64 << 10,
    ),
    "ProducerFrame.context": Limit("kept until the response and returned with it", bytes_max=1024),
    "ProducerFrame.key": Limit("part of the message", bytes_max=64 << 10),
    "ProducerFrame.event_time": _TIME,
    "ProducerFrame.sequence_id": Limit("stored as a signed 64-bit number, -1 for none", minimum=0, maximum=INT64_MAX - 1),
    "ProducerFrame.deliver_at": Limit("milliseconds, up to the year 9999", minimum=0, maximum=TIME_MS_MAX),
    "ProducerFrame.deliver_after_ms": Limit("milliseconds, up to the year 9999", minimum=0, maximum=TIME_MS_MAX),
    "ProducerFrame.replication_clusters": Limit("always refused: there is one cluster", bytes_max=NAME_BYTES_MAX, count_max=100),
    "ProducerFrame.encryption_param": Limit("base64 of a nonce, with some margin", bytes_max=1024),
    "ProducerFrame.compression_type": Limit("the longest type has 6 characters", bytes_max=64),
    "ProducerFrame.uncompressed_message_size": _COUNT,
    # What consumers and readers send
    "ConsumerCommand.type": Limit("the longest command has 19 characters", bytes_max=64),
    "ConsumerCommand.message_id": _MESSAGE_ID,
    "ConsumerCommand.permit_messages": Limit(
        "permits that one consumer may hold; none are granted below 1", minimum=-INT32_MAX - 1, maximum=PERMITS_MAX
    ),
    # What a message id names (field 4 of its protobuf)
    "MessageId.batch_index": Limit(
        "an index in the largest batch; it must also be in the batch of its entry", minimum=-1, maximum=BATCH_MESSAGES_MAX - 1
    ),
    # Query parameters
    "ProducerParameters.producer_name": _NAME,
    "ProducerParameters.initial_sequence_id": Limit("the next one must fit 64 bits", minimum=-1, maximum=INT64_MAX - 1),
    "ProducerParameters.send_timeout_millis": _COUNT,
    "ProducerParameters.batching_max_messages": _COUNT,
    "ProducerParameters.batching_max_publish_delay": _COUNT,
    "ProducerParameters.max_pending_messages": _COUNT,
    "ProducerParameters.encryption_keys": Limit("base64 of keys that are stored with each message", bytes_max=16 << 10),
    "ConsumerParameters.receiver_queue_size": _COUNT,
    "ConsumerParameters.consumer_name": _NAME,
    "ConsumerParameters.priority_level": _COUNT,
    "ConsumerParameters.ack_timeout_millis": Limit("64 bits, as in Pulsar", minimum=0, maximum=INT64_MAX),
    "ConsumerParameters.negative_ack_redelivery_delay": _COUNT,
    "ConsumerParameters.max_redeliver_count": _COUNT,
    "ConsumerParameters.dead_letter_topic": Limit(WHY_TOPIC, bytes_max=TOPIC_BYTES_MAX),
    "ReaderParameters.reader_name": _NAME,
    "ReaderParameters.receiver_queue_size": _COUNT,
    "ReaderParameters.message_id": _MESSAGE_ID,
}
