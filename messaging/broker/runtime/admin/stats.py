"""What Pulsar's tools read of a topic: TopicStats and internal stats, with their names and spellings."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from messaging.adminrpc.schema import TopicLive
from messaging.broker.core.access_modes import MODE_NAMES
from messaging.broker.core.bitmaps import count_ranges, ranges_of
from messaging.broker.core.compaction.status import NOT_RUN, CompactionResult
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.explain import explain
from messaging.broker.core.producers import NO_EPOCH, Producer
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import TYPE_NAMES, SubscriptionType
from messaging.broker.runtime.admin.compaction_stats import compacted_ledger_stats, compaction_stats
from messaging.broker.runtime.admin.drop_stats import drops_of_producer, drops_of_subscription, drops_of_topic
from messaging.broker.runtime.admin.key_shared_stats import key_shared_figures
from messaging.broker.runtime.admin.throttle_stats import throttled
from messaging.broker.runtime.metering import max_backlog
from messaging.broker.runtime.topics.backlog_age import UNKNOWN
from messaging.broker.runtime.topics.member_rates import MemberRates
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.topics.topic_rates import QUIET
from messaging.storage.ledger_store import Position
from messaging.times import time_text


def position_text(position: Position) -> str:
    return f"{position.ledger_id}:{position.entry_id}"


class StatsContext(NamedTuple):
    """What the stats of a topic need beside it. `oldest_ms`: see `BacklogAges.of`."""

    broker: str
    now_ms: int
    oldest_ms: dict[str, int]
    compaction: CompactionResult = NOT_RUN


def topic_stats(topic: Topic, context: StatsContext) -> dict[str, Any]:
    known = {name: at_ms for name, at_ms in context.oldest_ms.items() if at_ms >= 0}
    oldest = min(known, key=known.__getitem__) if known else ""
    rates = topic.rates or QUIET
    count, _, messages_out, bytes_out = topic.totals
    return {
        "msgRateIn": rates.messages_in.a_second,
        "msgThroughputIn": rates.bytes_in.a_second,
        "msgRateOut": rates.messages_out.a_second,
        "msgThroughputOut": rates.bytes_out.a_second,
        "bytesInCounter": topic.publisher.bytes_in,
        "msgInCounter": topic.publisher.messages_in,
        "bytesOutCounter": bytes_out,
        "msgOutCounter": messages_out,
        "averageMsgSize": topic.publisher.bytes_in / count if count else 0.0,
        "msgChunkPublished": topic.publisher.chunks_published,
        "storageSize": topic.ledger.stored_bytes,
        "backlogSize": _backlog_bytes(topic, max_backlog(topic)),
        "offloadedStorageSize": 0,
        "earliestMsgPublishTimeInBacklogs": known.get(oldest, 0),
        "oldestBacklogMessageAgeSeconds": _age_s(known.get(oldest, UNKNOWN), context.now_ms),
        "oldestBacklogMessageSubscriptionName": oldest.rstrip(),
        "deduplicationStatus": "Disabled" if topic.publisher.dedup is None else "Enabled",
        "nonContiguousDeletedMessagesRanges": sum(_ack_ranges(one) for one in topic.subscriptions.values()),
        "ownerBroker": context.broker,
        "topicCreationTimeStamp": topic.created_ms,
        "lastPublishTimeStamp": topic.publisher.last_published_ms,
        "waitingPublishers": topic.producers.waiting,
        "topicEpoch": None if topic.producers.topic_epoch == NO_EPOCH else topic.producers.topic_epoch,
        "publishRateLimitedTimes": 0 if topic.publisher.limits is None else topic.publisher.limits.waits,
        "publishers": [_publisher(topic, one, rates.members) for one in topic.producers],
        "subscriptions": {name: _subscription(topic, one, rates.members, context) for name, one in _shown(topic)},
        "replication": {},
        "compaction": compaction_stats(context.compaction),
    } | drops_of_topic(topic, rates.members)


def _shown(topic: Topic) -> Iterator[tuple[str, Subscription]]:
    """Subscriptions with the names under which they are shown: one that is not durable gives way to a durable one of its name."""
    for key, one in topic.subscriptions.items():
        yield one.name if key == one.name or one.name not in topic.subscriptions else f"{one.name} (non-durable)", one


def _age_s(at_ms: int, now_ms: int) -> int:
    return UNKNOWN if at_ms < 0 else max(0, now_ms - at_ms) // 1000


def _publisher(topic: Topic, producer: Producer, members: MemberRates) -> dict[str, Any]:
    rates, limits = members.of_producer(producer), topic.publisher.limits
    return {
        "accessMode": MODE_NAMES[producer.access],
        "producerId": producer.producer_id,
        "producerName": producer.name,
        "msgRateIn": rates.messages_in,
        "msgThroughputIn": rates.bytes_in,
        "chunkedMessageRate": rates.chunks_in,
        "averageMsgSize": producer.bytes_in / producer.messages_in if producer.messages_in else 0.0,
        "address": producer.client.address,
        "clientVersion": producer.client.version,
        "connectedSince": time_text(producer.connected_ms),
        "waitingBytes": 0 if limits is None else limits.parked_bytes(producer),  # ours: for publish rates
        "metadata": dict(producer.metadata),
    } | drops_of_producer(topic)


def _subscription(topic: Topic, subscription: Subscription, members: MemberRates, context: StatsContext) -> dict[str, Any]:
    backlog, delayed = subscription.backlog_entries, subscription.delayed_entries
    rates = members.of_subscription(subscription)
    key_shared, of_consumers = key_shared_figures(subscription)
    consumers = [_consumer(one, subscription, members) | of_consumers.get(one, {}) for one in subscription.consumers]
    oldest_ms = context.oldest_ms.get(subscription.key, UNKNOWN)
    state = topic.delivery_state(subscription)
    why = explain(subscription, state)[0]
    stats = {
        "type": TYPE_NAMES[subscription.kind] if subscription.typed else "",  # the last one; the next consumer may choose another
        "msgBacklog": backlog,
        "msgBacklogNoDelayed": backlog - delayed,
        "msgDelayed": delayed,
        "unackedMessages": subscription.unacked_messages,
        "backlogSize": _backlog_bytes(topic, backlog),
        "explanation": {"reason": why.reason, "sentence": why.sentence, "remedy": why.remedy},  # ours
        "backlogGrows": bool(consumers) and members.grows(subscription),  # ours: FALLING BEHIND in the console
        "earliestMsgPublishTimeInBacklog": max(0, oldest_ms),
        "oldestBacklogMessageAgeSeconds": _age_s(oldest_ms, context.now_ms),
        "msgRateOut": rates.messages_out,
        "msgThroughputOut": rates.bytes_out,
        "msgRateRedeliver": sum(one["msgRateRedeliver"] for one in consumers),
        "messageAckRate": sum(one["messageAckRate"] for one in consumers),
        "chunkedMessageRate": sum(one["chunkedMessageRate"] for one in consumers),
        "msgRateExpired": rates.entries_expired,
        "bytesOutCounter": subscription.bytes_out,
        "msgOutCounter": subscription.messages_out,
        "totalMsgExpired": subscription.entries_expired,
        "unreadableEntries": subscription.entries_lost,  # ours: damage on the disk; they count as acknowledged
        "lastExpireTimestamp": subscription.last_expired_ms,
        "lastConsumedTimestamp": subscription.last_consumed_ms,
        "blockedSubscriptionOnUnackedMsgs": subscription.unacked.blocked,
        "activeConsumerName": subscription.active.name
        if subscription.active and subscription.kind is SubscriptionType.FAILOVER
        else None,
        "allowOutOfOrderDelivery": False,
        "nonContiguousDeletedMessagesRanges": _ack_ranges(subscription),
        "subscriptionProperties": subscription.properties,
        "deadLetters": _dead_letters(subscription),  # ours: of the subscription's dead-letter policy
        "durable": subscription.durable,
        "isDurable": subscription.durable,
        "replicated": False,
        "isReplicated": False,
        "consumers": consumers,
    }
    return stats | throttled(state.rate_waits) | key_shared | drops_of_subscription(topic, subscription, members)


def _dead_letters(subscription: Subscription) -> dict[str, Any] | None:
    letters = subscription.dead_letters
    if letters is None:
        return None
    return {
        "maxRedeliverCount": letters.policy.max_redeliver_count,
        "target": letters.policy.target,
        "waitingEntries": subscription.state.redeliveries.dead_entries,
        "movedMessages": letters.moved_messages,
        "lastMovedTimestamp": letters.last_moved_ms,
        "lastError": letters.last_error,
    }


def _consumer(consumer: Consumer, subscription: Subscription, members: MemberRates) -> dict[str, Any]:
    rates = members.of_consumer(consumer)
    return {
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": subscription.unacked_of(consumer),
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        "avgMessagesPerEntry": round(consumer.messages_out / consumer.entries_out) if consumer.entries_out else 0,
        "msgRateOut": rates.messages_out,
        "msgThroughputOut": rates.bytes_out,
        "msgRateRedeliver": rates.messages_redelivered,
        "messageAckRate": rates.messages_acknowledged,
        "chunkedMessageRate": rates.chunks_out,
        "bytesOutCounter": consumer.bytes_out,
        "msgOutCounter": consumer.messages_out,
        "address": consumer.client.address,
        "clientVersion": consumer.client.version,
        "connectedSince": time_text(consumer.connected_ms),
        "lastAckedTimestamp": consumer.last_acked_ms,
        "lastConsumedFlowTimestamp": consumer.last_flow_ms,
        "metadata": consumer.metadata,
    }


def internal_stats(topic: Topic) -> dict[str, Any]:
    ledger_list, record = topic.ledger_list, topic.ledger.record
    return {
        "entriesAddedCounter": topic.entries_added,
        "numberOfEntries": ledger_list.entries,
        "totalSize": topic.ledger.stored_bytes,
        "currentLedgerEntries": ledger_list.lasts[-1] + 1 if ledger_list.lasts else 0,
        "currentLedgerSize": topic.ledger.stored_bytes - topic.ledger.sealed_bytes,
        "waitingCursorsCount": 0,
        "pendingAddEntriesCount": 0,
        "lastConfirmedEntry": position_text(ledger_list.last_confirmed),
        "state": "Terminated" if record.terminated_at is not None else "LedgerOpened",
        "ledgers": [
            {
                "ledgerId": ledger.ledger_id,
                "entries": ledger_list.last_of(ledger.ledger_id) + 1,
                "size": ledger.length_bytes
                if ledger.last_entry is not None
                else topic.ledger.stored_bytes - topic.ledger.sealed_bytes,
                "offloaded": False,
                "underReplicated": False,
            }
            for ledger in record.ledgers
        ],
        "cursors": {name: _cursor(topic, one) for name, one in _shown(topic)},
        "schemaLedgers": [],
        "compactedLedger": compacted_ledger_stats(ledger_list.compacted),
    }


def _cursor(topic: Topic, subscription: Subscription) -> dict[str, Any]:
    return {
        "markDeletePosition": position_text(subscription.cursor.mark_delete),
        "readPosition": position_text(subscription.read_position),
        "waitingReadOp": False,
        "pendingReadOps": topic.pending_reads(subscription),
        "messagesConsumedCounter": topic.publisher.messages_in - subscription.backlog_entries,  # Pulsar's: below 0 after a restart
        "cursorLedger": -1,
        "cursorLedgerLastEntry": -1,
        "individuallyDeletedMessages": _ack_ranges_text(subscription),
        "state": "Open",
        "active": bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": topic.ledger_list.entries
        - topic.ledger_list.count_up_to(subscription.cursor.mark_delete),
        "totalNonContiguousDeletedMessagesRange": _ack_ranges(subscription),
        "properties": {},
    }


def _ack_ranges_text(subscription: Subscription, runs_max: int = 100) -> str:
    """Pulsar's way to write ranges of acknowledged entries: ``[(3:4..3:9]]``, open below, closed above."""
    texts = []
    for ledger_id, bitmap in sorted(subscription.cursor.individual_acks.items(), key=itemgetter(0)):
        for first, last in ranges_of(bitmap):
            texts.append(f"({ledger_id}:{first - 1}..{ledger_id}:{last}]")
            if len(texts) == runs_max:
                return "[" + ",".join(texts) + ",…]"
    return "[" + ",".join(texts) + "]"


def _ack_ranges(subscription: Subscription) -> int:
    return sum(count_ranges(bitmap) for bitmap in subscription.cursor.individual_acks.values())


def _backlog_bytes(topic: Topic, backlog_entries: int) -> int:
    """From the mean entry size of the topic: exact sizes of single entries are not kept."""
    entries = topic.ledger_list.entries
    return topic.ledger.stored_bytes * backlog_entries // entries if entries else 0


def live(topic: Topic) -> TopicLive:
    rates = topic.rates or QUIET
    return TopicLive(
        topic=topic.text,
        loaded=True,
        rate_in=rates.messages_in.a_second,
        rate_out=rates.messages_out.a_second,
        throughput_in=rates.bytes_in.a_second,
        throughput_out=rates.bytes_out.a_second,
        messages_in=topic.publisher.messages_in,
        messages_out=topic.totals.messages_out,
        storage_bytes=topic.ledger.stored_bytes,
        backlog_entries=max_backlog(topic),
        producers=len(topic.producers),
        subscriptions=len(topic.subscriptions),
        consumers=sum(len(one.consumers) for one in topic.subscriptions.values()),
    )


def not_loaded(text: str) -> TopicLive:
    """A topic that nobody uses: nothing flows and nobody is connected; what it holds was not looked at."""
    return TopicLive(
        topic=text,
        loaded=False,
        rate_in=0.0,
        rate_out=0.0,
        throughput_in=0.0,
        throughput_out=0.0,
        messages_in=None,
        messages_out=None,
        storage_bytes=None,
        backlog_entries=None,
        producers=0,
        subscriptions=None,
        consumers=0,
    )
