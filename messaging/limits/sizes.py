"""The numbers that several rows of the table share, and why each is what it is."""

from __future__ import annotations

from messaging.protocol.names import NAME_LENGTH_MAX

NAME_BYTES_MAX = 4 * NAME_LENGTH_MAX  # the longest name, of characters that take four bytes each
WHY_NAME = f"{NAME_LENGTH_MAX} characters of up to four bytes: names are kept in memory, in every snapshot and in every listing"

TOPIC_BYTES_MAX = 4096  # a domain, two names, and a local name of 1,020 bytes that is percent-encoded (3,060)
WHY_TOPIC = "the longest valid name, percent-encoded, and some room: the parser has the exact rules"

# Properties and metadata that somebody attaches to a producer, consumer, subscription, topic or namespace.
PAIRS_COUNT_MAX = 256
PAIR_BYTES_MAX = 8192  # of one key or one value
PAIRS_TOTAL_BYTES_MAX = 32 << 10
WHY_PAIRS = "kept in memory as long as what they describe, and shown in stats: enough for labels, too little for a store of data"

TOKEN_BYTES_MAX = 16_384
WHY_TOKEN = "a token with some hundred claims; longer ones are not looked at (messaging/identity.py)"

# A batch of the largest size (5 MiB) whose messages have 40 bytes each.
BATCH_MESSAGES_MAX = 131_072
# What a message takes in a batch that is not compressed: its metadata's size (4 bytes) and the payload size in it (2 bytes).
BATCHED_MESSAGE_BYTES_MIN = 6
ACK_SET_WORDS_MAX = BATCH_MESSAGES_MAX // 64

MESSAGE_IDS_MAX = 50_000  # of one command: what one consumer may hold unacknowledged by default
PERMITS_MAX = 2**31 - 1  # of one consumer, together

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UINT32_MAX, UINT64_MAX = 2**32 - 1, 2**64 - 1
