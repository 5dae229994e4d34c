"""What must hold of each delivery. To add a rule: write a function that returns what is wrong, or "", and list it."""

from __future__ import annotations

from collections.abc import Callable

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription_type import DELAYING, SubscriptionType
from tests.simulation.checker import Violated
from tests.simulation.subscriptions.client import sink_of
from tests.simulation.subscriptions.dispatched import DispatchedTopic
from tests.simulation.subscriptions.model import Entry

Rule = Callable[[DispatchedTopic, Consumer, Entry, int], str]


def is_in_the_backlog(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    fate = topic.model.fates.get(entry.position)
    return f"which was {fate}" if fate else ""


def has_permits(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    """All chunks of a message follow its first."""
    sink = sink_of(consumer)
    if not sink.writable:
        return "though it does not read"
    return "without permits" if sink.permits <= 0 and not entry.message else ""


def is_with_nobody(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    whom = topic.model.with_whom.get(entry.position)
    return f"while {whom.name} holds it" if whom else ""


def has_not_expired(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    return "which had expired" if entry.stored_ms < topic.expired_before_ms else ""


def is_due(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    early_ms = entry.due_ms - topic.policy.cutoff_ms(topic.now_ms)
    return f"{early_ms} ms too early" if topic.kind in DELAYING and early_ms > 0 else ""


def is_counted(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    """Clients of a single reader are told no redelivery counts."""
    expected = topic.model.asked_again.get(entry.position, 0) if topic.subscription.active is None else 0
    return f"with redelivery count {count} instead of {expected}" if count != expected else ""


def is_not_dead(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    return "which is a dead letter" if topic.redeliver_max is not None and count > topic.redeliver_max else ""


def is_to_the_active_consumer(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    active = topic.subscription.active
    return f"while {active.name} is active" if active is not None and active is not consumer else ""


def is_the_next(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    """A single reader: everything that is open, in order, nothing left out."""
    if topic.subscription.active is None:
        return ""
    reached = topic.model.reached
    expected = next(position for position in topic.model.open if reached is None or position > reached)
    return f"instead of {expected}" if entry.position != expected else ""


def keeps_its_producers_order(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    before = topic.model.numbers.get(entry.producer, 0)
    return f"number {entry.number} of {entry.producer} after its number {before}" if entry.number <= before else ""


def keeps_the_order_of_its_key(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    """Delayed messages come when they are due."""
    if topic.kind is not SubscriptionType.KEY_SHARED or entry.due_ms:
        return ""
    for position, other in topic.model.open.items():
        if position >= entry.position:
            return ""
        if other.key == entry.key and not other.due_ms and undelivered(topic, other):
            return f"of {entry.key} before {position}"
    return ""


def has_its_key_to_itself(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    if topic.kind is not SubscriptionType.KEY_SHARED:
        return ""
    for position, whom in topic.model.with_whom.items():
        if whom is not consumer and topic.model.entries[position].key == entry.key:
            return f"of {entry.key} while {whom.name} holds {position}"
    return ""


def follows_its_chunks(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> str:
    """All chunks that are held of a message are with one consumer."""
    if not entry.message:
        return ""
    for position in topic.model.messages[entry.message][1]:
        whom = topic.model.with_whom.get(position)
        if whom is not None and whom is not consumer:
            return f"a chunk, while {whom.name} holds chunk {position} of the same message"
    return ""


RULES: tuple[Rule, ...] = (
    is_in_the_backlog,
    has_permits,
    is_with_nobody,
    has_not_expired,
    is_due,
    is_counted,
    is_not_dead,
    is_to_the_active_consumer,
    is_the_next,
    keeps_its_producers_order,
    keeps_the_order_of_its_key,
    has_its_key_to_itself,
    follows_its_chunks,
)


def undelivered(topic: DispatchedTopic, entry: Entry) -> bool:
    """Whether an open entry is with nobody and could be sent to somebody."""
    position = entry.position
    if position in topic.model.with_whom or entry.stored_ms < topic.expired_before_ms:
        return False
    return not topic.subscription.state.redeliveries.is_dead(position)


def check(topic: DispatchedTopic, consumer: Consumer, entry: Entry, count: int) -> None:
    for rule in RULES:
        if wrong := rule(topic, consumer, entry, count):
            raise Violated(f"{consumer.name} was sent {entry.position} {wrong} ({rule.__name__})")
