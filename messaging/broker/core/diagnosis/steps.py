"""Where each step of a subscription stands, in the order in which a message passes them. Pure.

What holds messages back is what `explain` has found, so the two cannot differ: a step is shut because of a finding, and what is
told of the others is read from the same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.diagnosis.explain import (
    DeliveryState,
    Finding,
    Reason,
    draining,
    receivers,
    unowned_ranges,
    why_not_sent,
)
from messaging.broker.core.dispatch.key_shared import KeySharedDispatch
from messaging.broker.core.dispatch.unacked import UNLIMITED
from messaging.broker.core.limits.rate_limits import LevelLimiter
from messaging.broker.core.non_persistent import NonPersistentSubscription
from messaging.broker.core.subscription import Subscription
from messaging.broker.core.subscription_type import TYPE_NAMES
from messaging.problems.steps import Facts, Step, StepState

WHO_MAX = 20  # of which a step tells the names

STEPS_OF: Mapping[Reason, Step] = {
    Reason.CLOSING: Step.TOPIC,
    Reason.FENCED: Step.SUBSCRIPTION,
    Reason.FAILED: Step.SUBSCRIPTION,
    Reason.NOTHING: Step.BACKLOG,
    Reason.NO_CONSUMER: Step.CONSUMER,
    Reason.SENT: Step.ACKNOWLEDGEMENT,
    Reason.DELAYED: Step.DELAY,
    Reason.DEAD_LETTERS: Step.DEAD_LETTERS,
    Reason.NO_PERMITS: Step.PERMITS,
    Reason.NOT_READING: Step.CONNECTION,
    Reason.CONSUMER_LIMIT: Step.CONSUMER_UNACKED,
    Reason.SUBSCRIPTION_LIMIT: Step.SUBSCRIPTION_UNACKED,
    Reason.NO_ROOM: Step.READING,
    Reason.MEMORY: Step.READING,
    Reason.BACKLOG_READ: Step.READING,
    Reason.KEY_DRAINING: Step.KEYS,
    Reason.KEY_UNOWNED: Step.KEYS,
    Reason.RATE_LIMIT: Step.DISPATCH_RATE,
}


class StepLook(NamedTuple):
    """`code` and `facts`: of the text, in `messaging.problems.steps`. `who`: names of producers or consumers. `since_ms` None: it
    is not known, or says nothing."""

    step: Step
    state: StepState
    code: str
    facts: Facts = {}
    who: Sequence[str] = ()
    since_ms: int | None = None


def delivery_steps(
    subscription: Subscription, state: DeliveryState, findings: Sequence[Finding], idle_since_ms: int | None
) -> list[StepLook]:
    """`findings`: of `explain` in this state. `idle_since_ms`: when its last consumer left."""
    first = findings[0].reason
    return [
        _subscription(subscription, state),
        _backlog(subscription),
        _expiry(subscription, state),
        _consumer(subscription, idle_since_ms, state.now_ms),
        _active(subscription),
        _delay(subscription, state, first),
        _dispatch_rate(subscription, state),
        _reading(state, first),
        _keys(subscription, first),
        *_of_consumers(subscription),
        _subscription_unacked(subscription),
        _acknowledgement(subscription, first),
        _redelivery(subscription),
        _dead_letters(subscription, first),
    ]


def held_at(findings: Sequence[Finding], publishing: Iterable[StepLook]) -> str:
    """The step at which messages stop; "": at none. Where there is nothing to deliver, that may be one before."""
    step = STEPS_OF.get(findings[0].reason)
    if step is Step.BACKLOG:
        return next((look.step for look in publishing if look.state is StepState.SHUT), step)
    return step or ""


def names_of(members: Iterable[Consumer]) -> list[str]:
    return [consumer.name for consumer in members][:WHO_MAX]


def limit_facts(limiter: LevelLimiter) -> Facts:
    amounts = {"limit_messages": limiter.limit.messages, "limit_bytes": limiter.limit.size_bytes}
    return {"level": str(limiter.level), "policy": limiter.policy} | {name: amount for name, amount in amounts.items() if amount}


def _subscription(subscription: Subscription, state: DeliveryState) -> StepLook:
    step, shut = Step.SUBSCRIPTION, StepState.SHUT
    if subscription.fenced:
        return StepLook(step, shut, "subscription.fenced")
    if state.failures:
        return StepLook(step, shut, "subscription.failed", {"failures": state.failures})
    if subscription.recovering:
        return StepLook(step, shut, "subscription.recovering")
    if not subscription.typed:
        return StepLook(step, StepState.OPEN, "subscription.untyped")
    return StepLook(step, StepState.OPEN, "subscription.open", {"type": TYPE_NAMES[subscription.kind]})


def _backlog(subscription: Subscription) -> StepLook:
    if isinstance(subscription, NonPersistentSubscription):
        dropped = subscription.messages_dropped
        return StepLook(Step.BACKLOG, StepState.SLOWS if dropped else StepState.OPEN, "backlog.dropping", {"dropped": dropped})
    entries, mark = subscription.backlog_entries, subscription.cursor.mark_delete
    if not entries:
        return StepLook(Step.BACKLOG, StepState.NONE, "backlog.empty")
    facts: Facts = {"entries": entries, "mark_delete": f"{mark.ledger_id}:{mark.entry_id}"}
    return StepLook(Step.BACKLOG, StepState.OPEN, "backlog.waiting", facts)


def _expiry(subscription: Subscription, state: DeliveryState) -> StepLook:
    if not state.message_ttl_s:
        return StepLook(Step.EXPIRY, StepState.NONE, "expiry.none")
    facts = {"ttl_s": state.message_ttl_s}
    if not subscription.entries_expired:
        return StepLook(Step.EXPIRY, StepState.OPEN, "expiry.set", facts)
    facts |= {"expired": subscription.entries_expired, "last_ms": subscription.last_expired_ms}
    return StepLook(Step.EXPIRY, StepState.SLOWS, "expiry.expired", facts)


def _consumer(subscription: Subscription, idle_since_ms: int | None, now_ms: int) -> StepLook:
    members, refused = subscription.consumers, subscription.refused
    if refused.is_recent(now_ms):
        times = {"first_ms": refused.first_ms, "last_ms": refused.last_ms}
        facts: Facts = {"consumers": len(members), "refused": refused.times, **times, "why": refused.why.rstrip(".")}
        held = StepState.SLOWS if members else StepState.SHUT
        return StepLook(Step.CONSUMER, held, "consumer.refused", facts, names_of(members), None if members else idle_since_ms)
    if not members:
        return StepLook(Step.CONSUMER, StepState.SHUT, "consumer.nobody", since_ms=idle_since_ms)
    newest_ms = max(consumer.connected_ms for consumer in members)
    facts = {"consumers": len(members)}
    return StepLook(Step.CONSUMER, StepState.OPEN, "consumer.connected", facts, names_of(members), newest_ms)


def _active(subscription: Subscription) -> StepLook:
    step, active = Step.ACTIVE_CONSUMER, subscription.active
    if not subscription.consumers:
        return StepLook(step, StepState.UNKNOWN, "unknown")
    if active is None:
        return StepLook(step, StepState.NONE, "active_consumer.none")
    standby = [consumer for consumer in subscription.consumers if consumer is not active]
    if not standby:
        return StepLook(step, StepState.OPEN, "active_consumer.only", {"name": active.name})
    facts: Facts = {"name": active.name, "standby": len(standby)}
    return StepLook(step, StepState.OPEN, "active_consumer.standby", facts, names_of(standby))


def _delay(subscription: Subscription, state: DeliveryState, first: Reason) -> StepLook:
    entries = subscription.delayed_entries
    if not entries:
        ignored = bool(subscription.consumers) and not subscription.delays
        return StepLook(Step.DELAY, StepState.NONE, "delay.ignored" if ignored else "delay.none")
    held = StepState.SHUT if first is Reason.DELAYED else StepState.SLOWS
    if state.next_delayed_ms is None:
        return StepLook(Step.DELAY, held, "delay.waiting", {"entries": entries})
    return StepLook(Step.DELAY, held, "delay.until", {"entries": entries, "next_ms": state.next_delayed_ms})


def _dispatch_rate(subscription: Subscription, state: DeliveryState) -> StepLook:
    limiter = state.blocked_by
    if limiter is None:
        return StepLook(Step.DISPATCH_RATE, StepState.NONE, "dispatch_rate.none")
    facts = limit_facts(limiter)
    drops = isinstance(subscription, NonPersistentSubscription)
    return StepLook(Step.DISPATCH_RATE, StepState.SLOWS, "dispatch_rate.dropping" if drops else "dispatch_rate.waiting", facts)


def _reading(state: DeliveryState, first: Reason) -> StepLook:
    step = Step.READING
    if state.no_room:
        held = StepState.SHUT if first is Reason.NO_ROOM else StepState.SLOWS
        return StepLook(step, held, "reading.no_room", {"used_bytes": state.delayed_bytes, "most_bytes": state.delayed_bytes_max})
    if state.reads_under_way:
        return StepLook(step, StepState.SLOWS, "reading.backlog")
    if state.reads_waiting:
        return StepLook(step, StepState.SLOWS, "reading.memory")
    return StepLook(step, StepState.OPEN, "reading.open")


def _keys(subscription: Subscription, first: Reason) -> StepLook:
    step, held = Step.KEYS, StepState.SLOWS
    if not subscription.consumers:
        return StepLook(step, StepState.UNKNOWN, "unknown")
    if not isinstance(subscription.strategy, KeySharedDispatch):
        return StepLook(step, StepState.NONE, "keys.none")
    if first in (Reason.KEY_DRAINING, Reason.KEY_UNOWNED):
        held = StepState.SHUT
    if draining(subscription):
        slots = subscription.strategy.draining.slots.values()
        return StepLook(step, held, "keys.draining", who=names_of(dict.fromkeys(slot.former for slot in slots)))
    if ranges := unowned_ranges(subscription):
        return StepLook(step, held, "keys.unowned", {"ranges": ranges})
    if waiting := subscription.state.redeliveries.waiting_entries:
        return StepLook(step, held, "keys.waiting", {"entries": waiting})
    return StepLook(step, StepState.OPEN, "keys.open")


def _of_consumers(subscription: Subscription) -> list[StepLook]:
    """What each consumer that is sent messages decides. One that cannot take any is counted at one step."""
    steps = (Step.CONNECTION, Step.PERMITS, Step.CONSUMER_UNACKED)
    members = receivers(subscription)
    if not members:
        return [StepLook(step, StepState.UNKNOWN, "unknown") for step in steps]
    limit = subscription.unacked.consumer_max
    stuck: dict[Step, list[Consumer]] = {step: [] for step in steps}
    for consumer in members:
        if (finding := why_not_sent(consumer, None)) is not None:
            stuck[STEPS_OF[finding.reason]].append(consumer)
    looks = []
    for step, held in stuck.items():
        facts = {"stuck": len(held), "consumers": len(members)} | ({"most": limit} if step is Step.CONSUMER_UNACKED else {})
        if held:
            held_state = StepState.SHUT if len(held) == len(members) else StepState.SLOWS
            since_ms = None if step is Step.CONNECTION else max(max(one.last_consumed_ms, one.connected_ms) for one in held)
            looks.append(StepLook(step, held_state, f"{step}.some", facts, names_of(held), since_ms))
        elif step is Step.CONSUMER_UNACKED and limit == UNLIMITED:
            looks.append(StepLook(step, StepState.NONE, "consumer_unacked.none"))
        else:
            looks.append(StepLook(step, StepState.OPEN, f"{step}.open", facts))
    return looks


def _subscription_unacked(subscription: Subscription) -> StepLook:
    step, unacked = Step.SUBSCRIPTION_UNACKED, subscription.unacked
    if unacked.subscription_max == UNLIMITED:
        return StepLook(step, StepState.NONE, "subscription_unacked.none")
    facts = {"unacked": unacked.messages, "most": unacked.subscription_max}
    if not unacked.blocked:
        return StepLook(step, StepState.OPEN, "subscription_unacked.open", facts)
    since_ms = max((consumer.last_consumed_ms for consumer in subscription.consumers), default=0)
    return StepLook(step, StepState.SHUT, "subscription_unacked.full", facts, since_ms=since_ms or None)


def _acknowledgement(subscription: Subscription, first: Reason) -> StepLook:
    holders = [consumer for consumer in subscription.consumers if subscription.unacked_of(consumer)]
    entries = subscription.backlog_entries
    if not holders or not entries:
        return StepLook(Step.ACKNOWLEDGEMENT, StepState.OPEN, "acknowledgement.open")
    held = sum(sum(map(len, consumer.held.values())) or subscription.unacked_of(consumer) for consumer in holders)
    facts, last_ms = {"entries": min(held, entries)}, max(one.last_acked_ms for one in holders)
    state = StepState.SHUT if first is Reason.SENT else StepState.SLOWS
    if not last_ms:
        connected_ms = min(one.connected_ms for one in holders)
        return StepLook(Step.ACKNOWLEDGEMENT, state, "acknowledgement.never", facts, names_of(holders), connected_ms)
    # Others may be acknowledged all the time: since when one of these is not, that does not tell.
    return StepLook(Step.ACKNOWLEDGEMENT, state, "acknowledgement.held", facts | {"last_ms": last_ms}, names_of(holders))


def _redelivery(subscription: Subscription) -> StepLook:
    dispatch = subscription.state
    never_sent = sum(map(len, dispatch.set_aside.values()))
    if again := max(0, dispatch.redeliveries.waiting_entries - never_sent):
        return StepLook(Step.REDELIVERY, StepState.OPEN, "redelivery.waiting", {"entries": again})
    return StepLook(Step.REDELIVERY, StepState.NONE, "redelivery.none")


def _dead_letters(subscription: Subscription, first: Reason) -> StepLook:
    step, letters = Step.DEAD_LETTERS, subscription.dead_letters
    if letters is None:
        return StepLook(step, StepState.NONE, "dead_letters.none")
    waiting, target = subscription.state.redeliveries.dead_entries, letters.policy.target
    if not waiting:
        facts: Facts = {"count": letters.policy.max_redeliver_count, "target": target, "moved": letters.moved_messages}
        return StepLook(step, StepState.SLOWS if letters.moved_messages else StepState.OPEN, "dead_letters.open", facts)
    held = StepState.SHUT if first is Reason.DEAD_LETTERS else StepState.SLOWS
    if letters.last_error:
        facts = {"entries": waiting, "target": target, "why": letters.last_error}
        return StepLook(step, held, "dead_letters.failing", facts)
    return StepLook(step, held, "dead_letters.waiting", {"entries": waiting, "target": target})
