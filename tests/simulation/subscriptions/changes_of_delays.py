"""Operations: delayed messages are cancelled and rescheduled."""

from __future__ import annotations

from messaging.storage.ledger_store import Position
from tests.simulation.subscriptions.operations import operation
from tests.simulation.subscriptions.topic import Topic


@operation(weight=4)
def cancel(topic: Topic) -> str:
    """Delayed messages, whether they are due or not."""
    found = [one for one in _delayed(topic) if topic.may_change(one) and topic.random.random() < 0.3]
    topic.cancel(found)
    return f"{len(found)}" if found else ""


@operation(weight=4)
def reschedule(topic: Topic) -> str:
    found = [one for one in _delayed(topic) if topic.may_change(one)]
    if not found:
        return ""
    position, at_ms = topic.random.choice(found), topic.now_ms + topic.random.randint(-1_000, 20_000)
    topic.reschedule(position, at_ms)
    return f"{position} to {at_ms}"


def _delayed(topic: Topic) -> list[Position]:
    """Of the backlog; no chunks, which are changed together."""
    return [one for one, entry in topic.model.open.items() if entry.due_ms and not entry.message]
