"""Limits that fields of requests share. One of a single field stands in its annotation: `tenants.rest.shapes` and its likes for our
API, `tenants.pulsar.bodies` for Pulsar's, `messaging.adminrpc.fields` for the admin RPC.

A body over a limit gets the error of the limit: 400 on our API and the admin RPC, and 412 on Pulsar's API where Pulsar returns it.
"""

from __future__ import annotations

from messaging.errors import NotAcceptable
from messaging.limits.model import Limit
from messaging.limits.sizes import (
    INT64_MAX,
    NAME_BYTES_MAX,
    PAIR_BYTES_MAX,
    PAIRS_COUNT_MAX,
    PAIRS_TOTAL_BYTES_MAX,
    PARTITIONS_MAX,
    ROLES_MAX,
    TOPIC_BYTES_MAX,
    WHY_NAME,
    WHY_PAIRS,
    WHY_TOPIC,
)

BODY_BYTES_MAX = 1 << 20  # of REST: three times the largest body whose fields are all within their limits
BODY_VALUES_MAX = 10_000  # in the objects and lists of a body: ten times those of the longest list
BODY_DEPTH_MAX = 16  # nesting of objects and lists: valid bodies have at most 4 levels

NAME = Limit(WHY_NAME, bytes_max=NAME_BYTES_MAX)
TOPIC = Limit(WHY_TOPIC, bytes_max=TOPIC_BYTES_MAX)
ROLES = Limit("all of them are compared at every permission check", bytes_max=2 * NAME_BYTES_MAX + 1, count_max=ROLES_MAX)
CLUSTERS = Limit("there is one cluster", bytes_max=NAME_BYTES_MAX, count_max=100)
PROPERTIES = Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX, count_max=PAIRS_COUNT_MAX, total_bytes_max=PAIRS_TOTAL_BYTES_MAX)
PARTITIONS = Limit("each partition is a topic", minimum=0, maximum=PARTITIONS_MAX)
PULSAR_PARTITIONS = Limit("each partition is a topic", minimum=1, maximum=PARTITIONS_MAX, error=NotAcceptable)
VERSION = Limit("incremented with each change, 64 bits", minimum=0, maximum=INT64_MAX)
LEDGER_ID = Limit("a position: -1 is the earliest, 2^63-1 the latest", minimum=-1, maximum=INT64_MAX)
SCHEMA_TYPE = Limit("one of about twenty names", bytes_max=64)

MILLISECONDS = Limit("milliseconds since 1970, 64 bits", minimum=0, maximum=INT64_MAX)
REDRIVEN = Limit("a count", minimum=0, maximum=1_000_000)
REDELIVERIES = Limit("a 32-bit number, as with Pulsar's clients", minimum=0, maximum=2**31 - 1)

LABELS = Limit("each is a choice in the cost explorer", bytes_max=255, count_max=50, total_bytes_max=8192)

PLAN_NAME = Limit("names of price plans have 63 characters", bytes_max=63)
DETAILS = Limit("is printed on invoices", bytes_max=1000, count_max=8)
CURRENCY = Limit("a code of ISO 4217", bytes_max=3)
AMOUNT = Limit("18 digits on each side of the point", bytes_max=40)

TITLE = Limit("is shown in lists and mails", bytes_max=100)
NAMESPACE = Limit("two names and a slash", bytes_max=2 * NAME_BYTES_MAX + 1)
THRESHOLDS = Limit("each is told once a month", count_max=10)
EMAILS = Limit("each is sent a mail", bytes_max=320, count_max=5)
BY = Limit("a level, or a label", bytes_max=80)
