"""Operations: delayed messages are cancelled and rescheduled."""

from __future__ import annotations

from messaging.storage.ledger_store import Position
from tests.simulation.subscriptions.operations import operation
from tests.simulation.subscriptions.topic import Topic


@operation(weight=4)
def cancel(topic: Topic) -> str:
    """Delayed messages, whether they are due or not."""
    positions = [position for position in _delayed(topic) if topic.may_change(position) and topic.random.random() < 0.3]
    topic.cancel(positions)
    return f"{len(positions)}" if positions else ""


@operation(weight=4)
def reschedule(topic: Topic) -> str:
    positions = [position for position in _delayed(topic) if topic.may_change(position)]
    if not positions:
        return ""
    position, at_ms = topic.random.choice(positions), topic.now_ms + topic.random.randint(-1_000, 20_000)
    topic.reschedule(position, at_ms)
    return f"{position} to {at_ms}"


def _delayed(topic: Topic) -> list[Position]:
    """Of the backlog; no chunks, which are changed together."""
    return [position for position, entry in topic.model.open.items() if entry.due_ms and not entry.message]
