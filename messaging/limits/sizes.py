"""Limits that several rows of the table share, with the reason for each."""

from __future__ import annotations

from messaging.protocol.names import NAME_LENGTH_MAX

NAME_BYTES_MAX = 4 * NAME_LENGTH_MAX  # the longest name, of characters that take four bytes each
WHY_NAME = f"{NAME_LENGTH_MAX} characters of up to four bytes; names are kept in memory and appear in every snapshot and listing"

TOPIC_BYTES_MAX = 4096  # a domain, two names, and a local name of 1,020 bytes that is percent-encoded (3,060)
WHY_TOPIC = "the longest valid name, percent-encoded, with some margin; the parser enforces the exact rules"

# Properties and metadata of a producer, consumer, subscription, topic or namespace.
PAIRS_COUNT_MAX = 256
PAIR_BYTES_MAX = 8192  # of one key or one value
PAIRS_TOTAL_BYTES_MAX = 32 << 10
SUBSCRIPTIONS_PAIRS_BYTES_MAX = 4 << 20  # of all subscriptions of one topic, with what they take in memory
WHY_PAIRS = "kept in memory with the object they describe and shown in stats; meant for labels, not for data"

SCHEMA_BYTES_MAX = 1 << 20
WHY_SCHEMA = "definitions have some KiB; a larger one is most likely a mistake. Name, data and properties share this limit"

TOKEN_BYTES_MAX = 16_384
WHY_TOKEN = "a token with several hundred claims; longer ones are not parsed (messaging/identity/tokens.py)"

# A batch of the largest size (5 MiB) whose messages have 40 bytes each.
BATCH_MESSAGES_MAX = 131_072
# Minimum size of a message in an uncompressed batch: the size of its metadata (4 bytes) and the payload size in it (2 bytes).
BATCHED_MESSAGE_BYTES_MIN = 6
ACK_SET_WORDS_MAX = BATCH_MESSAGES_MAX // 64

MESSAGE_IDS_MAX = 50_000  # of one command: the default limit of unacknowledged messages per consumer
PARTITIONS_MAX = 10_000  # of one topic
ROLES_MAX = 1000  # of one tenant, or of one subscription
PERMITS_MAX = 2**31 - 1  # of one consumer, together

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UINT32_MAX, UINT64_MAX = 2**32 - 1, 2**64 - 1
