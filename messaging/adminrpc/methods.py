"""The admin RPC: the typed interface on the broker that web and workers call. One POST per call: ``/rpc/v1/<method>``.

Each method is one constant: `rpc.call(TOPICS_LIST, TopicsList(...))` returns its answer, and `@answers(TOPICS_LIST)` marks its
handler in the broker. Request and answer are JSON objects. The caller shows its service identity (`messaging.identity`) as a bearer
token. An error answers with the HTTP status of the error and ``{"code", "message"}``; `messaging.errors.from_code` makes it an
exception again. Unknown fields are ignored, so that two releases can talk. `METHODS` is the list that the broker's dispatcher
and the tests of permissions and limits share.
"""

from __future__ import annotations

from typing import Any

import msgspec

from messaging.adminrpc.audit import AuditTake, AuditTaken
from messaging.adminrpc.backlog import BacklogAfter, BacklogAnalysis, BacklogAnalyze, BacklogSize
from messaging.adminrpc.backup import BackupHeld, BackupHold, BackupKeep, BackupLedgers, LedgersNoted
from messaging.adminrpc.base import Answer, Empty, Method, Request
from messaging.adminrpc.bookies import BookieRackBefore, BookieRackSet, BookieRef, BookiesSeen
from messaging.adminrpc.brokers import BrokerAsked, BrokerForgotten, BrokersSeen, GoneBroker, RecoverBroker
from messaging.adminrpc.browse import MessagesBrowse, MessagesBrowsed
from messaging.adminrpc.bundles import BrokerDrained, BundleLoads, BundleMoved, BundleOwners, Drained, LoadsAsked, NamespaceAsked
from messaging.adminrpc.ceilings import CeilingsAsked, CeilingsUsed
from messaging.adminrpc.changes import ChangeRef, ChangesList, ChangesUnderWay
from messaging.adminrpc.clients import ClientsDisconnect, ClientsDisconnected, ClientsList, ClientsListed
from messaging.adminrpc.compaction import (
    CompactionBegin,
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
from messaging.adminrpc.delayed import (
    DelayedChange,
    DelayedChanged,
    DelayedCounts,
    DelayedKeyChange,
    DelayedKeyChanged,
    DelayedList,
    DelayedPage,
)
from messaging.adminrpc.diagnosis import (
    MessageTrace,
    MessageTraced,
    SubscriptionExplain,
    SubscriptionExplained,
    TopicExplain,
    TopicExplained,
)
from messaging.adminrpc.feed import FeedApply, FeedVersion
from messaging.adminrpc.history import HistoryTake, HistoryTaken
from messaging.adminrpc.key_uses import KeyUsesTake, KeyUsesTaken
from messaging.adminrpc.maintenance import MaintenancePage, MaintenanceResult, MaintenanceRun, MaintenanceTopics
from messaging.adminrpc.messages import (
    MessageExamine,
    MessageFind,
    MessageGet,
    MessagesList,
    MessagesPage,
    MessagesPublish,
    MessagesPublished,
)
from messaging.adminrpc.moves import MoveAppend, MoveOpen, MovePlace, MovePlan, MoveStored
from messaging.adminrpc.news import NewsTold, OpenBytes, OpenBytesAsked, UseTold
from messaging.adminrpc.policies import ChangeEventsAppend, ChangeEventsResult, PolicyPreview, PolicyPreviewAnswer
from messaging.adminrpc.problems import ProblemsFound, ProblemsList
from messaging.adminrpc.recycle_bin import (
    PlaceLeft,
    RecycleBinExpire,
    RecycleBinExpired,
    RecycleBinList,
    RecycledAnswer,
    RecycledPage,
    RecycledRef,
)
from messaging.adminrpc.redrive import RedriveFoundPage, RedriveMove, RedriveMoved, RedrivePrepare, RedriveScan, RedriveTarget
from messaging.adminrpc.schemas import SchemaCompatible, SchemaDelete, SchemaGet, SchemaGiven, SchemaVersionAnswer, SchemaVersions
from messaging.adminrpc.status import BrokerStatus
from messaging.adminrpc.subscriptions import (
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
    LiveAsked,
    LookupAnswer,
    MessageIdAnswer,
    NamespaceLive,
    NamesSearch,
    Partitions,
    PartitionsGet,
    PartitionsUpdate,
    SearchResult,
    Stats,
    StatsAsked,
    TerminatedPartitions,
    TopicCreate,
    TopicDelete,
    TopicDeletion,
    TopicLookup,
    TopicMembers,
    TopicMembersAsked,
    TopicNames,
    TopicProperties,
    TopicPropertiesChange,
    TopicRef,
    TopicsAsked,
    TopicsList,
    TopicsPage,
    TopicsPageAsked,
    TopicsRanked,
    TopicsRankedAsked,
    TopicTimes,
)
from messaging.adminrpc.usage import (
    UsageFileList,
    UsageFilePiece,
    UsageFileRead,
    UsageFilesPage,
    UsageFlush,
    UsageFlushed,
)
from messaging.limits.structs import structs_in

BROKERS_LIST = Method("brokers.list", Request, BrokersSeen, reads=True)
STATUS = Method("status", BrokerAsked, BrokerStatus, reads=True)
BUNDLES_OWNERS = Method("bundles.owners", NamespaceAsked, BundleOwners, reads=True)
BUNDLES_LOADS = Method("bundles.loads", LoadsAsked, BundleLoads, reads=True)
BUNDLES_MOVE = Method("bundles.move", BundleMoved, Empty)
BROKERS_DRAIN = Method("brokers.drain", BrokerDrained, Drained, long_change=True)
BROKERS_RECOVER = Method("brokers.recover", RecoverBroker, Empty, long_change=True)
BROKERS_FORGET = Method("brokers.forget", GoneBroker, BrokerForgotten, long_change=True)
# Of every broker the same: bookies are those of the whole fleet. A change that is made twice forgets what was before.
BOOKIES_LIST = Method("bookies.list", Request, BookiesSeen, reads=True)
BOOKIES_SET_RACK = Method("bookies.set_rack", BookieRackSet, BookieRackBefore, idempotent=False)
BOOKIES_DELETE_RACK = Method("bookies.delete_rack", BookieRef, BookieRackBefore, idempotent=False)
HEALTH = Method("health", Request, Empty)  # a real produce and consume round trip, as Pulsar's health check

FEED_APPLY = Method("feed.apply", FeedApply, FeedVersion)
FEED_VERSION = Method("feed.version", Request, FeedVersion, reads=True)
FEED_PULL = Method("feed.pull", Request, FeedVersion)

TOPICS_LIST = Method("topics.list", TopicsList, TopicNames, long_read=True)
TOPICS_PAGE = Method("topics.page", TopicsPageAsked, TopicsPage, reads=True)
TOPICS_CREATE = Method("topics.create", TopicCreate, Empty, long_change=True, idempotent=False)
TOPICS_DELETE = Method("topics.delete", TopicDelete, TopicDeletion, long_change=True)
TOPICS_PARTITIONS = Method("topics.partitions", PartitionsGet, Partitions, reads=True)
TOPICS_UPDATE_PARTITIONS = Method("topics.update_partitions", PartitionsUpdate, Empty, long_change=True)
# Plain topics, partitions, and partitioned topics.
TOPICS_TIMES = Method("topics.times", TopicsAsked, TopicTimes, reads=True)
TOPICS_CREATE_MISSING_PARTITIONS = Method("topics.create_missing_partitions", TopicRef, Empty, long_change=True)
TOPICS_PROPERTIES = Method("topics.properties", TopicRef, TopicProperties, reads=True)
TOPICS_CHANGE_PROPERTIES = Method("topics.change_properties", TopicPropertiesChange, TopicProperties)
TOPICS_LOOKUP = Method("topics.lookup", TopicLookup, LookupAnswer, reads=True)
TOPICS_STATS = Method("topics.stats", StatsAsked, Stats, long_read=True)
TOPICS_MEMBERS = Method("topics.members", TopicMembersAsked, TopicMembers, long_read=True, thousands=True)
TOPICS_EXPLAIN = Method("topics.explain", TopicExplain, TopicExplained, long_read=True)
# Those that alerts are about, without loading a topic that was unloaded.
TOPICS_FIGURES = Method("topics.figures", TopicRef, Stats, reads=True)
TOPICS_INTERNAL_STATS = Method("topics.internal_stats", TopicRef, Stats, long_read=True)
TOPICS_PARTITIONED_STATS = Method("topics.partitioned_stats", StatsAsked, Stats, long_read=True, thousands=True)
TOPICS_PARTITIONED_INTERNAL_STATS = Method("topics.partitioned_internal_stats", TopicRef, Stats, long_read=True, thousands=True)
# What is stored of a topic, or of each partition.
TOPICS_INTERNAL_INFO = Method("topics.internal_info", TopicRef, Stats, long_read=True)
TOPICS_BACKLOG_SIZE = Method("topics.backlog_size", BacklogAfter, BacklogSize, reads=True)
TOPICS_TRIM = Method("topics.trim", TopicRef, Empty, long_change=True)  # retention, at once
TOPICS_UNLOAD = Method("topics.unload", TopicRef, Empty, long_change=True)
TOPICS_TERMINATE = Method("topics.terminate", TopicRef, MessageIdAnswer)
TOPICS_TERMINATE_PARTITIONS = Method("topics.terminate_partitions", TopicRef, TerminatedPartitions, long_change=True)
# Every message goes, every subscription stands at the end; ids continue rising.
TOPICS_TRUNCATE = Method("topics.truncate", TopicRef, Empty, long_change=True)
TOPICS_LAST_MESSAGE_ID = Method("topics.last_message_id", TopicRef, MessageIdAnswer, reads=True)
# Conflict: it is under way or requested already.
TOPICS_COMPACT = Method("topics.compact", TopicRef, Empty, idempotent=False)
TOPICS_COMPACTION_STATUS = Method("topics.compaction_status", TopicRef, CompactionStatus, reads=True)

CLIENTS_DISCONNECT = Method("clients.disconnect", ClientsDisconnect, ClientsDisconnected, long_change=True)
CLIENTS_LIST = Method("clients.list", ClientsList, ClientsListed, reads=True)

PROBLEMS_LIST = Method("problems.list", ProblemsList, ProblemsFound, reads=True)
# What the owner of a partitioned topic asks of the brokers that serve its partitions.
PARTITIONS_CHECK_UNUSED = Method("partitions.check_unused", TopicRef, Empty, reads=True)
PARTITIONS_DELETE = Method("partitions.delete", TopicRef, Empty, long_change=True)

USE_TELL = Method("use.tell", UseTold, Empty)
USE_OPEN_BYTES = Method("use.open_bytes", OpenBytesAsked, OpenBytes, reads=True)
NEWS_TELL = Method("news.tell", NewsTold, Empty)  # of one broker of a fleet to another

# What the broker of a source asks of the broker of the target.
MOVES_OPEN = Method("moves.open", MoveOpen, MovePlace)
MOVES_BEGIN = Method("moves.begin", MovePlan, Empty)
MOVES_STORED = Method("moves.stored", MovePlan, MoveStored)
MOVES_APPEND = Method("moves.append", MoveAppend, MovePlace, idempotent=False)

NAMES_SEARCH = Method("names.search", NamesSearch, SearchResult, long_read=True)

SCHEMAS_GET = Method("schemas.get", SchemaGet, SchemaVersions, reads=True)
SCHEMAS_LIST = Method("schemas.list", TopicRef, SchemaVersions, reads=True)
SCHEMAS_ADD = Method("schemas.add", SchemaGiven, SchemaVersionAnswer)
SCHEMAS_FIND = Method("schemas.find", SchemaGiven, SchemaVersionAnswer, reads=True)
SCHEMAS_CHECK = Method("schemas.check", SchemaGiven, SchemaCompatible, reads=True)
SCHEMAS_DELETE = Method("schemas.delete", SchemaDelete, SchemaVersionAnswer)

CHANGES_LIST = Method("changes.list", ChangesList, ChangesUnderWay, reads=True)
# That of the change, or under_way; not_ready where it is not known.
CHANGES_OUTCOME = Method("changes.outcome", ChangeRef, Answer)

NAMESPACES_LIVE = Method("namespaces.live", LiveAsked, NamespaceLive, long_read=True)
TOPICS_RANKED = Method("topics.ranked", TopicsRankedAsked, TopicsRanked, long_read=True)
# Of a namespace that does not exist: what was made while it was deleted.
NAMESPACES_PURGE = Method("namespaces.purge", TopicsList, Empty, long_change=True)

RECYCLE_BIN_LIST = Method("recycle_bin.list", RecycleBinList, RecycledPage, long_read=True)
RECYCLE_BIN_GET = Method("recycle_bin.get", RecycledRef, RecycledAnswer, reads=True)
RECYCLE_BIN_RESTORE = Method("recycle_bin.restore", RecycledRef, Empty, long_change=True, idempotent=False)
RECYCLE_BIN_PURGE = Method("recycle_bin.purge", RecycledRef, Empty, long_change=True)
RECYCLE_BIN_LEAVE = Method("recycle_bin.leave", PlaceLeft, Empty)  # of one broker of a fleet to another
RECYCLE_BIN_EXPIRE = Method("recycle_bin.expire", RecycleBinExpire, RecycleBinExpired)

SUBSCRIPTIONS_LIST = Method("subscriptions.list", TopicRef, SubscriptionNames, long_read=True)
SUBSCRIPTIONS_CREATE = Method("subscriptions.create", SubscriptionCreate, SubscriptionMoved, long_change=True, idempotent=False)
SUBSCRIPTIONS_DELETE = Method("subscriptions.delete", SubscriptionDelete, SubscriptionMoved, long_change=True)
SUBSCRIPTIONS_SKIP = Method("subscriptions.skip", SubscriptionSkip, SubscriptionMoved, long_change=True, idempotent=False)
SUBSCRIPTIONS_RESET = Method("subscriptions.reset", SubscriptionReset, SubscriptionMoved, long_change=True)
SUBSCRIPTIONS_EXPIRE = Method("subscriptions.expire", SubscriptionExpire, SubscriptionMoved, long_change=True)
SUBSCRIPTIONS_DEAD_LETTER_POLICY = Method("subscriptions.dead_letter_policy", SubscriptionRef, DeadLetterPolicyAnswer, reads=True)
SUBSCRIPTIONS_SET_DEAD_LETTER_POLICY = Method("subscriptions.set_dead_letter_policy", DeadLetterPolicySet, DeadLetterPolicyAnswer)
SUBSCRIPTIONS_REMOVE_DEAD_LETTER_POLICY = Method("subscriptions.remove_dead_letter_policy", SubscriptionRef, Empty)
SUBSCRIPTIONS_PROPERTIES = Method("subscriptions.properties", SubscriptionRef, SubscriptionProperties, long_read=True)
SUBSCRIPTIONS_SET_PROPERTIES = Method(
    "subscriptions.set_properties", SubscriptionPropertiesSet, SubscriptionMoved, long_change=True
)
SUBSCRIPTIONS_PEEK = Method("subscriptions.peek", SubscriptionPeek, PeekAnswer, long_read=True)
SUBSCRIPTIONS_ANALYZE_BACKLOG = Method("subscriptions.analyze_backlog", BacklogAnalyze, BacklogAnalysis, long_read=True)
SUBSCRIPTIONS_EXPLAIN = Method("subscriptions.explain", SubscriptionExplain, SubscriptionExplained, long_read=True)

MESSAGES_GET = Method("messages.get", MessageGet, PeekAnswer, long_read=True)
MESSAGES_BROWSE = Method("messages.browse", MessagesBrowse, MessagesBrowsed, long_read=True)
MESSAGES_LIST = Method("messages.list", MessagesList, MessagesPage, long_read=True)
MESSAGES_PUBLISH = Method("messages.publish", MessagesPublish, MessagesPublished, idempotent=False)
MESSAGES_EXAMINE = Method("messages.examine", MessageExamine, PeekAnswer, long_read=True)
MESSAGES_FIND = Method("messages.find", MessageFind, MessageIdAnswer, long_read=True)
MESSAGES_TRACE = Method("messages.trace", MessageTrace, MessageTraced, long_read=True)

DELAYED_LIST = Method("delayed.list", DelayedList, DelayedPage, long_read=True)
DELAYED_COUNTS = Method("delayed.counts", TopicRef, DelayedCounts, long_read=True)
DELAYED_CHANGE = Method("delayed.change", DelayedChange, DelayedChanged)
DELAYED_CHANGE_KEY = Method("delayed.change_key", DelayedKeyChange, DelayedKeyChanged)

CEILINGS_USED = Method("ceilings.used", CeilingsAsked, CeilingsUsed, long_read=True)

POLICIES_PREVIEW = Method("policies.preview", PolicyPreview, PolicyPreviewAnswer, long_read=True)
POLICIES_APPEND_EVENTS = Method("policies.append_events", ChangeEventsAppend, ChangeEventsResult)

COMPACTION_DUE = Method("compaction.due", CompactionsDue, CompactionsDuePage)
COMPACTION_BEGIN = Method("compaction.begin", CompactionBegin, CompactionStart, idempotent=False)
COMPACTION_READ = Method("compaction.read", CompactionRead, CompactionPage)
COMPACTION_WRITE = Method("compaction.write", CompactionWrite, Empty, idempotent=False)
COMPACTION_COMMIT = Method("compaction.commit", CompactionCommit, Empty, idempotent=False)
COMPACTION_ABORT = Method("compaction.abort", CompactionEnd, Empty)

REDRIVE_SCAN = Method("redrive.scan", RedriveScan, RedriveFoundPage, long_read=True)
REDRIVE_PREPARE = Method("redrive.prepare", RedrivePrepare, RedriveTarget)
REDRIVE_MOVE = Method("redrive.move", RedriveMove, RedriveMoved)

MAINTENANCE_TOPICS = Method("maintenance.topics", MaintenanceTopics, MaintenancePage)
MAINTENANCE_RUN = Method("maintenance.run", MaintenanceRun, MaintenanceResult)

USAGE_FLUSH = Method("usage.flush", UsageFlush, UsageFlushed)

# Asked of each broker by itself.
BACKUP_HOLD = Method("backup.hold", BackupHold, BackupHeld)
BACKUP_KEEP = Method("backup.keep", BackupKeep, Empty)
BACKUP_LEDGERS = Method("backup.ledgers", BackupLedgers, LedgersNoted)

AUDIT_TAKE = Method("audit.take", AuditTake, AuditTaken)
USAGE_LIST_FILES = Method("usage.list_files", UsageFileList, UsageFilesPage)
USAGE_READ_FILE = Method("usage.read_file", UsageFileRead, UsageFilePiece)
HISTORY_TAKE = Method("history.take", HistoryTake, HistoryTaken)
KEYS_TAKE_USES = Method("keys.take_uses", KeyUsesTake, KeyUsesTaken)

METHODS: dict[str, Method[Any, Any]] = {method.name: method for method in tuple(globals().values()) if isinstance(method, Method)}


def request_structs() -> list[type[msgspec.Struct]]:
    """The requests, and the objects in them."""
    return list(dict.fromkeys(struct for method in METHODS.values() for struct in structs_in(method.request)))
