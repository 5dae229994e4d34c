"""Admin RPC: explains a topic and a subscription, and traces a message. They only read."""

from __future__ import annotations

from messaging.adminrpc.diagnosis import (
    ExplainFinding,
    ExplainStep,
    MessageTrace,
    MessageTraced,
    SubscriptionExplain,
    SubscriptionExplained,
    TopicExplain,
    TopicExplained,
    TracedDelivery,
    TracedEntry,
    TracedSubscription,
)
from messaging.adminrpc.methods import MESSAGES_TRACE, SUBSCRIPTIONS_EXPLAIN, TOPICS_EXPLAIN
from messaging.broker.core.diagnosis.delivery_health import judge_delivery
from messaging.broker.core.diagnosis.explain import Finding, explain
from messaging.broker.core.diagnosis.publish_steps import publish_steps, publishing_held_at
from messaging.broker.core.diagnosis.steps import StepLook, delivery_steps, held_at
from messaging.broker.core.diagnosis.trace import DeliveryRecord, SubscriptionTrace, TraceState, trace_in
from messaging.broker.core.entries import EntryBlock
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.admin.fewer_copies import problems_of_topic
from messaging.broker.runtime.admin.naming import plain_topic
from messaging.broker.runtime.admin.publish_state import publish_state
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.topics.backlog.stored_entries import stored_entry
from messaging.broker.runtime.topics.persistent import persistent
from messaging.broker.runtime.topics.topic import Topic
from messaging.errors import InvalidValue
from messaging.problems.steps import text_of
from messaging.protocol.frames import as_text
from messaging.storage.ledger_store import Position
from messaging.times import TIME_MS_MAX

SUBSCRIPTIONS_MAX = 1_000  # of which a trace tells
SENTENCES = {
    TraceState.EXPIRED: "It expired, or the backlog quota removed it, before it was acknowledged.",
    TraceState.DEAD_LETTERED: "It was moved to the dead-letter topic.",
    TraceState.CANCELLED: "It was cancelled before its delivery time.",
    TraceState.ACKNOWLEDGED: "It is acknowledged.",
    TraceState.HELD: "Consumer {consumer} holds it and has not acknowledged it.",
    TraceState.SENT: "It was sent to consumer {consumer}, which has not acknowledged it.",
    TraceState.DEAD: "It was redelivered too often and is to be moved to the dead-letter topic.",
    TraceState.AGAIN: "It is to be sent again.",
    TraceState.DELAYED: "It waits for its delivery time.",
    TraceState.DUE: "Its delivery time has come; it is to be sent.",
    TraceState.WAITING: "It has not been sent yet.",
}
UNRECORDED = "It is acknowledged: by a consumer, by skipping or by expiry, which is unknown."


class DiagnosisHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(SUBSCRIPTIONS_EXPLAIN)
    async def explain(self, request: SubscriptionExplain) -> SubscriptionExplained:
        """Raises `TopicNotFound`, `SubscriptionNotFound`, `NotAllowed` for a partitioned topic."""
        topic = await plain_topic(self._broker, request.topic)
        subscription = topic.subscriptions.named(request.subscription)
        state = topic.consumers.delivery_state(subscription)
        findings, verdict = explain(subscription, state), judge_delivery(subscription, state)
        published = publish_steps(publish_state(self._broker, topic))
        idle_since_ms = topic.idle.subscription_ms(subscription.name) if subscription.durable else None
        return SubscriptionExplained(
            health=verdict.health,
            sentence=findings[0].sentence,
            remedy=findings[0].remedy,
            findings=[_finding(finding) for finding in findings],
            backlog_entries=subscription.backlog_entries,
            delayed_entries=subscription.delayed_entries,
            next_delayed_ms=state.next_delayed_ms if subscription.delayed_entries else None,
            message_ttl_s=state.message_ttl_s,
            mark_delete=_text(subscription.cursor.mark_delete),
            read_position=_text(subscription.read_position),
            held_at=held_at(findings, published),
            steps=[_step(look) for look in (*published, *delivery_steps(subscription, state, findings, idle_since_ms))],
            problems=self._broker.problems.of_subscription(topic, subscription, state, verdict),
        )

    @answers(TOPICS_EXPLAIN)
    async def explain_topic(self, request: TopicExplain) -> TopicExplained:
        """Raises `TopicNotFound`, `NotAllowed` for a partitioned topic."""
        topic = await plain_topic(self._broker, request.topic)
        looks = publish_steps(publish_state(self._broker, topic))
        problems = problems_of_topic(self._broker, topic)
        return TopicExplained(held_at=publishing_held_at(looks), steps=[_step(look) for look in looks], problems=problems)

    @answers(MESSAGES_TRACE)
    async def trace(self, request: MessageTrace) -> MessageTraced:
        """Raises `TopicNotFound`, `InvalidValue`, `StorageFailed` for an entry that cannot be read."""
        if not (0 <= request.ledger_id < 1 << 63 and 0 <= request.entry_id < 1 << 32):
            raise InvalidValue(f"{request.ledger_id}:{request.entry_id} is no message id: give ledger:entry, as 12:7")
        topic = await plain_topic(self._broker, request.topic)
        position = Position(request.ledger_id, request.entry_id)
        records = topic.dispatcher.log.listed()
        since_ms = min((record.at_ms for record in records), default=None)
        block = await topic.entries.block_at(position)
        if block is None:
            return MessageTraced(sentence=_absent(topic, position), entry=None, recorded_since_ms=since_ms, subscriptions=[])
        listed = list(topic.subscriptions.table.values())[:SUBSCRIPTIONS_MAX]
        overrides = persistent(topic).overrides
        cancelled = overrides is not None and overrides.is_cancelled(position)
        traces = [trace_in(subscription, position, records, cancelled=cancelled) for subscription in listed]
        rescheduled = None if overrides is None else overrides.time_of(position)
        entry = _entry(block, position, None if rescheduled is None else rescheduled.at_ms)
        return MessageTraced(
            sentence=f"It is stored as entry {position.entry_id} of ledger {position.ledger_id}.",
            entry=entry,
            recorded_since_ms=since_ms,
            subscriptions=[_subscription(trace) for trace in traces],
        )


def _finding(finding: Finding) -> ExplainFinding:
    return ExplainFinding(
        reason=finding.reason,
        sentence=finding.sentence,
        remedy=finding.remedy,
        consumer=finding.consumer,
        key=finding.key,
        position=_text(finding.position) if finding.position is not None else "",
        until_ms=finding.until_ms,
    )


def _step(look: StepLook) -> ExplainStep:
    return ExplainStep(
        step=look.step,
        state=look.state,
        sentence=text_of(look.code, look.facts),
        code=look.code,
        facts=dict(look.facts),
        who=list(look.who),
        since_ms=look.since_ms,
    )


def _text(position: Position) -> str:
    return f"{position.ledger_id}:{position.entry_id}"


def _absent(topic: Topic, position: Position) -> str:
    if not topic.keeps_messages:
        return "It is not stored: the topic is non-persistent, and keeps no messages."
    ledger_list = topic.ledger_list
    if position.ledger_id < ledger_list.first_id or ledger_list.dropped(position.ledger_id):
        return "It is not stored: retention deleted what was stored before, or there never was such a message. Which is unknown."
    if position > ledger_list.last:
        return "There is no such message: it is after the last one of the topic."
    return "There is no such message in this topic."


def _entry(block: EntryBlock, position: Position, rescheduled_ms: int | None) -> TracedEntry:
    metadata = stored_entry(block, position.entry_id).metadata
    index = position.entry_id - block.first_entry
    at_ms = rescheduled_ms or (block.deliver_at_ms[index] if block.deliver_at_ms is not None else 0)
    return TracedEntry(
        stored_at_ms=block.broker_time_ms,
        publish_time_ms=min(metadata.publish_time, TIME_MS_MAX),  # a producer may say anything
        producer=as_text(metadata.producer_name),
        sequence_id=metadata.sequence_id,
        messages=block.messages_of(position.entry_id),
        size_bytes=len(block.view(position.entry_id)),
        deliver_at_ms=min(at_ms, TIME_MS_MAX) or None,
    )


def _subscription(trace: SubscriptionTrace) -> TracedSubscription:
    sentence = SENTENCES[trace.where].format(consumer=repr(trace.consumer))
    if trace.where is TraceState.ACKNOWLEDGED and not trace.records:
        sentence = UNRECORDED
    return TracedSubscription(
        subscription=trace.subscription,
        where=trace.where,
        sentence=sentence,
        consumer=trace.consumer,
        messages_left=trace.messages_left,
        redeliveries=trace.redeliveries,
        deliveries=[_delivery(record) for record in trace.records],
    )


def _delivery(record: DeliveryRecord) -> TracedDelivery:
    return TracedDelivery(at_ms=record.at_ms, event=record.event, consumer=record.consumer, certain=record.whole)
