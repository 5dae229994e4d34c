"""What a move of a subscription does, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from messaging.adminrpc.subscriptions import SubscriptionMoved
from tenants.actions import cursor_moves

DONE: Mapping[str, str] = {
    cursor_moves.SKIPPED: "Skipped",
    cursor_moves.CLEARED: "Backlog cleared",
    cursor_moves.RESET: "Reset",
    cursor_moves.EXPIRED: "Expired",
    cursor_moves.DELETED: "Deleted",
    cursor_moves.UNDONE: "Moved back",
}
PLACES_SHOWN = 5
_COUNTED = (
    "The broker counted this just now. An entry is one message, or a batch of messages that was published together; "
    "what clients do until you confirm changes the counts."
)


def counted(count: int, noun: str) -> str:
    """1 entry, 12,408 entries."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def effect_of(answer: SubscriptionMoved, *, resets: bool) -> list[str]:
    """Of a move that is not done yet. `resets`: its consumers are disconnected."""
    lines = []
    if answer.skipped_entries:
        skipped = answer.skipped_entries
        lines.append(f"{counted(skipped, 'unacknowledged entry')} {_are(skipped)} skipped: no consumer is sent what is skipped.")
    if answer.again_entries:
        again = answer.again_entries
        lines.append(f"{counted(again, 'acknowledged entry')} come{'s' * (again == 1)} again.")
    if not lines:
        lines.append("No entry is skipped, and none comes again.")
    lines.append(_consumers(answer.consumers, resets=resets))
    return [*lines, *_places(answer), _COUNTED]


def effect_of_deletion(answer: SubscriptionMoved) -> list[str]:
    backlog = answer.backlog_entries
    lines = [
        f"{counted(backlog, 'entry')} that it has not acknowledged {_are(backlog)} not delivered to it any more."
        if backlog
        else "It has acknowledged everything.",
        "The topic keeps a message only as long as its retention policy or another subscription does.",
    ]
    if answer.consumers:
        lines.append(
            f"{counted(answer.consumers, 'consumer')} {_are(answer.consumers)} disconnected. One that subscribes "
            "again by this name begins a new subscription."
        )
    else:
        lines.append("No consumer is connected.")
    return [*lines, _COUNTED]


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _consumers(count: int, *, resets: bool) -> str:
    if not count:
        return "No consumer is connected."
    if resets:
        return (
            f"{counted(count, 'consumer')} {_are(count)} disconnected. A client connects again by itself, and is "
            "sent again what it has not acknowledged."
        )
    return (
        f"{counted(count, 'consumer')} stay{'s' * (count == 1)} connected. What was sent to a consumer already is not taken back."
    )


def place_of(position: str) -> str:
    """A mark-delete position, ledger:entry."""
    return "the beginning" if position.startswith("-1:") else position


def _places(answer: SubscriptionMoved) -> list[str]:
    """The positions of the first partitions."""
    rows = [(topic, *positions) for topic, positions in answer.moved.items()]
    if len(rows) == 1:
        _, before, after = rows[0]
        return [f"Its position moves from {place_of(before)} to {place_of(after)}."]
    lines = [
        f"{topic.rpartition('/')[2]}: from {place_of(before)} to {place_of(after)}." for topic, before, after in rows[:PLACES_SHOWN]
    ]
    more = len(rows) - PLACES_SHOWN
    return [*lines, *([f"And {counted(more, 'partition')} more."] if more > 0 else [])]
