"""Types of the fields of requests to the admin RPC, with their limits. A field name means the same in every request."""

from __future__ import annotations

from typing import Annotated, Any

from messaging.ack_ranges import TEXT_BYTES_MAX
from messaging.limits import rest as limits
from messaging.limits.model import Limit
from messaging.limits.sizes import (
    BATCH_MESSAGES_MAX,
    INT64_MAX,
    NAME_BYTES_MAX,
    PAIR_BYTES_MAX,
    SCHEMA_BYTES_MAX,
    TOPIC_BYTES_MAX,
    WHY_NAME,
    WHY_PAIRS,
    WHY_SCHEMA,
)

Version = Annotated[int, limits.VERSION]
CHANGES = Limit("of all tenants together; limited by the body size and sent only by the control plane", count_max=1_000_000)
Name = Annotated[str, limits.NAME]
Topic = Annotated[str, limits.TOPIC]
Bundle = Annotated[str, Limit("two hashes, as Pulsar writes them", bytes_max=96)]
Kind = Annotated[str, Limit("one of a few values", bytes_max=64)]
STATE = Limit("one namespace with its grants, which have their own limits", count_max=64)
Namespace = Annotated[str, Limit("two names and a slash", bytes_max=2 * NAME_BYTES_MAX + 1)]
Address = Annotated[str, Limit("of a client: host and port", bytes_max=NAME_BYTES_MAX)]
AckRanges = Annotated[str, Limit("of one cursor, as a move before answered it", bytes_max=TEXT_BYTES_MAX)]
Partitions = Annotated[int, limits.PARTITIONS]
Properties = Annotated[dict[str, str], limits.PROPERTIES]
Topics = Annotated[list[str], Limit("topics of one page", bytes_max=TOPIC_BYTES_MAX, count_max=10_000)]
Removed = Annotated[str, Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX)]
LedgerId = Annotated[int, limits.LEDGER_ID]
Words = Annotated[str, Limit("part of the name of a topic or subscription", bytes_max=TOPIC_BYTES_MAX)]
Tenants = Annotated[list[str], Limit("tenants that are searched at once", bytes_max=NAME_BYTES_MAX, count_max=100)]
TenantsShown = Annotated[list[str], Limit("tenants that a page shows at once", bytes_max=NAME_BYTES_MAX, count_max=1_000)]
NamespacesShown = Annotated[
    list[str], Limit("namespaces that a page shows at once", bytes_max=2 * NAME_BYTES_MAX + 1, count_max=1_000)
]
ClientsMax = Annotated[int, Limit("connections of one answer", minimum=1, maximum=2_000)]
ProblemsMax = Annotated[int, Limit("problems of one answer", minimum=1, maximum=500)]
MessagesMax = Annotated[int, Limit("messages of one page", minimum=1, maximum=100)]
MESSAGES = Limit("published by one request", count_max=100)
Payload = Annotated[bytes, Limit("a request holds it", bytes_max=limits.BODY_BYTES_MAX)]
LiveLimit = Annotated[int, Limit("topics of one page that is shown live", minimum=1, maximum=1_000)]
SubscriptionsShown = Annotated[
    list[str],
    Limit("subscriptions that a page shows, as stats name them", bytes_max=NAME_BYTES_MAX + 16, count_max=1_000),
]
ClientsShown = Annotated[list[str], Limit("producers or consumers that a page shows", bytes_max=NAME_BYTES_MAX, count_max=1_000)]
SubscriptionFigures = Annotated[list[Kind], Limit("columns of a list", count_max=16)]
TopicsLive = Annotated[list[str], Limit("topics that a page shows live", bytes_max=TOPIC_BYTES_MAX, count_max=1_000)]
PageLimit = Annotated[int, Limit("topics of one page", minimum=1, maximum=10_000)]
SchemaType = Annotated[str, limits.SCHEMA_TYPE]
SchemaData = Annotated[bytes, Limit(WHY_SCHEMA, bytes_max=SCHEMA_BYTES_MAX)]
Role = Annotated[str, Limit(WHY_NAME, bytes_max=2 * NAME_BYTES_MAX + 1)]
ChangeId = Annotated[str, Limit("an id that the broker gave a change", bytes_max=64)]
RecycleId = Annotated[str, Limit("an id that the broker gave a deleted topic", bytes_max=64)]
PurgeLimit = Annotated[int, Limit("deleted topics of one call", minimum=1, maximum=100)]
Entries = Annotated[int, Limit("of one subscription, 64 bits", minimum=0, maximum=INT64_MAX)]
TimestampMs = Annotated[int, Limit("milliseconds since 1970, 64 bits", minimum=0, maximum=INT64_MAX)]
OlderThanS = Annotated[int, Limit("seconds; the milliseconds fit 64 bits", minimum=0, maximum=INT64_MAX // 1000)]
Redeliveries = Annotated[int, limits.REDELIVERIES]
Owner = Annotated[str, Limit("the role of a key or a person", bytes_max=2 * NAME_BYTES_MAX + 1)]
Position = Annotated[int, Limit("counts from 1, 64 bits", minimum=1, maximum=INT64_MAX)]
Milliseconds = Annotated[int, limits.MILLISECONDS]
AfterMs = Annotated[int, Limit("milliseconds since 1970, -1: from the first on", minimum=-1, maximum=INT64_MAX)]
BatchIndex = Annotated[int, Limit("a message of the largest batch, or -1", minimum=-1, maximum=BATCH_MESSAGES_MAX - 1)]
POLICIES = Limit("the policies have their own limits (messaging.policies)", count_max=100)
Session = Annotated[str, Limit("the id of a compaction: 32 hexadecimal digits", bytes_max=64)]
BLOCKS = Limit("of one page", count_max=10_000)
BlockHeader = Annotated[bytes, Limit("of a block in the log", bytes_max=65_535)]
BlockData = Annotated[
    bytes, Limit("a page, or one entry; the size of the request limits all together", bytes_max=limits.BODY_BYTES_MAX * 16)
]
EndOffsets = Annotated[list[int], Limit("ids of a block, holes included", count_max=10_000)]
RemovedMessages = Annotated[int, Limit("of one topic, 64 bits", minimum=0, maximum=INT64_MAX)]
LastBatchIndex = Annotated[int, Limit("a message of the largest batch, or -1", minimum=-1, maximum=BATCH_MESSAGES_MAX - 1)]
Error = Annotated[str, Limit("is shown to administrators", bytes_max=4096)]
TenantUid = Annotated[str, Limit("an id that the platform gave a tenant", bytes_max=64)]
PropertyName = Annotated[str, Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX)]
PropertyValue = Annotated[str, Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX)]
Redriven = Annotated[int, limits.REDRIVEN]
EDITED_BYTES_MAX = 256 << 10
EditedPayload = Annotated[bytes, Limit("of a dead letter that is edited", bytes_max=EDITED_BYTES_MAX)]
FoundMax = Annotated[int, Limit("entries of one answer", minimum=1, maximum=500)]
Step = Annotated[int, Limit("counts the steps of a redrive", minimum=0, maximum=2**31 - 1)]
Job = Annotated[str, Limit("the id of a redrive: 32 hexadecimal digits", bytes_max=64)]
Positions = Annotated[list[list[int]], Limit("of one step of a redrive", count_max=1000)]
BootId = Annotated[str, Limit("identifies one run of a broker: 32 hexadecimal digits", bytes_max=64)]
AcknowledgedSequence = Annotated[
    int, Limit("number of an audit event within one run of a broker, 64 bits", minimum=0, maximum=INT64_MAX)
]
AcknowledgedBatch = Annotated[int, Limit("number of a batch within one run of a broker, 64 bits", minimum=0, maximum=INT64_MAX)]
Sequence = Annotated[int, Limit("rises within a namespace, 64 bits", minimum=0, maximum=INT64_MAX)]
Subscriptions = Annotated[
    dict[str, dict[str, Any]],
    Limit("those of a topic that have policies; its whole state has at most 1 MiB", bytes_max=NAME_BYTES_MAX, count_max=100_000),
]
SequenceId = Annotated[int, Limit("counts what a mover has moved, 64 bits", minimum=0, maximum=INT64_MAX)]
PARTS = Limit("a move has few, each of 1 MiB", count_max=10_000)
Attempt = Annotated[str, Limit("the id of one attempt to append a block: 32 hexadecimal digits", bytes_max=64)]
Piece = Annotated[bytes, Limit("of a block; larger ones come in several", bytes_max=limits.BODY_BYTES_MAX * 4)]
UntilMs = Annotated[int, Limit("by the clock of the machine that counts since its start, 64 bits", minimum=0, maximum=INT64_MAX)]
BlockBytes = Annotated[int, Limit("of the messages of one block, or where a piece of it begins", minimum=0, maximum=INT64_MAX)]
NEWS = Limit(
    "what happened at a broker within a moment, by topic, namespace or tenant", bytes_max=TOPIC_BYTES_MAX, count_max=10_000
)
UsageFolder = Annotated[str, Limit("of usage files: an hour of a day", bytes_max=64)]
UsageFileName = Annotated[str, Limit("of a usage file, as the broker listed it", bytes_max=255)]
UsageOffset = Annotated[int, Limit("where a piece of a file begins, 64 bits", minimum=0, maximum=INT64_MAX)]
LEDGERS = Limit("of one topic", count_max=100_000)
