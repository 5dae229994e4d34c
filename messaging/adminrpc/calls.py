"""The types of each method of the admin RPC: `client.call("topics.list", TopicsList(...))` returns a `TopicNames`.

The overloads repeat `messaging.adminrpc.schema.METHODS` for the type checker; a test compares the two.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar, overload

from messaging.adminrpc import delayed, policies, redrive
from messaging.adminrpc import schema as s
from messaging.caller import current_caller
from messaging.errors import UnderWay

A = TypeVar("A", bound=s.Answer)

CHANGE_S = 280.0  # how long a caller waits for a long change: pulsar-admin waits for an answer for 300 s
LOOK_S, LOOK_S_MAX = 0.1, 2.0  # until it is asked again how the change stands
WAITING_MAX, WAITING_PER_TENANT_MAX = 8, 2  # callers that wait so in a process: each uses a thread that others may need


_lock = threading.Lock()
_waiting: Counter[str] = Counter()  # callers, by tenant


class TypedCalls(ABC):
    @overload
    def call(self, method: Literal["status"], request: s.Request = ...) -> s.BrokerStatus: ...
    @overload
    def call(self, method: Literal["health"], request: s.Request = ...) -> s.Empty: ...
    @overload
    def call(self, method: Literal["feed.apply"], request: s.FeedApply) -> s.FeedVersion: ...
    @overload
    def call(self, method: Literal["feed.version", "feed.pull"], request: s.Request = ...) -> s.FeedVersion: ...
    @overload
    def call(self, method: Literal["topics.list"], request: s.TopicsList) -> s.TopicNames: ...
    @overload
    def call(self, method: Literal["names.search"], request: s.NamesSearch) -> s.SearchResult: ...
    @overload
    def call(self, method: Literal["topics.create"], request: s.TopicCreate) -> s.Empty: ...
    @overload
    def call(self, method: Literal["topics.delete"], request: s.TopicDelete) -> s.Empty: ...
    @overload
    def call(self, method: Literal["topics.partitions"], request: s.PartitionsGet) -> s.Partitions: ...
    @overload
    def call(self, method: Literal["topics.update_partitions"], request: s.PartitionsUpdate) -> s.Empty: ...
    @overload
    def call(self, method: Literal["topics.times"], request: s.TopicsAsked) -> s.TopicTimes: ...
    @overload
    def call(self, method: Literal["schemas.get"], request: s.SchemaGet) -> s.SchemaVersions: ...
    @overload
    def call(self, method: Literal["schemas.list"], request: s.TopicRef) -> s.SchemaVersions: ...
    @overload
    def call(self, method: Literal["schemas.add", "schemas.find"], request: s.SchemaGiven) -> s.SchemaVersionAnswer: ...
    @overload
    def call(self, method: Literal["schemas.check"], request: s.SchemaGiven) -> s.SchemaCompatible: ...
    @overload
    def call(self, method: Literal["schemas.delete"], request: s.SchemaDelete) -> s.SchemaVersionAnswer: ...
    @overload
    def call(self, method: Literal["topics.lookup"], request: s.TopicLookup) -> s.LookupAnswer: ...
    @overload
    def call(
        self,
        method: Literal[
            "topics.stats",
            "topics.figures",
            "topics.internal_stats",
            "topics.internal_info",
            "topics.partitioned_stats",
            "topics.partitioned_internal_stats",
        ],
        request: s.TopicRef,
    ) -> s.Stats: ...
    @overload
    def call(self, method: Literal["topics.backlog_size"], request: s.BacklogAfter) -> s.BacklogSize: ...
    @overload
    def call(self, method: Literal["subscriptions.analyze_backlog"], request: s.BacklogAnalyze) -> s.BacklogAnalysis: ...
    @overload
    def call(
        self,
        method: Literal["topics.unload", "topics.truncate", "topics.trim", "topics.create_missing_partitions", "topics.compact"],
        request: s.TopicRef,
    ) -> s.Empty: ...
    @overload
    def call(self, method: Literal["topics.properties"], request: s.TopicRef) -> s.TopicProperties: ...
    @overload
    def call(self, method: Literal["topics.change_properties"], request: s.TopicPropertiesChange) -> s.TopicProperties: ...
    @overload
    def call(self, method: Literal["topics.terminate_partitions"], request: s.TopicRef) -> s.TerminatedPartitions: ...
    @overload
    def call(self, method: Literal["topics.compaction_status"], request: s.TopicRef) -> s.CompactionStatus: ...
    @overload
    def call(self, method: Literal["compaction.due"], request: s.CompactionsDue) -> s.CompactionsDuePage: ...
    @overload
    def call(self, method: Literal["compaction.begin"], request: s.CompactionBegin) -> s.CompactionStart: ...
    @overload
    def call(self, method: Literal["compaction.read"], request: s.CompactionRead) -> s.CompactionPage: ...
    @overload
    def call(self, method: Literal["compaction.write"], request: s.CompactionWrite) -> s.Empty: ...
    @overload
    def call(self, method: Literal["compaction.commit"], request: s.CompactionCommit) -> s.Empty: ...
    @overload
    def call(self, method: Literal["compaction.abort"], request: s.CompactionEnd) -> s.Empty: ...
    @overload
    def call(self, method: Literal["topics.terminate", "topics.last_message_id"], request: s.TopicRef) -> s.MessageIdAnswer: ...
    @overload
    def call(self, method: Literal["changes.list"], request: s.ChangesList) -> s.ChangesUnderWay: ...
    @overload
    def call(self, method: Literal["changes.outcome"], request: s.ChangeRef) -> s.Answer: ...
    @overload
    def call(self, method: Literal["namespaces.live"], request: s.TopicsList) -> s.NamespaceLive: ...
    @overload
    def call(self, method: Literal["namespaces.purge"], request: s.TopicsList) -> s.Empty: ...
    @overload
    def call(self, method: Literal["subscriptions.list"], request: s.TopicRef) -> s.SubscriptionNames: ...
    @overload
    def call(self, method: Literal["subscriptions.create"], request: s.SubscriptionCreate) -> s.SubscriptionMoved: ...
    @overload
    def call(self, method: Literal["subscriptions.delete"], request: s.SubscriptionDelete) -> s.SubscriptionMoved: ...
    @overload
    def call(self, method: Literal["subscriptions.dead_letter_policy"], request: s.SubscriptionRef) -> s.DeadLetterPolicyAnswer: ...
    @overload
    def call(
        self, method: Literal["subscriptions.set_dead_letter_policy"], request: s.DeadLetterPolicySet
    ) -> s.DeadLetterPolicyAnswer: ...
    @overload
    def call(self, method: Literal["subscriptions.remove_dead_letter_policy"], request: s.SubscriptionRef) -> s.Empty: ...
    @overload
    def call(self, method: Literal["subscriptions.skip"], request: s.SubscriptionSkip) -> s.SubscriptionMoved: ...
    @overload
    def call(self, method: Literal["subscriptions.reset"], request: s.SubscriptionReset) -> s.SubscriptionMoved: ...
    @overload
    def call(self, method: Literal["subscriptions.expire"], request: s.SubscriptionExpire) -> s.SubscriptionMoved: ...
    @overload
    def call(self, method: Literal["subscriptions.properties"], request: s.SubscriptionRef) -> s.SubscriptionProperties: ...
    @overload
    def call(self, method: Literal["subscriptions.set_properties"], request: s.SubscriptionPropertiesSet) -> s.Empty: ...
    @overload
    def call(self, method: Literal["subscriptions.peek"], request: s.SubscriptionPeek) -> s.PeekAnswer: ...
    @overload
    def call(self, method: Literal["subscriptions.explain"], request: s.SubscriptionExplain) -> s.SubscriptionExplained: ...
    @overload
    def call(self, method: Literal["messages.get"], request: s.MessageGet) -> s.PeekAnswer: ...
    @overload
    def call(self, method: Literal["messages.examine"], request: s.MessageExamine) -> s.PeekAnswer: ...
    @overload
    def call(self, method: Literal["messages.find"], request: s.MessageFind) -> s.MessageIdAnswer: ...
    @overload
    def call(self, method: Literal["messages.trace"], request: s.MessageTrace) -> s.MessageTraced: ...
    @overload
    def call(self, method: Literal["delayed.list"], request: delayed.DelayedList) -> delayed.DelayedPage: ...
    @overload
    def call(self, method: Literal["delayed.counts"], request: s.TopicRef) -> delayed.DelayedCounts: ...
    @overload
    def call(self, method: Literal["delayed.change"], request: delayed.DelayedChange) -> delayed.DelayedChanged: ...
    @overload
    def call(self, method: Literal["delayed.change_key"], request: delayed.DelayedKeyChange) -> delayed.DelayedKeyChanged: ...
    @overload
    def call(self, method: Literal["policies.preview"], request: s.PolicyPreview) -> s.PolicyPreviewAnswer: ...
    @overload
    def call(
        self, method: Literal["policies.append_events"], request: policies.ChangeEventsAppend
    ) -> policies.ChangeEventsResult: ...
    @overload
    def call(self, method: Literal["redrive.scan"], request: redrive.RedriveScan) -> redrive.RedriveFoundPage: ...
    @overload
    def call(self, method: Literal["redrive.prepare"], request: redrive.RedrivePrepare) -> redrive.RedriveTarget: ...
    @overload
    def call(self, method: Literal["redrive.move"], request: redrive.RedriveMove) -> redrive.RedriveMoved: ...
    @overload
    def call(self, method: Literal["upkeep.topics"], request: s.MaintenanceTopics) -> s.MaintenancePage: ...
    @overload
    def call(self, method: Literal["upkeep.run"], request: s.MaintenanceRun) -> s.MaintenanceResult: ...
    @overload
    def call(self, method: Literal["usage.flush"], request: s.UsageFlush) -> s.UsageFlushed: ...
    @overload
    def call(self, method: Literal["audit.take"], request: s.AuditTake) -> s.AuditTaken: ...
    def call(self, method: str, request: s.Request | None = None) -> s.Answer:
        """Performs `method` and returns its answer. Blocks. Raises the errors of `messaging.errors`; `UnderWay` for a long change
        that goes on after `CHANGE_S`, or when the caller leaves."""
        answer_type = s.METHODS[method].answer
        try:
            return self.perform(method, s.Request() if request is None else request, answer_type)
        except UnderWay as goes_on:
            return self._outcome(goes_on, answer_type)

    def _outcome(self, goes_on: UnderWay, answer_type: type[A]) -> A:
        """Asks again and again, each time for a moment, so that nobody who waits takes a turn from those who ask. Where too many
        wait already it is `UnderWay` at once."""
        left = threading.Event()
        until, wait_s = time.monotonic() + CHANGE_S, LOOK_S
        with _room_to_wait(goes_on), current_caller().ending(left.set):
            while time.monotonic() < until and not left.wait(wait_s):
                wait_s = min(2 * wait_s, LOOK_S_MAX)
                try:
                    return self.perform("changes.outcome", s.ChangeRef(id=goes_on.change), answer_type)
                except UnderWay as still:
                    goes_on = still
        raise goes_on

    @abstractmethod
    def perform(self, method: str, request: s.Request, answer_type: type[A]) -> A: ...


def waiting_callers(tenant: str) -> int:
    """Those who wait for a long change."""
    with _lock:
        return _waiting[tenant]


@contextmanager
def _room_to_wait(goes_on: UnderWay) -> Iterator[None]:
    tenant = current_caller().tenant
    with _lock:
        if _waiting.total() >= WAITING_MAX or _waiting[tenant] >= WAITING_PER_TENANT_MAX:
            raise goes_on
        _waiting[tenant] += 1
    try:
        yield
    finally:
        with _lock:
            _waiting[tenant] -= 1
            if not _waiting[tenant]:
                del _waiting[tenant]
