"""What a move of a subscription does, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from messaging.adminrpc.subscriptions import SubscriptionMoved
from tenants.actions import cursor_moves
from tenants.actions.cursor_moves import RecordedMove
from tenants.actions.recorded_places import Place, place_of_text

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


def effect_of_undo(answer: SubscriptionMoved, recorded: RecordedMove) -> list[str]:
    """Also what cannot be put back: what is not stored any more, and what the record had no room for."""
    if recorded.action == cursor_moves.DELETED:
        waiting = answer.backlog_entries
        lines = [
            "The subscription is created again where it stood.",
            f"{counted(waiting, 'entry')} {_are(waiting)} delivered to it." if waiting else "It has acknowledged everything.",
            "Its properties and its dead-letter policy do not come back.",
            *_places(answer),
        ]
    else:
        lines = effect_of(answer, resets=True)
    gone = [name for name, place in recorded.before.items() if _not_stored(answer, name, place)]
    if gone:
        where = "" if len(recorded.before) == 1 else f" on {counted(len(gone), 'partition')}"
        lines.append(
            f"Messages from then are not stored any more{where}: retention or a truncation deleted them. It continues with the "
            "first message that is kept."
        )
    if recorded.left_out:
        lines.append(
            f"{counted(recorded.left_out, 'entry')} that had been acknowledged one by one, or in part, come again: the record had "
            "no room for them."
        )
    elif any(place.acknowledged for place in recorded.before.values()):
        lines.append("What had been acknowledged one by one behind its position stays acknowledged.")
    return lines


def _not_stored(answer: SubscriptionMoved, name: str, place: Place) -> bool:
    """Whether the ledger of that position is gone: then it is moved to the beginning."""
    after = place_of_text(answer.moved.get(name, ("", ""))[1])
    return after is not None and (after.ledger_id, after.entry_id) < (place.ledger_id, place.entry_id)


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
        if not before:
            return [f"Its position is {place_of(after)}."]
        return [f"Its position moves from {place_of(before)} to {place_of(after)}."]
    lines = [
        f"{topic.rpartition('/')[2]}: {f'from {place_of(before)} ' if before else ''}to {place_of(after)}."
        for topic, before, after in rows[:PLACES_SHOWN]
    ]
    more = len(rows) - PLACES_SHOWN
    return [*lines, *([f"And {counted(more, 'partition')} more."] if more > 0 else [])]
