"""Why a subscription is not sent messages now: what stands in the way, for whom, where, and what is safe to do about it. Pure.

Everything is read from the state by which dispatching decides, so that the answer cannot differ from what happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch.key_shared import KeySharedDispatch
from messaging.broker.core.limits.rate_limits import NO_WAITS, LevelLimiter, Waits
from messaging.broker.core.non_persistent import NonPersistentSubscription
from messaging.broker.core.subscription import Subscription
from messaging.policies.texts import counted
from messaging.storage.ledger_store import Position
from messaging.times import time_text

CONSUMERS_MAX = 100  # of which findings are listed


class Reason(StrEnum):
    CLOSING = "topic_closing"
    FENCED = "fenced"
    FAILED = "dispatch_failed"
    NOTHING = "nothing_to_deliver"
    NO_CONSUMER = "no_consumer"
    SENT = "waiting_for_acknowledgements"
    DELAYED = "delayed"
    DEAD_LETTERS = "waiting_for_dead_letter_topic"
    NO_PERMITS = "no_permits"
    NOT_READING = "consumer_not_reading"
    CONSUMER_LIMIT = "consumer_unacked_limit"
    SUBSCRIPTION_LIMIT = "subscription_unacked_limit"
    NO_ROOM = "no_memory_for_delayed_messages"
    MEMORY = "waiting_for_memory"
    BACKLOG_READ = "waiting_for_backlog_read"
    KEY_DRAINING = "key_draining"
    KEY_UNOWNED = "key_without_consumer"
    RATE_LIMIT = "dispatch_rate_limit"
    DELIVERING = "delivering"


REMEDIES = {
    Reason.CLOSING: "wait: clients connect again by themselves",
    Reason.FENCED: "wait until the seek or the deletion has ended",
    Reason.FAILED: "look at the broker's log: it tries again by itself; unloading the topic begins anew",
    Reason.NOTHING: "",
    Reason.NO_CONSUMER: "connect a consumer, or delete the subscription if nobody needs it: its backlog keeps storage",
    Reason.SENT: "acknowledge the messages, or acknowledge them negatively to have them sent again",
    Reason.DELAYED: "wait until the delivery time",
    Reason.DEAD_LETTERS: "look at the dead-letter policy: its topic and the permission of its owner",
    Reason.NO_PERMITS: "look at what the application does with the messages that it was sent, or add consumers",
    Reason.NOT_READING: "look at the client's machine and network; if its connection is closed, others get its messages",
    Reason.CONSUMER_LIMIT: "acknowledge messages, add consumers, or raise max_unacked_per_consumer",
    Reason.SUBSCRIPTION_LIMIT: "acknowledge messages, or raise max_unacked_per_subscription",
    Reason.NO_ROOM: "wait until delayed messages of the tenant are due, or raise memory_budget_bytes",
    Reason.MEMORY: "wait: other backlog reads give memory back; or raise memory_budget_bytes",
    Reason.BACKLOG_READ: "wait: it is being read from disk",
    Reason.KEY_DRAINING: "acknowledge the messages of that key that the former consumer holds, or close that consumer",
    Reason.KEY_UNOWNED: "connect a consumer that names the missing hash ranges, or let consumers divide them by themselves",
    Reason.RATE_LIMIT: "wait: the messages come at the rate of the limit; or raise the limit",
    Reason.DELIVERING: "",
}


class WaitingKey(NamedTuple):
    """A key whose messages wait until its former consumer has acknowledged what it holds."""

    key: str
    consumer: str
    position: Position


class DeliveryState(NamedTuple):
    """What dispatching knows beside the subscription, at `now_ms`. `reads_waiting`, `reads_under_way`: backlog reads for it;
    `next_delayed_ms`: no delayed message of the topic is due before; `message_ttl_s` 0, `backlog_quota_bytes` -1: there is none;
    `no_room`: reading stopped at a delayed message for which there was no memory, of which the tenant holds `delayed_bytes` of
    `delayed_bytes_max`."""

    closing: bool = False
    now_ms: int = 0
    reads_waiting: int = 0
    reads_under_way: int = 0
    next_delayed_ms: int | None = None
    message_ttl_s: int = 0
    backlog_quota_bytes: int = -1
    no_room: bool = False
    delayed_bytes: int = 0
    delayed_bytes_max: int = 0
    failures: str = ""  # of sending to it, since it last succeeded
    blocked_by: LevelLimiter | None = None  # the rate limit that has to allow more before anything is sent
    rate_waits: Waits = NO_WAITS  # how often rate limits had to be waited for
    draining: Sequence[WaitingKey] = ()


class Finding(NamedTuple):
    reason: Reason
    sentence: str
    consumer: str = ""
    key: str = ""
    position: Position | None = None
    until_ms: int | None = None

    @property
    def remedy(self) -> str:
        return REMEDIES[self.reason]


def explain(subscription: Subscription, state: DeliveryState) -> list[Finding]:
    """The most important finding first. Never empty."""
    if state.closing:
        return [Finding(Reason.CLOSING, "The topic is being unloaded or deleted.")]
    if subscription.fenced:
        return [Finding(Reason.FENCED, "Another request is moving or deleting the subscription.")]
    if isinstance(subscription, NonPersistentSubscription):
        return _sent_or_dropped(subscription, state)
    backlog = subscription.backlog_entries
    if state.failures:
        return [Finding(Reason.FAILED, f"Sending failed {state.failures}. Nothing of it is lost; it is tried again.")]
    if not backlog:
        return [Finding(Reason.NOTHING, "There is nothing to deliver: everything is acknowledged.")]
    if not subscription.consumers:
        delayed = subscription.delayed_entries
        nobody = Finding(Reason.NO_CONSUMER, f"No consumer is connected, and {_entries(backlog)} not acknowledged.")
        if not delayed:
            return [nobody]
        return [_delayed(delayed, state), nobody] if nothing_due(subscription, state) else [nobody, _delayed(delayed, state)]
    due = subscription.next_due()
    if due is None:
        waiting = subscription.state.redeliveries.waiting_entries
        return waiting_for_consumers(subscription, waiting) if waiting else _all_sent(subscription, backlog, state)
    at = due[1]
    stuck = [finding for consumer in receivers(subscription) if (finding := why_not_sent(consumer, at)) is not None]
    if subscription.unacked.blocked:
        unacked, limit = subscription.unacked.messages, subscription.unacked.subscription_max
        text = (
            f"All consumers together hold {counted(unacked, 'unacknowledged message')}; delivery stopped at the limit of {limit:,}."
        )
        return [Finding(Reason.SUBSCRIPTION_LIMIT, text, position=at), *stuck[:CONSUMERS_MAX]]
    if len(stuck) == len(receivers(subscription)):
        return _nobody_ready(stuck, at)
    if isinstance(subscription.strategy, KeySharedDispatch) and subscription.strategy.stalled:
        return waiting_for_consumers(subscription, subscription.state.redeliveries.waiting_entries)
    return [*_on_the_way(at, state), *stuck[:CONSUMERS_MAX]]


def _sent_or_dropped(subscription: NonPersistentSubscription, state: DeliveryState) -> list[Finding]:
    """Of a subscription that keeps nothing."""
    count = subscription.messages_dropped
    dropped = f"{count:,} {'message was' if count == 1 else 'messages were'} dropped since the subscription was made."
    open_to = receivers(subscription)
    stuck = [finding for consumer in open_to if (finding := why_not_sent(consumer, None)) is not None]
    if open_to and len(stuck) == len(open_to):
        first, *others = _nobody_ready(stuck, None)
        return [first._replace(sentence=f"{first.sentence} What is published is dropped. {dropped}"), *others]
    if state.blocked_by is not None:
        text = f"{rate_sentence(state.blocked_by, 'Delivery is')} What exceeds it is dropped. {dropped}"
        return [Finding(Reason.RATE_LIMIT, text), *stuck[:CONSUMERS_MAX]]
    text = f"Messages are delivered as they are published, and dropped where nobody can take them. {dropped}"
    return [Finding(Reason.DELIVERING, text), *stuck[:CONSUMERS_MAX]]


def receivers(subscription: Subscription) -> list[Consumer]:
    """The consumers that are sent messages: only the active one, where there is one."""
    active = subscription.active
    return list(subscription.consumers) if active is None else [active]


def why_not_sent(consumer: Consumer, at: Position | None) -> Finding | None:
    """None for a consumer that can be sent messages."""
    name = repr(consumer.name) if consumer.name else "with no name"
    if not consumer.sink.writable:
        return Finding(Reason.NOT_READING, f"Consumer {name} does not read its connection.", consumer.name, position=at)
    if consumer.blocked:
        limit = consumer.unacked.consumer_max
        text = f"Consumer {name} holds {counted(consumer.unacked_messages, 'unacknowledged message')}; its limit is {limit:,}."
        return Finding(Reason.CONSUMER_LIMIT, text, consumer.name, position=at)
    if consumer.permits <= 0:
        return Finding(Reason.NO_PERMITS, f"Consumer {name} has not asked for more messages.", consumer.name, position=at)
    return None


def _nobody_ready(stuck: list[Finding], at: Position | None) -> list[Finding]:
    if len(stuck) == 1:
        return stuck
    counted = Counter(finding.reason for finding in stuck)
    reason, _ = counted.most_common(1)[0]
    parts = ", ".join(COUNTED[why].format(count=count) for why, count in counted.most_common())
    text = f"None of the {len(stuck)} consumers can be sent messages: {parts}."
    return [Finding(reason, text, position=at), *stuck[:CONSUMERS_MAX]]


COUNTED = {
    Reason.NOT_READING: "{count} not reading the connection",
    Reason.CONSUMER_LIMIT: "{count} at the limit of unacknowledged messages",
    Reason.NO_PERMITS: "{count} without permits",
}


def waiting_for_consumers(subscription: Subscription, waiting: int) -> list[Finding]:
    """Key_Shared: `waiting` entries were read and are for consumers that cannot take them; others could not be given them."""
    open_to = receivers(subscription)
    stuck = [finding for consumer in open_to if (finding := why_not_sent(consumer, None)) is not None]
    if len(stuck) == len(open_to):
        return _nobody_ready(stuck, None)
    what = "1 entry waits" if waiting == 1 else f"{waiting:,} entries wait"
    if stuck:
        first = f"{what} for the consumers of their keys: {stuck[0].sentence}"
        return [stuck[0]._replace(sentence=first), *stuck[1:CONSUMERS_MAX]]
    if (unowned := unowned_ranges(subscription)) and not draining(subscription):
        ranges = "a range" if unowned == 1 else f"{unowned} ranges"
        return [Finding(Reason.KEY_UNOWNED, f"{what} for consumers of their keys: nobody has named {ranges} of hashes.")]
    text = f"{what} until the consumers that had their keys before have acknowledged what they hold."
    return [Finding(Reason.KEY_DRAINING, text)]


def unowned_ranges(subscription: Subscription) -> int:
    """Ranges of hashes without a consumer: only where consumers name theirs."""
    strategy = subscription.strategy
    sticky = isinstance(strategy, KeySharedDispatch) and strategy.mode.sticky and subscription.consumers
    return strategy.unowned_ranges() if isinstance(strategy, KeySharedDispatch) and sticky else 0


def draining(subscription: Subscription) -> bool:
    """Whether keys change hands."""
    return isinstance(subscription.strategy, KeySharedDispatch) and bool(subscription.strategy.draining.slots)


def _all_sent(subscription: Subscription, backlog: int, state: DeliveryState) -> list[Finding]:
    """Nothing can be sent, whoever asks."""
    delayed = subscription.delayed_entries
    findings = []
    if delayed:
        findings.append(_delayed(delayed, state))
    dead = sum(map(len, subscription.state.redeliveries.dead.values()))
    sent = backlog - delayed - dead
    if sent > 0:
        text = f"Everything that is due was sent; {_entries(sent)} not acknowledged by the consumers."
        findings.insert(0 if sent > delayed else len(findings), Finding(Reason.SENT, text))
    if dead:
        letters = subscription.dead_letters
        error = "" if letters is None else letters.last_error
        often = f"{dead:,} entries that were redelivered too often wait"
        what = "1 entry that was redelivered too often waits" if dead == 1 else often
        text = f"{what} to be moved to the dead-letter topic"
        text = f"{text}: {error}." if error else f"{text}."
        findings.insert(0 if error else len(findings), Finding(Reason.DEAD_LETTERS, text))
    return findings or [Finding(Reason.DELIVERING, "Messages are being delivered.")]


def nothing_due(subscription: Subscription, state: DeliveryState) -> bool:
    """Whether all of its backlog waits for its delivery time, as far as was read: nobody would be sent anything now."""
    delayed, next_ms = subscription.delayed_entries, state.next_delayed_ms
    return 0 < delayed >= subscription.backlog_entries and (next_ms is None or next_ms > state.now_ms)


def _delayed(count: int, state: DeliveryState) -> Finding:
    until_ms, ttl_s, quota = state.next_delayed_ms, state.message_ttl_s, state.backlog_quota_bytes
    parts = [f"{count:,} delayed messages wait for their delivery time."]
    if count == 1:
        parts = ["1 delayed message waits for its delivery time."]
    if until_ms is not None:
        parts.append(f"The next is not due before {time_text(until_ms)}.")
    parts.append(f"The TTL expires what was stored {ttl_s} s ago, due or not." if ttl_s else "No TTL expires them.")
    if quota >= 0:
        parts.append(f"They count for the backlog quota of {counted(quota, 'byte')}.")
    return Finding(Reason.DELAYED, " ".join(parts), until_ms=until_ms)


def _on_the_way(at: Position, state: DeliveryState) -> list[Finding]:
    """Some consumer can be sent messages, and there are some."""
    if state.blocked_by is not None:
        return [Finding(Reason.RATE_LIMIT, rate_sentence(state.blocked_by, "Delivery is"), position=at)]
    if state.no_room:
        kept_bytes, most = state.delayed_bytes, state.delayed_bytes_max
        text = f"Reading stopped at a delayed message: {kept_bytes} bytes of memory are kept for the tenant, which may have {most}."
        return [Finding(Reason.NO_ROOM, text, position=at)]
    if state.draining:
        return [
            Finding(
                Reason.KEY_DRAINING,
                f"Key {key_wait.key!r} waits until consumer {key_wait.consumer!r} has acknowledged what it holds of it.",
                key_wait.consumer,
                key_wait.key,
                key_wait.position,
            )
            for key_wait in state.draining[:CONSUMERS_MAX]
        ]
    if state.reads_under_way:
        return [Finding(Reason.BACKLOG_READ, "The next messages are being read from disk.", position=at)]
    if state.reads_waiting:
        return [Finding(Reason.MEMORY, "Reading the next messages from disk waits for memory or its turn.", position=at)]
    return [Finding(Reason.DELIVERING, "Messages are being delivered.", position=at)]


def rate_sentence(limiter: LevelLimiter, what: str) -> str:
    """`what` is "Delivery is", say."""
    messages, size_bytes = limiter.limit
    amount = counted(messages, "message") if messages else counted(size_bytes, "byte")
    if messages and size_bytes:
        amount = ", ".join((counted(messages, "message"), counted(size_bytes, "byte")))
    return f"{what} at the limit of the {limiter.level}: {limiter.policy} allows {amount} a second."


def _entries(count: int) -> str:
    return "1 entry is" if count == 1 else f"{count:,} entries are"
