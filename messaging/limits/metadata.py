"""Limits of what producers write about a message. The broker stores it unopened: on the way in it is bounded by the frame.

Where the broker opens a message (WebSocket consumers, peeking, the last message id) the counts below are checked before anything is
made of them; a message over one of them is passed over there as unreadable, and binary clients still get it.
"""

from __future__ import annotations

from messaging.limits.model import Limit
from messaging.limits.sizes import BATCH_MESSAGES_MAX, INT32_MAX

_FRAME = Limit("part of the message, and bounded with it: the broker stores it unopened", setting="message_bytes_max")

METADATA: dict[str, Limit] = {
    "Metadata.num_messages_in_batch": Limit(
        "as `num_messages` of its SEND, which is the number that counts", minimum=1, maximum=BATCH_MESSAGES_MAX
    ),
    "Metadata.uncompressed_size": Limit(
        "four times the largest message: what opening one may take", minimum=0, setting="message_bytes_max"
    ),
    "SingleMetadata.payload_size": Limit("within the bytes of its batch", minimum=0, maximum=INT32_MAX),
}


def limit_of(message: str, field: str) -> Limit:
    """The row of a field of `Metadata`, `SingleMetadata`, or of a message in them."""
    return METADATA.get(f"{message}.{field}", _FRAME)
