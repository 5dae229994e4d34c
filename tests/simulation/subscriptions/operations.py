"""What can happen to a subscription, one function each. To add one: write it, and give it a weight. It returns what it did, or ""
if it cannot be done now."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.subscription_type import DELAYING, SubscriptionType
from messaging.storage.ledger_store import EARLIEST, Position
from tests.simulation.subscriptions.blocks import Draft
from tests.simulation.subscriptions.client import sink_of
from tests.simulation.subscriptions.model import Fate
from tests.simulation.subscriptions.topic import Topic

KEYS = [f"key-{number}" for number in range(7)]
PRODUCERS = ("pa", "pb")
CONSUMERS_MAX = 4
BACKLOG_MAX = 250
SILENT_MS = 8_000

Perform = Callable[[Topic], str]


class Operation(NamedTuple):
    weight: int
    perform: Perform


OPERATIONS: dict[str, Operation] = {}


def operation(weight: int) -> Callable[[Perform], Perform]:
    def add(perform: Perform) -> Perform:
        OPERATIONS[getattr(perform, "__name__", "")] = Operation(weight, perform)
        return perform

    return add


def _consumer(topic: Topic) -> Consumer | None:
    consumers = topic.consumers
    return topic.random.choice(consumers) if consumers else None


def _some(topic: Topic, positions: list[Position]) -> list[Position]:
    return topic.random.sample(positions, topic.random.randint(1, len(positions))) if positions else []


def _open(topic: Topic) -> Position | None:
    positions = list(topic.model.open)
    return topic.random.choice(positions) if positions else None


@operation(weight=24)
def publish(topic: Topic) -> str:
    """A block of single messages and batches, some of them delayed in some blocks."""
    random = topic.random
    if len(topic.model.open) > BACKLOG_MAX:
        return ""
    delayed = random.random() < 0.2
    drafts = []
    for _ in range(random.randint(1, 8)):
        due_ms = topic.now_ms + random.randint(-1_000, 40_000) if delayed and random.random() < 0.5 else 0
        drafts.append(Draft(random.choice(PRODUCERS), random.choice(KEYS), random.choice((1, 1, 1, 2, 5)), due_ms))
    topic.publish(drafts)
    return f"{len(drafts)} entries{', some delayed' * delayed}"


@operation(weight=6)
def publish_chunks(topic: Topic) -> str:
    """Each message in one or two blocks, with others between them; one in four is never finished."""
    random = topic.random
    if len(topic.model.open) > BACKLOG_MAX:
        return ""
    topic.counts["messages"] += 1
    message, chunks = topic.counts["messages"], random.randint(2, 5)
    producer, key = random.choice(PRODUCERS), random.choice(KEYS)
    stored = random.randint(1, chunks - 1) if random.random() < 0.25 else chunks
    drafts = [Draft(producer, key, chunk=(message, chunk, chunks)) for chunk in range(stored)]
    between = random.randint(0, stored)
    for part in (drafts[:between], [Draft(random.choice(PRODUCERS), random.choice(KEYS))], drafts[between:]):
        if part:
            topic.publish(part)
    return f"{stored} of {chunks} chunks of message {message}"


@operation(weight=12)
def join(topic: Topic) -> str:
    if len(topic.consumers) >= (1 if topic.kind is SubscriptionType.EXCLUSIVE else CONSUMERS_MAX):
        return ""
    return topic.attach(priority=topic.random.choice((0, 0, 1))).name


@operation(weight=3)
def leave(topic: Topic) -> str:
    consumer = _consumer(topic)
    if consumer is None:
        return ""
    topic.detach(consumer)
    return consumer.name


@operation(weight=30)
def flow(topic: Topic) -> str:
    consumer = _consumer(topic)
    if consumer is None:
        return ""
    permits = topic.random.randint(1, 30)
    topic.flow(consumer, permits)
    return f"{consumer.name}: {permits}"


@operation(weight=4)
def stop_reading(topic: Topic) -> str:
    consumer = _consumer(topic)
    if consumer is None:
        return ""
    topic.readable(consumer, False)
    return consumer.name


@operation(weight=10)
def read_on(topic: Topic) -> str:
    consumer = next((consumer for consumer in topic.consumers if not sink_of(consumer).writable), None)
    if consumer is None:
        return ""
    topic.readable(consumer, True)
    return consumer.name


@operation(weight=30)
def acknowledge(topic: Topic) -> str:
    consumer = _consumer(topic)
    if consumer is None:
        return ""
    usable = topic.model.usable(topic.model.held_by(consumer), consumer)
    chosen = usable if topic.random.random() < 0.4 else topic.model.whole_messages(_some(topic, usable))
    if not chosen:
        return ""
    topic.acknowledge(consumer, chosen)
    return f"{consumer.name}: {len(chosen)}"


@operation(weight=2)
def acknowledge_anything(topic: Topic) -> str:
    """Also what others hold, or nobody."""
    position, consumer = _open(topic), _consumer(topic)
    if position is None or consumer is None or topic.model.entries[position].message:
        return ""
    topic.acknowledge(consumer, [position])
    return f"{consumer.name}: {position}"


@operation(weight=6)
def acknowledge_in_batch(topic: Topic) -> str:
    consumer = _consumer(topic)
    batches = [position for position in topic.model.held_by(consumer) if topic.model.entries[position].size > 1] if consumer else []
    if consumer is None or not batches:
        return ""
    position = topic.random.choice(batches)
    left = topic.random.randrange(1 << topic.model.entries[position].size)
    topic.acknowledge_part(consumer, position, left)
    return f"{consumer.name}: {position} but {left:b}"


@operation(weight=5)
def acknowledge_cumulatively(topic: Topic) -> str:
    consumer = topic.subscription.active
    usable = topic.model.usable(topic.model.held_by(consumer), consumer) if consumer else []
    if not usable:
        return ""
    position = topic.random.choice(usable)
    topic.acknowledge_up_to(position, Fate.ACKNOWLEDGED)
    return f"to {position}"


@operation(weight=12)
def redeliver(topic: Topic) -> str:
    consumer = _consumer(topic)
    unacked = topic.model.held_by(consumer) if consumer else []
    if consumer is None or not unacked:
        return ""
    chosen = topic.model.whole_messages(_some(topic, unacked)) if topic.random.random() < 0.7 else None
    topic.redeliver(consumer, chosen)
    return f"{consumer.name}: {'all' if chosen is None else len(chosen)}"


@operation(weight=1)
def seek(topic: Topic) -> str:
    """To the beginning, to an entry, or into a batch."""
    exist = list(topic.model.entries)
    to = topic.random.choice(exist) if exist and topic.random.random() < 0.8 else EARLIEST
    following = topic.model.entries.get(topic.ledger_list.next_after(to))
    words = 0
    if following is not None and following.size > 1 and topic.random.random() < 0.5:
        words = topic.random.randrange(1, (1 << following.size) - 1)
    topic.seek(to, words)
    return f"after {to}, {words:b}"


@operation(weight=1)
def skip(topic: Topic) -> str:
    position = _early(topic)
    if position is None:
        return ""
    topic.acknowledge_up_to(position, Fate.SKIPPED)
    return f"to {position}"


@operation(weight=1)
def evict(topic: Topic) -> str:
    """A backlog quota."""
    position = _early(topic)
    if position is None:
        return ""
    topic.acknowledge_up_to(position, Fate.EVICTED)
    return f"to {position}"


def _early(topic: Topic) -> Position | None:
    positions = list(topic.model.open)[:20]
    return topic.random.choice(positions) if positions else None


@operation(weight=2)
def change_ttl(topic: Topic) -> str:
    topic.ttl_ms = topic.random.choice((0, 0, 0, 30_000, 60_000))
    topic.dispatch()
    return f"{topic.ttl_ms} ms"


@operation(weight=5)
def expire(topic: Topic) -> str:
    """As maintenance does it: up to the last that has expired."""
    old = [position for position, entry in topic.model.open.items() if entry.stored_ms < topic.expired_before_ms]
    if not old:
        return ""
    topic.acknowledge_up_to(old[-1], Fate.EXPIRED)
    return f"to {old[-1]}"


@operation(weight=12)
def expire_chunks(topic: Topic) -> str:
    expired = topic.expire_chunks(SILENT_MS)
    return f"{len(expired)} chunks" if expired else ""


@operation(weight=10)
def pass_time(topic: Topic) -> str:
    time_ms = topic.random.choice((10, 10, 500, 3_000, topic.random.randint(0, 20_000)))
    topic.pass_time(time_ms)
    return f"{time_ms} ms"


@operation(weight=1)
def change_dead_letter_policy(topic: Topic) -> str:
    if topic.kind not in DELAYING or topic.moving:
        return ""
    topic.limit_redeliveries(topic.random.choice((None, 0, 1, 3)))
    return f"{topic.redeliver_max}"


@operation(weight=1)
def change_limits(topic: Topic) -> str:
    """Of unacknowledged messages; 0: none."""
    limits = topic.random.choice(((0, 0), (40, 70), (40, 70), (5, 6), (1, 2)))
    topic.limit_unacked(*limits)
    return f"{limits}"


@operation(weight=5)
def move_dead_letters(topic: Topic) -> str:
    """Begins, or ends: a crash may come between."""
    if topic.moving:
        topic.end_move()
        return "acknowledged"
    topic.begin_move(topic.random.randint(1, 5))
    return f"{len(topic.moving)}" if topic.moving else ""


@operation(weight=6)
def sync(topic: Topic) -> str:
    topic.sync()
    return "the cursor"


@operation(weight=4)
def trim(topic: Topic) -> str:
    """Ledgers in which everything is acknowledged are deleted, also between those in which something is not."""
    gone = topic.trim()
    return f"{len(gone)} ledgers" if gone else ""


@operation(weight=1)
def fill_disk(topic: Topic) -> str:
    """Or free it again: while it is full nothing is stored of the index of delayed messages."""
    topic.disk.full = not topic.disk.full and topic.random.random() < 0.5
    return "it is full" if topic.disk.full else "there is space"


@operation(weight=12)
def throw(topic: Topic) -> str:
    """Something raises in the next dispatch, if that comes so far."""
    topic.throw_at = topic.random.choice((topic.random.randrange(20), topic.random.randrange(100), topic.random.randrange(400)))
    return f"instead of call {topic.throw_at}"


@operation(weight=1)
def crash(topic: Topic) -> str:
    topic.crash()
    return "and start again"
