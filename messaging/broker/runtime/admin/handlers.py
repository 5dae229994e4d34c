"""Which function answers which method of the admin RPC."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from messaging.adminrpc.schema import LONG_CHANGES, Answer
from messaging.broker.runtime.admin.backlog import BacklogHandlers
from messaging.broker.runtime.admin.changes import LongChanges
from messaging.broker.runtime.admin.compaction import CompactionHandlers
from messaging.broker.runtime.admin.dead_letters import DeadLetterHandlers
from messaging.broker.runtime.admin.delayed import DelayedHandlers
from messaging.broker.runtime.admin.diagnosis import DiagnosisHandlers
from messaging.broker.runtime.admin.feed import FeedHandlers
from messaging.broker.runtime.admin.maintenance import MaintenanceHandlers
from messaging.broker.runtime.admin.messages import MessageHandlers
from messaging.broker.runtime.admin.namespaces import NamespaceHandlers
from messaging.broker.runtime.admin.policies import PolicyHandlers
from messaging.broker.runtime.admin.policy_events import PolicyEventHandlers
from messaging.broker.runtime.admin.redrive import Redrive
from messaging.broker.runtime.admin.schemas import SchemaHandlers
from messaging.broker.runtime.admin.status import StatusHandlers
from messaging.broker.runtime.admin.subscriptions import SubscriptionHandlers
from messaging.broker.runtime.admin.topic_stats import TopicStatsHandlers
from messaging.broker.runtime.admin.topics import TopicHandlers
from messaging.broker.runtime.admin.usage import UsageHandlers
from messaging.broker.runtime.broker import Broker
from messaging.fairness.turns import FairTurns

SCANS_MAX = 4  # slices of topics that are read at a time for somebody who asked, a turn each
Method = Callable[[Any], Awaitable[Answer]]


class AdminHandlers:
    """The handlers of one broker. `methods` has a row for each of `messaging.adminrpc.schema.METHODS`."""

    def __init__(self, broker: Broker) -> None:
        self.status = StatusHandlers(broker)
        self.feed = FeedHandlers(broker)
        self.namespaces = NamespaceHandlers(broker)
        self.topics = TopicHandlers(broker)
        self.schemas = SchemaHandlers(broker)
        self.topic_stats = TopicStatsHandlers(broker)
        scans = FairTurns(SCANS_MAX)
        self.backlog = BacklogHandlers(broker, scans)
        self.subscriptions = SubscriptionHandlers(broker)
        self.dead_letters = DeadLetterHandlers(broker)
        self.messages = MessageHandlers(broker)
        self.delayed = DelayedHandlers(broker)
        self.diagnosis = DiagnosisHandlers(broker)
        self.policies = PolicyHandlers(broker)
        self.policy_events = PolicyEventHandlers(broker)
        self.compaction = CompactionHandlers(broker)
        self.redrive = Redrive(broker, scans)
        self.maintenance = MaintenanceHandlers(broker)
        self.usage = UsageHandlers(broker)
        self.changes = LongChanges(broker)
        methods: dict[str, Method] = {
            "status": self.status.describe,
            "health": self.status.check_health,
            "feed.apply": self.feed.apply,
            "feed.version": self.feed.version,
            "feed.pull": self.feed.pull,
            "topics.list": self.namespaces.list_topics,
            "names.search": self.namespaces.search_names,
            "namespaces.live": self.namespaces.live,
            "namespaces.purge": self.namespaces.purge,
            "topics.create": self.topics.create,
            "topics.delete": self.topics.delete,
            "topics.partitions": self.topics.partitions,
            "topics.update_partitions": self.topics.update_partitions,
            "topics.times": self.topics.times,
            "topics.create_missing_partitions": self.topics.create_missing_partitions,
            "topics.properties": self.topics.properties,
            "topics.change_properties": self.topics.change_properties,
            "topics.lookup": self.topics.lookup,
            "topics.unload": self.topics.unload,
            "topics.terminate": self.topics.terminate,
            "topics.terminate_partitions": self.topics.terminate_partitions,
            "topics.truncate": self.topics.truncate,
            "topics.last_message_id": self.topics.last_message_id,
            "schemas.get": self.schemas.get,
            "schemas.list": self.schemas.list_versions,
            "schemas.add": self.schemas.add,
            "schemas.find": self.schemas.find,
            "schemas.check": self.schemas.check,
            "schemas.delete": self.schemas.delete,
            "topics.stats": self.topic_stats.stats,
            "topics.figures": self.topic_stats.figures,
            "topics.internal_stats": self.topic_stats.internal_stats,
            "topics.partitioned_stats": self.topic_stats.partitioned_stats,
            "topics.partitioned_internal_stats": self.topic_stats.partitioned_internal_stats,
            "topics.internal_info": self.topic_stats.internal_info,
            "topics.backlog_size": self.backlog.size,
            "topics.trim": self.maintenance.trim,
            "subscriptions.list": self.subscriptions.list_names,
            "subscriptions.create": self.subscriptions.create,
            "subscriptions.delete": self.subscriptions.delete,
            "subscriptions.skip": self.subscriptions.skip,
            "subscriptions.reset": self.subscriptions.reset,
            "subscriptions.expire": self.subscriptions.expire,
            "subscriptions.dead_letter_policy": self.dead_letters.get,
            "subscriptions.set_dead_letter_policy": self.dead_letters.set,
            "subscriptions.remove_dead_letter_policy": self.dead_letters.remove,
            "subscriptions.properties": self.subscriptions.properties,
            "subscriptions.set_properties": self.subscriptions.set_properties,
            "subscriptions.peek": self.subscriptions.peek,
            "subscriptions.analyze_backlog": self.backlog.analyze,
            "subscriptions.explain": self.diagnosis.explain,
            "messages.get": self.messages.get,
            "messages.examine": self.messages.examine,
            "messages.find": self.messages.find,
            "messages.trace": self.diagnosis.trace,
            "delayed.list": self.delayed.list,
            "delayed.counts": self.delayed.counts,
            "delayed.change": self.delayed.change,
            "delayed.change_key": self.delayed.change_key,
            "policies.preview": self.policies.preview,
            "policies.append_events": self.policy_events.append,
            "topics.compact": self.compaction.request,
            "topics.compaction_status": self.compaction.status,
            "compaction.due": self.compaction.due,
            "compaction.begin": self.compaction.begin,
            "compaction.read": self.compaction.read,
            "compaction.write": self.compaction.write,
            "compaction.commit": self.compaction.commit,
            "compaction.abort": self.compaction.abort,
            "redrive.scan": self.redrive.scan,
            "redrive.prepare": self.redrive.prepare,
            "redrive.move": self.redrive.move,
            "upkeep.topics": self.maintenance.list_topics,
            "upkeep.run": self.maintenance.run,
            "usage.flush": self.usage.flush,
            "audit.take": self.usage.take_audit_events,
            "changes.list": self.changes.list,
            "changes.outcome": self.changes.outcome,
        }
        self.methods: Mapping[str, Method] = methods | {name: self.changes.long(name, methods[name]) for name in LONG_CHANGES}
