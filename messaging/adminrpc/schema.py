"""The admin RPC: the typed interface on the broker that web and workers call. One POST per call: ``/rpc/v1/<method>``.

Request and answer are JSON objects of the structs imported here. The caller shows its service identity (`messaging.identity`) as
a bearer token. An error answers with the HTTP status of the error and ``{"code", "message"}``; `messaging.errors.from_code` makes
it an exception again. Unknown fields are ignored, so that two releases can talk. All calls are idempotent unless said otherwise.
`METHODS` is the list that the broker's dispatcher, the client and the permission test share.
"""

from __future__ import annotations

from typing import NamedTuple

from messaging.adminrpc import delayed, policies, redrive
from messaging.adminrpc.audit import AuditTake, AuditTaken
from messaging.adminrpc.backlog import (
    BacklogAfter,
    BacklogAnalysis,
    BacklogAnalyze,
    BacklogSize,
)
from messaging.adminrpc.base import (
    Answer,
    Empty,
    Request,
)
from messaging.adminrpc.changes import ChangeProgress, ChangeRef, ChangesList, ChangesUnderWay
from messaging.adminrpc.compaction import (
    CompactionBegin,
    CompactionBlock,
    CompactionCommit,
    CompactionEnd,
    CompactionPage,
    CompactionRead,
    CompactionsDue,
    CompactionsDuePage,
    CompactionStart,
    CompactionStatus,
    CompactionWrite,
)
from messaging.adminrpc.diagnosis import (
    ExplainFinding,
    MessageTrace,
    MessageTraced,
    SubscriptionExplain,
    SubscriptionExplained,
    TracedDelivery,
    TracedEntry,
    TracedSubscription,
)
from messaging.adminrpc.feed import (
    FeedApply,
    FeedChange,
    FeedVersion,
)
from messaging.adminrpc.maintenance import (
    MaintenancePage,
    MaintenanceResult,
    MaintenanceRun,
    MaintenanceTopics,
)
from messaging.adminrpc.messages import (
    MessageExamine,
    MessageFind,
    MessageGet,
)
from messaging.adminrpc.policies import (
    PolicyEffectFound,
    PolicyPreview,
    PolicyPreviewAnswer,
)
from messaging.adminrpc.schemas import (
    SchemaCompatible,
    SchemaDelete,
    SchemaGet,
    SchemaGiven,
    SchemaStored,
    SchemaVersionAnswer,
    SchemaVersions,
)
from messaging.adminrpc.status import BrokerStatus
from messaging.adminrpc.subscriptions import (
    MOVED_SHOWN,
    DeadLetterPolicyAnswer,
    DeadLetterPolicySet,
    PeekAnswer,
    SubscriptionCreate,
    SubscriptionDelete,
    SubscriptionExpire,
    SubscriptionMoved,
    SubscriptionNames,
    SubscriptionPeek,
    SubscriptionProperties,
    SubscriptionPropertiesSet,
    SubscriptionRef,
    SubscriptionReset,
    SubscriptionSkip,
)
from messaging.adminrpc.topics import (
    LookupAnswer,
    MessageIdAnswer,
    NamespaceLive,
    NamesSearch,
    Partitions,
    PartitionsGet,
    PartitionsUpdate,
    SearchResult,
    Stats,
    SubscriptionFound,
    TerminatedPartitions,
    TopicCreate,
    TopicDelete,
    TopicLive,
    TopicLookup,
    TopicNames,
    TopicProperties,
    TopicPropertiesChange,
    TopicRef,
    TopicsAsked,
    TopicsList,
    TopicTimes,
)
from messaging.adminrpc.usage import UsageFlush, UsageFlushed

__all__ = [
    "Answer",
    "AuditTake",
    "AuditTaken",
    "BacklogAnalysis",
    "BacklogAnalyze",
    "BacklogAfter",
    "BacklogSize",
    "BrokerStatus",
    "ChangeProgress",
    "ChangeRef",
    "ChangesList",
    "ChangesUnderWay",
    "CompactionEnd",
    "CompactionBegin",
    "CompactionStart",
    "CompactionBlock",
    "CompactionCommit",
    "CompactionPage",
    "CompactionRead",
    "CompactionStatus",
    "CompactionWrite",
    "CompactionsDue",
    "CompactionsDuePage",
    "DeadLetterPolicyAnswer",
    "DeadLetterPolicySet",
    "Empty",
    "ExplainFinding",
    "FeedApply",
    "FeedChange",
    "FeedVersion",
    "LookupAnswer",
    "METHODS",
    "MOVED_SHOWN",
    "MaintenancePage",
    "MaintenanceResult",
    "MaintenanceRun",
    "MaintenanceTopics",
    "MessageExamine",
    "MessageFind",
    "MessageGet",
    "MessageIdAnswer",
    "MessageTrace",
    "MessageTraced",
    "NamesSearch",
    "NamespaceLive",
    "Partitions",
    "PartitionsGet",
    "PartitionsUpdate",
    "PeekAnswer",
    "PolicyEffectFound",
    "PolicyPreview",
    "PolicyPreviewAnswer",
    "Request",
    "SchemaCompatible",
    "SchemaDelete",
    "SchemaGet",
    "SchemaGiven",
    "SchemaStored",
    "SchemaVersionAnswer",
    "SchemaVersions",
    "SearchResult",
    "Stats",
    "SubscriptionCreate",
    "SubscriptionDelete",
    "SubscriptionExpire",
    "SubscriptionExplain",
    "SubscriptionExplained",
    "SubscriptionFound",
    "SubscriptionMoved",
    "SubscriptionNames",
    "SubscriptionPeek",
    "SubscriptionProperties",
    "SubscriptionPropertiesSet",
    "SubscriptionRef",
    "SubscriptionReset",
    "SubscriptionSkip",
    "TerminatedPartitions",
    "TopicCreate",
    "TopicDelete",
    "TopicLive",
    "TopicLookup",
    "TopicNames",
    "TopicProperties",
    "TopicPropertiesChange",
    "TopicRef",
    "TopicTimes",
    "TopicsAsked",
    "TopicsList",
    "TracedDelivery",
    "TracedEntry",
    "TracedSubscription",
    "UsageFlush",
    "UsageFlushed",
]


class Method(NamedTuple):
    """What a method takes and what it answers."""

    request: type[Request]
    answer: type[Answer]


# They change nothing and may take long: whoever leaves before the answer ends the work.
LONG_READS = frozenset(
    {
        "subscriptions.analyze_backlog",
        "subscriptions.peek",
        "subscriptions.explain",
        "redrive.scan",
        "messages.get",
        "messages.examine",
        "messages.find",
        "messages.trace",
        "delayed.list",
        "delayed.counts",
        "names.search",
        "topics.list",
        "topics.stats",
        "topics.internal_stats",
        "topics.partitioned_stats",
        "topics.partitioned_internal_stats",
        "topics.internal_info",
        "namespaces.live",
        "policies.preview",
    }
)

# They may be about thousands of partitions. Each goes on whoever waits for it, and answers `under_way` where that takes long;
# "changes.outcome" has its answer then. Who asks for the same one meanwhile joins it, but for a creation, which conflicts.
LONG_CHANGES = frozenset(
    {
        "topics.create",
        "topics.delete",
        "topics.update_partitions",
        "topics.create_missing_partitions",
        "topics.unload",
        "topics.trim",
        "topics.truncate",
        "topics.terminate_partitions",
        "namespaces.purge",
    }
)

METHODS: dict[str, Method] = {
    "status": Method(Request, BrokerStatus),
    "health": Method(Request, Empty),  # a real produce and consume round trip, as Pulsar's health check
    "feed.apply": Method(FeedApply, FeedVersion),
    "feed.version": Method(Request, FeedVersion),
    "feed.pull": Method(Request, FeedVersion),
    "topics.list": Method(TopicsList, TopicNames),
    "names.search": Method(NamesSearch, SearchResult),
    "topics.create": Method(TopicCreate, Empty),
    "topics.delete": Method(TopicDelete, Empty),
    "topics.partitions": Method(PartitionsGet, Partitions),
    "topics.update_partitions": Method(PartitionsUpdate, Empty),
    "topics.times": Method(TopicsAsked, TopicTimes),  # plain topics, partitions, and partitioned topics
    "topics.create_missing_partitions": Method(TopicRef, Empty),
    "topics.properties": Method(TopicRef, TopicProperties),
    "topics.change_properties": Method(TopicPropertiesChange, TopicProperties),
    "topics.lookup": Method(TopicLookup, LookupAnswer),
    "schemas.get": Method(SchemaGet, SchemaVersions),
    "schemas.list": Method(TopicRef, SchemaVersions),
    "schemas.add": Method(SchemaGiven, SchemaVersionAnswer),
    "schemas.find": Method(SchemaGiven, SchemaVersionAnswer),
    "schemas.check": Method(SchemaGiven, SchemaCompatible),
    "schemas.delete": Method(SchemaDelete, SchemaVersionAnswer),
    "topics.stats": Method(TopicRef, Stats),
    "topics.figures": Method(TopicRef, Stats),  # those that alerts are about, without loading a topic that was unloaded
    "topics.internal_stats": Method(TopicRef, Stats),
    "topics.partitioned_stats": Method(TopicRef, Stats),
    "topics.partitioned_internal_stats": Method(TopicRef, Stats),
    "topics.internal_info": Method(TopicRef, Stats),  # what is stored of a topic, or of each partition
    "topics.backlog_size": Method(BacklogAfter, BacklogSize),
    "topics.trim": Method(TopicRef, Empty),  # retention, at once
    "topics.unload": Method(TopicRef, Empty),
    "topics.terminate": Method(TopicRef, MessageIdAnswer),
    "topics.terminate_partitions": Method(TopicRef, TerminatedPartitions),
    "topics.truncate": Method(TopicRef, Empty),  # every message goes, every subscription stands at the end; ids continue rising
    "topics.last_message_id": Method(TopicRef, MessageIdAnswer),
    "changes.list": Method(ChangesList, ChangesUnderWay),
    "changes.outcome": Method(ChangeRef, Answer),  # that of the change, or under_way; not_ready where it is not known
    "namespaces.live": Method(TopicsList, NamespaceLive),
    "namespaces.purge": Method(TopicsList, Empty),  # of a namespace that does not exist: what was made while it was deleted
    "subscriptions.list": Method(TopicRef, SubscriptionNames),
    "subscriptions.create": Method(SubscriptionCreate, SubscriptionMoved),
    "subscriptions.delete": Method(SubscriptionDelete, SubscriptionMoved),
    "subscriptions.skip": Method(SubscriptionSkip, SubscriptionMoved),
    "subscriptions.reset": Method(SubscriptionReset, SubscriptionMoved),
    "subscriptions.expire": Method(SubscriptionExpire, SubscriptionMoved),
    "subscriptions.dead_letter_policy": Method(SubscriptionRef, DeadLetterPolicyAnswer),
    "subscriptions.set_dead_letter_policy": Method(DeadLetterPolicySet, DeadLetterPolicyAnswer),
    "subscriptions.remove_dead_letter_policy": Method(SubscriptionRef, Empty),
    "subscriptions.properties": Method(SubscriptionRef, SubscriptionProperties),
    "subscriptions.set_properties": Method(SubscriptionPropertiesSet, Empty),
    "subscriptions.peek": Method(SubscriptionPeek, PeekAnswer),
    "subscriptions.analyze_backlog": Method(BacklogAnalyze, BacklogAnalysis),
    "subscriptions.explain": Method(SubscriptionExplain, SubscriptionExplained),
    "messages.get": Method(MessageGet, PeekAnswer),
    "messages.examine": Method(MessageExamine, PeekAnswer),
    "messages.find": Method(MessageFind, MessageIdAnswer),
    "messages.trace": Method(MessageTrace, MessageTraced),
    "delayed.list": Method(delayed.DelayedList, delayed.DelayedPage),
    "delayed.counts": Method(TopicRef, delayed.DelayedCounts),
    "delayed.change": Method(delayed.DelayedChange, delayed.DelayedChanged),
    "delayed.change_key": Method(delayed.DelayedKeyChange, delayed.DelayedKeyChanged),
    "policies.preview": Method(PolicyPreview, PolicyPreviewAnswer),
    "policies.append_events": Method(policies.ChangeEventsAppend, policies.ChangeEventsResult),
    "topics.compact": Method(TopicRef, Empty),  # conflict: it is under way or requested already
    "topics.compaction_status": Method(TopicRef, CompactionStatus),
    "compaction.due": Method(CompactionsDue, CompactionsDuePage),
    "compaction.begin": Method(CompactionBegin, CompactionStart),
    "compaction.read": Method(CompactionRead, CompactionPage),
    "compaction.write": Method(CompactionWrite, Empty),
    "compaction.commit": Method(CompactionCommit, Empty),
    "compaction.abort": Method(CompactionEnd, Empty),
    "redrive.scan": Method(redrive.RedriveScan, redrive.RedriveFoundPage),
    "redrive.prepare": Method(redrive.RedrivePrepare, redrive.RedriveTarget),
    "redrive.move": Method(redrive.RedriveMove, redrive.RedriveMoved),
    "upkeep.topics": Method(MaintenanceTopics, MaintenancePage),
    "upkeep.run": Method(MaintenanceRun, MaintenanceResult),
    "usage.flush": Method(UsageFlush, UsageFlushed),
    "audit.take": Method(AuditTake, AuditTaken),
}
