"""The stats of a topic, its producers, subscriptions and consumers, with Pulsar's names and spellings.

They are made in slices of turns, so that a topic with thousands of subscriptions keeps nobody waiting. What is added up over
subscriptions is added up from their stats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from messaging.broker.core.compaction.status import NOT_RUN, CompactionResult
from messaging.broker.core.consumer import Consumer
from messaging.broker.core.diagnosis.delivery_health import judge_delivery
from messaging.broker.core.producers.access_modes import MODE_NAMES
from messaging.broker.core.producers.producer import NO_EPOCH, Producer
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import TYPE_NAMES, SubscriptionType
from messaging.broker.runtime.admin.stats.compaction_stats import compaction_stats
from messaging.broker.runtime.admin.stats.drop_stats import drops_of_producer, drops_of_subscription, drops_of_topic
from messaging.broker.runtime.admin.stats.internal_stats import count_ack_ranges, named_subscriptions, shown_subscriptions
from messaging.broker.runtime.admin.stats.key_shared_stats import key_shared_figures
from messaging.broker.runtime.admin.stats.pulsar_stats import completed_consumer, completed_publisher, completed_subscription
from messaging.broker.runtime.admin.stats.throttle_stats import throttled
from messaging.broker.runtime.problems.topic_signs import held_by_quota
from messaging.broker.runtime.problems.watch import ProblemWatch
from messaging.broker.runtime.topics.backlog.age import UNKNOWN
from messaging.broker.runtime.topics.member_rates import MemberRates
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.broker.runtime.topics.topic import Topic
from messaging.broker.runtime.topics.topic_rates import QUIET
from messaging.broker.runtime.turn_slices import TurnSlices
from messaging.problems.kinds import Kind
from messaging.problems.order import Problem
from messaging.times import time_text

Figures = dict[str, Any]

# In units of `core/turns/command_costs.py`.
SUBSCRIPTION_COST, CONSUMER_COST, PRODUCER_COST = 200, 50, 40
LOOK_COST = 4  # at a consumer that is not shown
SIGNS_COST = 50  # of a subscription
ENCODED_ABOVE = 100  # subscriptions


class StatsContext(NamedTuple):
    """What the stats of a topic need beside it. `oldest_ms`: see `BacklogAges.of`. `problems`: of the topic itself."""

    broker: str
    now_ms: int
    oldest_ms: dict[str, int]
    watch: ProblemWatch
    problems: list[Problem]
    compaction: CompactionResult = NOT_RUN


class Only(NamedTuple):
    """Which subscriptions there are to be stats of; none: of all. And which consumers and producers, by name; None: of all."""

    subscriptions: Sequence[str] = ()
    consumers: frozenset[str] | None = None
    producers: frozenset[str] | None = None


ALL = Only()


async def topic_stats(
    topic: Topic, context: StatsContext, slices: TurnSlices, *, encoded: bool = False, only: Only = ALL
) -> Figures:
    """Subscriptions that begin or end meanwhile may be missing. `encoded`: those of a topic with many are JSON already, which takes
    a fifth of the memory."""
    known = {name: at_ms for name, at_ms in context.oldest_ms.items() if at_ms >= 0}
    oldest = min(known, key=known.__getitem__) if known else ""
    rates = topic.rates or QUIET
    count, _, messages_out, bytes_out = topic.totals
    publishers = []
    for producer in list(topic.producers):
        if only.producers is not None and producer.name not in only.producers:
            continue
        await slices.spend(PRODUCER_COST)
        publishers.append(completed_publisher(_publisher(topic, producer, rates.members)))
    shown = list(named_subscriptions(topic, only.subscriptions) if only.subscriptions else shown_subscriptions(topic))
    subscriptions: dict[str, Any] = {}
    backlog, ack_ranges, drop_rate = 0, 0, 0.0
    for name, subscription in shown:
        await slices.spend(SUBSCRIPTION_COST + SIGNS_COST)
        figures = completed_subscription(await _subscription(topic, subscription, rates.members, context, slices, only.consumers))
        backlog = max(backlog, figures["backlogSize"])
        ack_ranges += figures["nonContiguousDeletedMessagesRanges"]
        drop_rate += figures.get("msgDropRate", 0.0)
        subscriptions[name] = msgspec.Raw(msgspec.json.encode(figures)) if encoded and len(shown) > ENCODED_ABOVE else figures
    return (
        {
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
            "backlogSize": backlog,
            "offloadedStorageSize": 0,
            "earliestMsgPublishTimeInBacklogs": known.get(oldest, 0),
            "oldestBacklogMessageAgeSeconds": _age_s(known.get(oldest, UNKNOWN), context.now_ms),
            "oldestBacklogMessageSubscriptionName": oldest.rstrip(),
            "deduplicationStatus": "Enabled"
            if isinstance(topic, PersistentTopic) and topic.deduplication.state is not None
            else "Disabled",
            "nonContiguousDeletedMessagesRanges": ack_ranges,
            "ownerBroker": context.broker,
            "topicCreationTimeStamp": topic.ledger.record.created_ms,
            "lastPublishTimeStamp": topic.publisher.last_published_ms,
            "waitingPublishers": topic.producers.table.waiting,
            "topicEpoch": None if topic.producers.table.topic_epoch == NO_EPOCH else topic.producers.table.topic_epoch,
            "publishRateLimitedTimes": 0 if topic.publisher.limits is None else topic.publisher.limits.waits,
            "publishers": publishers,
            "subscriptions": subscriptions,
            "replication": {},
            "compaction": compaction_stats(context.compaction),
            "problems": [each.kind for each in context.problems],  # ours: the marks of the console
        }
        | (_publishing_held(topic) if any(each.kind == Kind.PRODUCERS_HELD for each in context.problems) else {})
        | drops_of_topic(topic, drop_rate)
    )


def _publishing_held(topic: Topic) -> Figures:
    """Why producers are refused, which Pulsar does not tell."""
    why = held_by_quota(topic)
    return {"publishingHeld": why} if why else {}


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
        **_schema_version(producer),
    } | drops_of_producer(topic)


def _schema_version(client: Producer | Consumer) -> Figures:
    """Which Pulsar does not tell: of one whose schema is a version of the topic's."""
    return {} if client.schema_version is None else {"schemaVersion": client.schema_version}


async def _subscription(
    topic: Topic,
    subscription: Subscription,
    members: MemberRates,
    context: StatsContext,
    slices: TurnSlices,
    named: frozenset[str] | None,
) -> Figures:
    """`named`: consumers that are shown; None: all."""
    backlog, delayed = subscription.backlog_entries, subscription.delayed_entries
    rates = members.of_subscription(subscription)
    key_shared, of_consumers = key_shared_figures(subscription)
    consumers, of_all = [], []
    for consumer in list(subscription.consumers):
        of_all.append(members.of_consumer(consumer))
        if named is not None and consumer.name not in named:
            await slices.spend(LOOK_COST)
            continue
        await slices.spend(CONSUMER_COST)
        consumers.append(completed_consumer(_consumer(consumer, members) | of_consumers.get(consumer, {})))
    oldest_ms = context.oldest_ms.get(subscription.key, UNKNOWN)
    state = topic.consumers.delivery_state(subscription)
    verdict = judge_delivery(subscription, state)
    health, why = verdict
    stats = {
        "type": TYPE_NAMES[subscription.kind] if subscription.typed else "",  # the last one; the next consumer may choose another
        "msgBacklog": backlog,
        "msgBacklogNoDelayed": backlog - delayed,
        "msgDelayed": delayed,
        "unackedMessages": subscription.unacked_messages,
        "backlogSize": backlog_bytes(topic, backlog),
        "deliveryHealth": health,  # ours
        "explanation": {"reason": why.reason, "sentence": why.sentence, "remedy": why.remedy},  # ours
        "backlogGrows": bool(of_all) and members.grows(subscription),  # ours
        "problems": [each.kind for each in context.watch.of_subscription(topic, subscription, state, verdict)],  # ours
        "earliestMsgPublishTimeInBacklog": max(0, oldest_ms),
        "oldestBacklogMessageAgeSeconds": _age_s(oldest_ms, context.now_ms),
        "msgRateOut": rates.messages_out,
        "msgThroughputOut": rates.bytes_out,
        "msgRateRedeliver": sum(rates.messages_redelivered for rates in of_all),
        "messageAckRate": sum(rates.messages_acknowledged for rates in of_all),
        "chunkedMessageRate": sum(rates.chunks_out for rates in of_all),
        "msgRateExpired": rates.entries_expired,
        "bytesOutCounter": subscription.bytes_out,
        "msgOutCounter": subscription.messages_out,
        "totalMsgExpired": subscription.entries_expired,
        "unreadableEntries": subscription.entries_lost,  # ours: damage on the disk; they count as acknowledged
        "lastExpireTimestamp": subscription.last_expired_ms,
        "lastMarkDeleteAdvancedTimestamp": subscription.last_advanced_ms,
        "msgInReplay": subscription.state.redeliveries.waiting_entries if of_all else 0,
        "lastConsumedFlowTimestamp": max(
            [subscription.last_flow_ms, *(consumer.last_flow_ms for consumer in subscription.consumers)]
        ),
        "blockedSubscriptionOnUnackedMsgs": subscription.unacked.blocked,
        "activeConsumerName": subscription.active.name
        if subscription.active and subscription.kind is SubscriptionType.FAILOVER
        else None,
        "allowOutOfOrderDelivery": False,
        "nonContiguousDeletedMessagesRanges": count_ack_ranges(subscription),
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


def _consumer(consumer: Consumer, members: MemberRates) -> dict[str, Any]:
    rates = members.of_consumer(consumer)
    return {
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked_messages,  # 0 for an active consumer, as in Pulsar
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
        "lastConsumedTimestamp": consumer.last_consumed_ms,
        "lastConsumedFlowTimestamp": consumer.last_flow_ms,
        "metadata": consumer.metadata,
        **_schema_version(consumer),
    }


def backlog_bytes(topic: Topic, backlog_entries: int) -> int:
    """From the mean entry size of the topic: exact sizes of single entries are not kept."""
    entries = topic.ledger_list.entries
    return topic.ledger.stored_bytes * backlog_entries // entries if entries else 0
