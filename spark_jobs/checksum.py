"""A checksum over the rows of an hour that does not depend on their order; the job computes it in Spark, the loader again in
Python.

A row's digest is the first 60 bits of the SHA-256 of its fields, joined by line feeds (names are printable, so none contains one).
The checksum is the number of rows and the sum of the digests, so it can be computed where the rows are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from messaging.usage_schema import BILLED_GAUGES, COUNTERS

INTEGRAL_OF: dict[str, str] = {  # gauge -> the column of its integral
    "stored_bytes": "stored_byte_seconds",
    "backlog_entries": "backlog_entry_seconds",
    "connections": "connection_seconds",
}
assert tuple(INTEGRAL_OF) == BILLED_GAUGES
HOUR_KEY: tuple[str, ...] = ("tenant", "tenant_uid", "namespace", "topic")
HOUR_SUMS: tuple[str, ...] = (*COUNTERS, "stored_byte_seconds", "backlog_entry_seconds", "api_calls", "connection_seconds")
HOUR_COLUMNS: tuple[str, ...] = ("hour_start_ms", *HOUR_KEY, *HOUR_SUMS)
# The parts of an hour by subscription and key: meter -> the column that it is shown in.
DETAIL_OF: dict[str, str] = {
    "client_messages_in": "messages_in",
    "client_bytes_in": "bytes_in",
    "client_messages_out": "messages_out",
    "client_bytes_out": "bytes_out",
    "client_messages_redelivered": "messages_redelivered",
    "subscription_backlog_entries": "backlog_entry_seconds",
    "subscription_delayed_entries": "delayed_entry_seconds",
    "api_calls": "api_calls",
    "connections": "connection_seconds",
}
DETAIL_SUMS: tuple[str, ...] = tuple(DETAIL_OF.values())
DETAIL_KEY: tuple[str, ...] = ("tenant", "tenant_uid", "namespace", "topic", "subscription", "key")
DETAIL_COLUMNS: tuple[str, ...] = ("hour_start_ms", *DETAIL_KEY, "others", *DETAIL_SUMS)
DIGEST_HEX_DIGITS = 15
SEPARATOR = "\n"


def row_digest(values: Iterable[object]) -> int:
    """`values` in the order of `HOUR_COLUMNS` or `DETAIL_COLUMNS`."""
    text = SEPARATOR.join(str(value) for value in values)
    return int(hashlib.sha256(text.encode()).hexdigest()[:DIGEST_HEX_DIGITS], 16)


def checksum_text(rows: int, digest_sum: int) -> str:
    return f"{rows}-{digest_sum:x}"
