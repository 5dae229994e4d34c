"""Limits of request bodies by object and field: our API (`tenants.rest.shapes`), Pulsar's (`/admin/v2`) and the admin RPC.

A body over a limit gets the error of its row: 400 on our API and the admin RPC, and 412 on Pulsar's API where Pulsar returns it.
"""

from __future__ import annotations

from messaging.errors import NotAcceptable
from messaging.limits.model import Limit
from messaging.limits.sizes import (
    BATCH_MESSAGES_MAX,
    INT64_MAX,
    NAME_BYTES_MAX,
    PAIR_BYTES_MAX,
    PAIRS_COUNT_MAX,
    PAIRS_TOTAL_BYTES_MAX,
    PARTITIONS_MAX,
    ROLES_MAX,
    SCHEMA_BYTES_MAX,
    TOPIC_BYTES_MAX,
    WHY_NAME,
    WHY_PAIRS,
    WHY_SCHEMA,
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
COUNT_OR_UNLIMITED = Limit("exactly representable in JSON; -1 is unlimited", minimum=-1, maximum=2**53 - 1)
VERSION = Limit("incremented with each change, 64 bits", minimum=0, maximum=INT64_MAX)
LEDGER_ID = Limit("a position: -1 is the earliest, 2^63-1 the latest", minimum=-1, maximum=INT64_MAX)
SCHEMA_TYPE = Limit("one of about twenty names", bytes_max=64)
SCHEMA = Limit("a quarter of a request body; clients of the binary protocol may send more", bytes_max=BODY_BYTES_MAX // 4)

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

# The admin RPC, by field: a field name means the same in every request.
RPC: dict[str, Limit] = {
    "id": Limit("an id that the broker gave a change", bytes_max=64),
    "topic": TOPIC,
    "namespace": Limit("two names and a slash", bytes_max=2 * NAME_BYTES_MAX + 1),
    "subscription": NAME,
    "tenant": NAME,
    "tenant_uid": Limit("an id that the platform gave a tenant", bytes_max=64),
    "properties": PROPERTIES,
    "removed": Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX),
    "partitions": PARTITIONS,
    "type": SCHEMA_TYPE,
    "data": Limit(WHY_SCHEMA, bytes_max=SCHEMA_BYTES_MAX),
    "role": Limit(WHY_NAME, bytes_max=2 * NAME_BYTES_MAX + 1),
    "ledger_id": LEDGER_ID,
    "entry_id": LEDGER_ID,
    "timestamp_ms": Limit("milliseconds since 1970, 64 bits", minimum=0, maximum=INT64_MAX),
    "older_than_s": Limit("seconds; the milliseconds fit 64 bits", minimum=0, maximum=INT64_MAX // 1000),
    "entries": Limit("of one subscription, 64 bits", minimum=0, maximum=INT64_MAX),
    "max_redeliver_count": REDELIVERIES,
    "target": TOPIC,
    "initial_subscription": NAME,
    "session": Limit("the id of a compaction: 32 hexadecimal digits", bytes_max=64),
    "blocks": Limit("of one page", count_max=10_000),
    "block_header": Limit("of a block in the log", bytes_max=65_535),
    "block_data": Limit("a page, or one entry; the size of the request limits all together", bytes_max=BODY_BYTES_MAX * 16),
    "end_offsets": Limit("ids of a block, holes included", count_max=10_000),
    "first_entry": LEDGER_ID,
    "removed_messages": Limit("of one topic, 64 bits", minimum=0, maximum=INT64_MAX),
    "last_batch_index": Limit("a message of the largest batch, or -1", minimum=-1, maximum=BATCH_MESSAGES_MAX - 1),
    "error": Limit("is shown to administrators", bytes_max=4096),
    "owner": Limit("the role of a key or a person", bytes_max=2 * NAME_BYTES_MAX + 1),
    "position": Limit("counts from 1, 64 bits", minimum=1, maximum=INT64_MAX),
    "after": TOPIC,
    "words": Limit("part of the name of a topic or subscription", bytes_max=TOPIC_BYTES_MAX),
    "tenants": Limit("tenants that are searched at once", bytes_max=NAME_BYTES_MAX, count_max=100),
    "limit": Limit("topics of one page", minimum=1, maximum=10_000),
    "topics": Limit("topics of one page", bytes_max=TOPIC_BYTES_MAX, count_max=10_000),
    "task_id": NAME,
    "boot_id": Limit("identifies one run of a broker: 32 hexadecimal digits", bytes_max=64),
    "acknowledged_sequence": Limit("number of an audit event within one run of a broker, 64 bits", minimum=0, maximum=INT64_MAX),
    "from_version": VERSION,
    "newest_version": VERSION,
    "feed_id": NAME,
    "next_key": TOPIC,
    "to_version": VERSION,
    "version": VERSION,
    "changes": Limit("of all tenants together; limited by the body size and sent only by the control plane", count_max=1_000_000),
    "kind": Limit("one of a few values", bytes_max=64),
    "key": TOPIC,
    "policies": Limit("the policies have their own limits (messaging.policies)", count_max=100),
    "state": Limit("one namespace with its grants, which have their own limits", count_max=64),
    "property_name": Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX),
    "property_value": Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX),
    "from_ms": MILLISECONDS,
    "until_ms": MILLISECONDS,
    "origin_subscription": NAME,
    "redriven_max": REDRIVEN,
    "deliver_at_ms": MILLISECONDS,
    "after_ms": Limit("milliseconds since 1970, -1: from the first on", minimum=-1, maximum=INT64_MAX),
    "batch_index": Limit("a message of the largest batch, or -1", minimum=-1, maximum=BATCH_MESSAGES_MAX - 1),
    "job": Limit("the id of a redrive: 32 hexadecimal digits", bytes_max=64),
    "step": Limit("counts the steps of a redrive", minimum=0, maximum=2**31 - 1),
    "positions": Limit("of one step of a redrive", count_max=1_000),
}
