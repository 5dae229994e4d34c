"""Limits of what is asked of the advice about producers (`messaging.client.tuning_report`): on the command line, of the API and in
the console. Those of settings are at least what the SDK takes."""

from __future__ import annotations

from collections.abc import Mapping

from messaging.limits.model import Limit
from messaging.limits.sizes import BATCH_MESSAGES_MAX, INT32_MAX, PARTITIONS_MAX

_WAIT = "an hour: nobody waits longer for a batch"

MESSAGE_BYTES = Limit("more than any broker takes", minimum=1, maximum=1 << 30)
RATE = Limit("above 0; more than a cluster takes", minimum=0, maximum=1_000_000_000)
PARTITIONS = Limit("each partition is a topic", minimum=1, maximum=PARTITIONS_MAX)
PRODUCERS = Limit("more than a topic has", minimum=1, maximum=1_000_000)
MESSAGES_PER_ENTRY = Limit("messages of the largest batch", minimum=1, maximum=BATCH_MESSAGES_MAX)
LATENCY = Limit(f"above 0; {_WAIT}", minimum=0, maximum=3_600_000)
BATCH_MESSAGES = Limit("messages of the largest batch", minimum=1, maximum=BATCH_MESSAGES_MAX)
BATCH_BYTES = Limit("more than any broker takes", minimum=1, maximum=1 << 30)
BATCH_DELAY = Limit(_WAIT, minimum=0, maximum=3_600_000)
PENDING = Limit("a 32-bit number", minimum=1, maximum=INT32_MAX)
SEND_TIMEOUT = Limit("a day", minimum=0, maximum=86_400)
MEMORY = Limit("more than a machine has", minimum=1, maximum=1 << 44)
PRICE = Limit("of a GiB or of an hour of a processor, in any currency", minimum=0, maximum=1_000_000)

# The settings of a producer that are compared, and of `connect` the last one, with their limits.
OWN_SETTINGS: Mapping[str, Limit | None] = {
    "batching": None,
    "batch_messages_max": BATCH_MESSAGES,
    "batch_bytes_max": BATCH_BYTES,
    "batch_delay_ms": BATCH_DELAY,
    "pending_max": PENDING,
    "pending_across_partitions_max": PENDING,
    "send_timeout_s": SEND_TIMEOUT,
    "memory_bytes_max": MEMORY,
}
