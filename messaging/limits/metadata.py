"""Limits of message metadata. The broker stores messages without parsing them, so on the way in only the frame size limits them.

Where the broker parses a message (WebSocket consumers, peeking, the last message id), it checks the limits below first. A message
over one of them is treated as unreadable there; binary clients still receive it.
"""

from __future__ import annotations

from messaging.limits.model import Limit
from messaging.limits.sizes import BATCH_MESSAGES_MAX, INT32_MAX

_FRAME = Limit("part of the message and limited with it; the broker stores it without parsing it", setting="message_bytes_max")

METADATA: dict[str, Limit] = {
    "Metadata.num_messages_in_batch": Limit(
        "the same as `num_messages` of its SEND, which is authoritative", minimum=1, maximum=BATCH_MESSAGES_MAX
    ),
    "Metadata.uncompressed_size": Limit(
        "four times the largest message: the memory that unpacking may use", minimum=0, setting="message_bytes_max"
    ),
    "SingleMetadata.payload_size": Limit("must fit in its batch", minimum=0, maximum=INT32_MAX),
}


def limit_of(message: str, field: str) -> Limit:
    """The row of a field of `Metadata`, `SingleMetadata`, or of a message in them."""
    return METADATA.get(f"{message}.{field}", _FRAME)
