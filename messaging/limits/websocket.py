"""Limits that fields of the WebSocket API share. Those of one field stand in its annotation: frames and query parameters are in
`messaging.broker.http.websocket`.

A message over a limit gets a ``send-error:<code>`` with its context. Any other frame over a limit closes the connection with 1007
and the reason. A query parameter over a limit refuses the upgrade with 400.
"""

from __future__ import annotations

from messaging.limits.model import Limit
from messaging.limits.sizes import BATCH_MESSAGES_MAX, INT32_MAX, NAME_BYTES_MAX, WHY_NAME

NAME = Limit(WHY_NAME, bytes_max=NAME_BYTES_MAX)
MESSAGE_ID = Limit("a message id has fewer than 100 characters; ids of other brokers may be longer", bytes_max=4096)
COUNT = Limit("32 bits, as in Pulsar", minimum=0, maximum=INT32_MAX)

# What a message id names (field 4 of its protobuf)
BATCH_INDEX = Limit(
    "an index in the largest batch; it must also be in the batch of its entry", minimum=-1, maximum=BATCH_MESSAGES_MAX - 1
)
