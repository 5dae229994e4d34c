"""What must hold of the whole. To add one: write a function that returns what is wrong, or "", and list it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.dispatch import recovery
from messaging.broker.core.dispatch.holding import ready
from messaging.broker.core.dispatch.key_shared import KeySharedDispatch
from messaging.broker.core.dispatch.selectors.selector import owner_of, slot_of
from messaging.broker.core.subscription_type import DELAYING
from messaging.storage.ledger_store import Position
from tests.simulation.checker import Violated
from tests.simulation.subscriptions.client import sink_of
from tests.simulation.subscriptions.model import Entry, Fate, Model
from tests.simulation.subscriptions.topic import Topic

Invariant = Callable[[Topic], str]


def everything_is_accounted_for(topic: Topic) -> str:
    """sent = acknowledged + expired + skipped + evicted + dead-lettered + cancelled + backlog"""
    model = topic.model
    gone = Counter(model.fates.values()) + model.dropped
    backlog = topic.subscription.backlog_entries
    if model.sent != gone.total() + backlog:
        told = ", ".join(f"{gone[fate]} {fate}" for fate in Fate)
        return f"{model.sent} were sent; {told}; {backlog} are the backlog"
    return ""


def what_is_acknowledged_stays_so(topic: Topic) -> str:
    """And nothing else is."""
    cursor = topic.subscription.cursor
    for position in topic.model.entries:
        fate = topic.model.fates.get(position)
        if cursor.acknowledged(position) != (fate is not None):
            return f"{position} is {fate or 'open'}, and for the cursor it is {'not ' if fate else ''}acknowledged"
    batches = {position: topic.model.left[position] for position in topic.model.left}
    open_bits = {position: cursor.batches.bits(position) for position in batches}
    return f"of batches {open_bits} are open instead of {batches}" if open_bits != batches else ""


def dead_letters_are_moved_once(topic: Topic) -> str:
    twice = [position for position, times in topic.model.target.items() if times > 1]
    left = [position for position in topic.model.target if position in topic.model.open and position not in topic.moving]
    return f"{twice} came to the dead letters twice, {left} are in the backlog still" if twice or left else ""


def clients_and_consumers_agree(topic: Topic) -> str:
    """On permits, and on what is held."""
    model, unacked = topic.model, Counter[int]()
    for position, whom in model.with_whom.items():
        unacked[whom.consumer_id] += model.unacked_in(model.entries[position])
    for consumer in topic.subscription.consumers:
        if consumer.permits != sink_of(consumer).permits:
            return f"{consumer.name} has {consumer.permits} permits; its client gave {sink_of(consumer).permits}"
        if topic.subscription.active is None and consumer.unacked_messages != unacked[consumer.consumer_id]:
            return f"{consumer.name} holds {unacked[consumer.consumer_id]} messages and is said to hold {consumer.unacked_messages}"
    return ""


def limits_wedge_nobody(topic: Topic) -> str:
    """Who is held at a limit has something to acknowledge: parts of messages are not."""
    model = topic.model
    unacked = topic.subscription.unacked
    if unacked.messages != sum(consumer.unacked_messages for consumer in topic.subscription.consumers):
        return f"{unacked.messages} messages are said to be held by all"
    empty = [
        consumer
        for consumer in topic.subscription.consumers
        if not any(_could_acknowledge(model, it) for it in model.held_by(consumer))
    ]
    wedged = [consumer.name for consumer in empty if consumer.blocked]
    all_wedged = unacked.blocked and len(empty) == len(topic.subscription.consumers)
    return f"{wedged or 'all'} are held back and hold nothing that they could acknowledge" if wedged or all_wedged else ""


def _could_acknowledge(model: Model, position: Position) -> bool:
    """Its consumer has the whole message, or had it before somebody skipped a part of it."""
    message, whom = model.entries[position].message, model.with_whom[position]
    chunks, positions = model.messages.get(message, (1, [position]))
    return len(positions) == chunks and all(
        position not in model.open or model.with_whom.get(position) is whom for position in positions
    )


def nobody_waits_for_what_could_be_sent(topic: Topic) -> str:
    """Permits and messages find each other; but where more is delayed than can be stored, reading waits at it."""
    subscription = topic.subscription
    if subscription.unacked.blocked or topic.index.full or not any(ready(consumer) for consumer in subscription.consumers):
        return ""
    strategy = subscription.strategy
    if isinstance(strategy, KeySharedDispatch):
        return _key_that_waits(topic, strategy)
    if subscription.active is not None and not ready(subscription.active):
        return ""
    waiting = next((entry for position, entry in topic.model.open.items() if _could_be_sent(topic, entry)), None)
    if waiting is None:
        return ""
    with_permits = [consumer.name for consumer in subscription.consumers if ready(consumer)]
    return f"{waiting.position} is sent to nobody, and {with_permits} have permits"


def _could_be_sent(topic: Topic, entry: Entry) -> bool:
    position, model = entry.position, topic.model
    if position in model.with_whom or topic.subscription.state.redeliveries.is_dead(position):
        return False
    if topic.subscription.active is not None and model.reached is not None and position <= model.reached:
        return False
    if _follows_one_that_does_not_read(topic, entry):
        return False
    return topic.kind not in DELAYING or entry.due_ms + topic.policy.resolution_ms <= topic.policy.cutoff_ms(topic.now_ms)


def _follows_one_that_does_not_read(topic: Topic, entry: Entry) -> bool:
    """A chunk waits for the consumer that has the chunks before it."""
    model = topic.model
    positions = model.messages[entry.message][1] if entry.message else []
    holders = [model.with_whom[position] for position in positions if position in model.with_whom]
    return any(not holder.sink.writable for holder in holders)


def _key_that_waits(topic: Topic, strategy: KeySharedDispatch) -> str:
    first: dict[str, Position] = {}
    for position, entry in topic.model.open.items():
        if entry.key not in first and _could_be_sent(topic, entry):
            first[entry.key] = position
    holders: dict[str, set[Consumer]] = {}
    for position, whom in topic.model.with_whom.items():
        holders.setdefault(topic.model.entries[position].key, set()).add(whom)
    room = strategy.waiting.set_aside < topic.look_ahead * len(topic.subscription.consumers)
    for key, position in first.items():
        block = topic.model.entries[position].block
        slot = slot_of(strategy.selector, block.key_hashes[position.entry_id - block.first_entry])
        owner = owner_of(strategy.selector.slot_map(), slot)
        if owner is None or not ready(owner) or holders.get(key, set()) - {owner}:
            continue
        if room or not (strategy.waiting.is_unknown(*position) or _is_read_next(topic, position)):
            return f"{position} of {key} could be sent to {owner.name}"
    return ""


def _is_read_next(topic: Topic, position: Position) -> bool:
    """What is far ahead, or delayed and due after one that is due already and has no room to wait."""
    state = topic.subscription.state
    if position >= topic.subscription.read_position:
        return True
    due = state.delayed.due if state.delayed is not None else {}
    return position.entry_id in due.get(position.ledger_id, ()) and position != state.next_position()


def nothing_is_forgotten(topic: Topic) -> str:
    """Whatever reading has passed is somewhere, where consumers take turns."""
    if topic.subscription.active is not None or not topic.subscription.consumers:
        return ""
    forgotten = recovery.forgotten(topic.subscription.state)
    return f"{forgotten} is with nobody, and will be sent to nobody" if forgotten else ""


AFTER_EVERY_STEP: tuple[Invariant, ...] = (
    nothing_is_forgotten,
    everything_is_accounted_for,
    dead_letters_are_moved_once,
    clients_and_consumers_agree,
    limits_wedge_nobody,
    nobody_waits_for_what_could_be_sent,
)
NOW_AND_THEN: tuple[Invariant, ...] = (what_is_acknowledged_stays_so,)


def require(topic: Topic, invariants: tuple[Invariant, ...]) -> None:
    topic.follow_taken_chunks()
    for invariant in invariants:
        if wrong := invariant(topic):
            raise Violated(f"{wrong} ({invariant.__name__})")
