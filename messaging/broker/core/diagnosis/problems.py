"""What is wrong with a subscription or a topic, for lists of problems and the marks in all others. Pure.

Each sign is something that a person should know of without having looked there. What is true of a moment is no sign:
`judge_delivery` waits until nothing has moved for a while, and so does what is judged here.
"""

from __future__ import annotations

from typing import NamedTuple

from messaging.broker.core.diagnosis.delivery_health import DeliveryHealth, Verdict, blocked_for_ms, still_ms
from messaging.broker.core.diagnosis.explain import REMEDIES, DeliveryState, Reason, nothing_due, rate_sentence
from messaging.broker.core.limits.rate_limits import LevelLimiter
from messaging.broker.core.subscription import Subscription
from messaging.problems.kinds import Kind
from messaging.times import time_text

ABANDONED_MS = 10_000  # a consumer that comes back sooner was only deployed anew
LATE_MS = 30_000  # after the delivery time of a delayed message
UNACKNOWLEDGED_MS = 600_000  # what takes longer than that to be handled is rare
REJECTED_TIMES = 8  # a power of two; of what is sent again so often and more it is told
GROWING_MS = 600_000  # since the last dead letter
DEAD_LETTER_ENDING = "-DLQ"  # of the topics that clients make for their dead letters
_PASSING = frozenset({Reason.CLOSING, Reason.FENCED})


class Sign(NamedTuple):
    """`since_ms` None: since it is noticed."""

    kind: Kind
    sentence: str
    remedy: str = ""
    since_ms: int | None = None
    waiting: int = 0
    target: str = ""  # where dead letters go


def is_quiet(subscription: Subscription) -> bool:
    """Whether nothing can be wrong with it, at a glance. Not for those of non-persistent topics."""
    letters = subscription.dead_letters
    return not subscription.backlog_entries and (letters is None or not letters.last_moved_ms)


def signs_of_subscription(
    subscription: Subscription, state: DeliveryState, verdict: Verdict, *, grows: bool, idle_since_ms: int
) -> list[Sign]:
    """`verdict`: of `judge_delivery` in this state. `grows`: its backlog does. `idle_since_ms`: when its last consumer left."""
    now_ms, backlog = state.now_ms, subscription.backlog_entries
    finding, signs = verdict.finding, list[Sign]()
    if finding.reason in _PASSING:
        return []
    if finding.reason is Reason.FAILED:
        signs.append(Sign(Kind.DISPATCH_FAILED, finding.sentence, finding.remedy, waiting=backlog))
    elif verdict.health is DeliveryHealth.BLOCKED:
        signs.append(Sign(Kind.BLOCKED, finding.sentence, finding.remedy, now_ms - blocked_for_ms(subscription, now_ms), backlog))
    elif verdict.health is DeliveryHealth.ABANDONED and subscription.durable:
        if not nothing_due(subscription, state):  # whoever consumes may come when there is something
            signs += signs_of_abandoned(backlog, idle_since_ms, now_ms)
    elif finding.reason is Reason.NO_ROOM:
        signs.append(Sign(Kind.DELAYED_LATE, finding.sentence, finding.remedy, waiting=subscription.delayed_entries))
    elif subscription.consumers and subscription.delayed_entries and 0 < (state.next_delayed_ms or 0) < now_ms - LATE_MS:
        due_ms = state.next_delayed_ms or 0
        text = f"Delayed messages were due at {time_text(due_ms)} and were not sent."
        signs.append(Sign(Kind.DELAYED_LATE, text, "look at the broker's log", due_ms, subscription.delayed_entries))
    elif finding.reason is Reason.SENT and (unmoved_ms := still_ms(subscription, now_ms)) >= UNACKNOWLEDGED_MS:
        signs.append(Sign(Kind.UNACKNOWLEDGED, finding.sentence, finding.remedy, now_ms - unmoved_ms, backlog))
    elif often := rejected_often(subscription):
        remedy = "find out why consumers reject them, or take too long; a dead-letter policy moves such messages aside"
        signs.append(Sign(Kind.UNACKNOWLEDGED, often_sentence(often), remedy, waiting=backlog))
    if grows and subscription.consumers and verdict.health is DeliveryHealth.GOOD:
        text = f"The backlog grows although consumers are connected; {_entries(backlog)} not acknowledged."
        remedy = "add consumers, or find out what slows them down"
        signs.append(Sign(Kind.FALLING_BEHIND, text, remedy, waiting=backlog))
    if state.blocked_by is not None:
        remedy = REMEDIES[Reason.RATE_LIMIT]
        signs.append(Sign(Kind.DISPATCH_THROTTLED, rate_sentence(state.blocked_by, "Delivery is"), remedy, waiting=backlog))
    return [*signs, *_signs_of_dead_letters(subscription, now_ms)]


def rejected_often(subscription: Subscription) -> int:
    """How many entries are sent again and again; 0 where a dead-letter policy ends that."""
    redeliveries = subscription.state.redeliveries
    return redeliveries.counts.entries_from(REJECTED_TIMES.bit_length() - 1) if redeliveries.count_max is None else 0


def often_sentence(entries: int) -> str:
    what = "1 entry was" if entries == 1 else f"{entries:,} entries were"
    return f"{what} sent again {REJECTED_TIMES} times and more, and no consumer acknowledges that."


def signs_of_abandoned(backlog: int, idle_since_ms: int | None, now_ms: int) -> list[Sign]:
    """Of a durable subscription without consumers. `idle_since_ms` None: unknown."""
    if not backlog or (idle_since_ms is not None and now_ms - idle_since_ms < ABANDONED_MS):
        return []
    text = f"No consumer is connected, and {_entries(backlog)} not acknowledged."
    return [Sign(Kind.NO_CONSUMER, text, REMEDIES[Reason.NO_CONSUMER], idle_since_ms, backlog)]


def _signs_of_dead_letters(subscription: Subscription, now_ms: int) -> list[Sign]:
    letters = subscription.dead_letters
    if letters is None:
        return []
    waiting, target = subscription.state.redeliveries.dead_entries, letters.policy.target
    if waiting and letters.last_error:
        text = f"{_entries(waiting)} to be moved to {target or 'the dead-letter topic'}, which fails: {letters.last_error}"
        return [Sign(Kind.DEAD_LETTERS_STUCK, text, REMEDIES[Reason.DEAD_LETTERS], None, waiting, target)]
    if letters.last_moved_ms and now_ms - letters.last_moved_ms < GROWING_MS:
        count = letters.moved_messages
        moved = "1 message was" if count == 1 else f"{count:,} messages were"
        text = f"{moved} moved to {target or 'the dead-letter topic'} since the topic was loaded."
        return [Sign(Kind.DEAD_LETTERS, text, "find out why consumers reject them, then redrive them", target=target)]
    return []


def signs_of_topic(
    *, held: str, throttled_by: LevelLimiter | None, name: str, last_published_ms: int, producers: int, unread: bool, now_ms: int
) -> list[Sign]:
    """`held`: why producers are refused, "" if they are not. `throttled_by`: the limit for which messages wait to be published.
    `name` is the base name's last part. `unread`: nothing keeps what is published, neither a subscription nor retention."""
    signs = []
    if held:
        why, _, remedy = held.rpartition(": ")
        signs.append(Sign(Kind.PRODUCERS_HELD, f"{why[:1].upper()}{why[1:]}.", remedy))
    if throttled_by is not None:
        remedy = "wait: everything is published, at the rate of the limit; or raise the limit"
        signs.append(Sign(Kind.PUBLISH_THROTTLED, rate_sentence(throttled_by, "Publishing is"), remedy))
    # What a subscription's policy moves has no producer; it shows at the subscription.
    if name.endswith(DEAD_LETTER_ENDING) and producers and 0 <= now_ms - last_published_ms < GROWING_MS:
        text = "Clients sent dead letters here within the last ten minutes."
        signs.append(Sign(Kind.DEAD_LETTERS, text, "find out why consumers reject them, then redrive them"))
    if unread and last_published_ms and (producers or now_ms - last_published_ms < GROWING_MS):
        text = "No subscription and no retention keep what is published here: messages may be deleted at any time."
        signs.append(Sign(Kind.UNREAD, text, "create a subscription, or set a retention policy"))
    return signs


def _entries(count: int) -> str:
    return "1 entry is" if count == 1 else f"{count:,} entries are"
