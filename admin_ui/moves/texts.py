"""What a move of a subscription does, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from admin_ui.translation.figures import exact
from admin_ui.translation.texts import gettext, gettext_lazy, ngettext
from messaging.adminrpc.subscriptions import SubscriptionMoved
from tenants.actions import cursor_moves
from tenants.actions.cursor_moves import RecordedMove
from tenants.actions.recorded_places import Place, place_of_text

DONE: Mapping[str, str] = {
    cursor_moves.SKIPPED: gettext_lazy("Skipped"),
    cursor_moves.CLEARED: gettext_lazy("Backlog cleared"),
    cursor_moves.RESET: gettext_lazy("Reset"),
    cursor_moves.EXPIRED: gettext_lazy("Expired"),
    cursor_moves.DELETED: gettext_lazy("Deleted"),
    cursor_moves.UNDONE: gettext_lazy("Moved back"),
}
PLACES_SHOWN = 5
_COUNTED = gettext_lazy(
    "The broker counted this just now. An entry is one message, or a batch of messages that was published together; "
    "what clients do until you confirm changes the counts."
)


_NOUNS: Mapping[str, Callable[[int], str]] = {
    "entry": lambda count: ngettext("{count} entry", "{count} entries", count),
    "consumer": lambda count: ngettext("{count} consumer", "{count} consumers", count),
    "producer": lambda count: ngettext("{count} producer", "{count} producers", count),
    "subscription": lambda count: ngettext("{count} subscription", "{count} subscriptions", count),
    "topic": lambda count: ngettext("{count} topic", "{count} topics", count),
    "partition": lambda count: ngettext("{count} partition", "{count} partitions", count),
}


def counted(count: int, noun: str) -> str:
    """1 entry, 12,408 entries: `noun` is one of those above."""
    return _NOUNS[noun](count).format(count=exact(count))


def effect_of(answer: SubscriptionMoved, *, resets: bool) -> list[str]:
    """Of a move that is not done yet. `resets`: its consumers are disconnected."""
    lines = []
    if answer.skipped_entries:
        skipped = answer.skipped_entries
        lines.append(
            ngettext(
                "{count} unacknowledged entry is skipped: no consumer is sent what is skipped.",
                "{count} unacknowledged entries are skipped: no consumer is sent what is skipped.",
                skipped,
            ).format(count=exact(skipped))
        )
    if answer.again_entries:
        again = answer.again_entries
        lines.append(
            ngettext("{count} acknowledged entry comes again.", "{count} acknowledged entries come again.", again).format(
                count=exact(again)
            )
        )
    if not lines:
        lines.append(gettext("No entry is skipped, and none comes again."))
    lines.append(_consumers(answer.consumers, resets=resets))
    return [*lines, *_places(answer), str(_COUNTED)]


def effect_of_deletion(answer: SubscriptionMoved) -> list[str]:
    backlog = answer.backlog_entries
    lines = [
        ngettext(
            "{count} entry that it has not acknowledged is not delivered to it any more.",
            "{count} entries that it has not acknowledged are not delivered to it any more.",
            backlog,
        ).format(count=exact(backlog))
        if backlog
        else gettext("It has acknowledged everything."),
        gettext("The topic keeps a message only as long as its retention policy or another subscription does."),
    ]
    if answer.consumers:
        lines.append(
            ngettext(
                "{count} consumer is disconnected. One that subscribes again by this name begins a new subscription.",
                "{count} consumers are disconnected. One that subscribes again by this name begins a new subscription.",
                answer.consumers,
            ).format(count=exact(answer.consumers))
        )
    else:
        lines.append(gettext("No consumer is connected."))
    return [*lines, str(_COUNTED)]


def effect_of_undo(answer: SubscriptionMoved, recorded: RecordedMove) -> list[str]:
    """Also what cannot be put back: what is not stored any more, and what the record had no room for."""
    if recorded.action == cursor_moves.DELETED:
        waiting = answer.backlog_entries
        lines = [
            gettext("The subscription is created again where it stood."),
            ngettext("{count} entry is delivered to it.", "{count} entries are delivered to it.", waiting).format(
                count=exact(waiting)
            )
            if waiting
            else gettext("It has acknowledged everything."),
            gettext("Its properties and its dead-letter policy do not come back."),
            *_places(answer),
        ]
    else:
        lines = effect_of(answer, resets=True)
    gone = [name for name, place in recorded.before.items() if _not_stored(answer, name, place)]
    if gone:
        whole = gettext(
            "Messages from then are not stored any more: retention or a truncation deleted them. It continues with the first "
            "message that is kept."
        )
        in_part = gettext(
            "Messages from then are not stored any more on {partitions}: retention or a truncation deleted them. It continues "
            "with the first message that is kept."
        )
        lines.append(whole if len(recorded.before) == 1 else in_part.format(partitions=counted(len(gone), "partition")))
    if recorded.left_out:
        lines.append(
            gettext(
                "Come again, as the record had no room for them: {left_out} that had been acknowledged one by one, or in part."
            ).format(left_out=counted(recorded.left_out, "entry"))
        )
    elif any(place.acknowledged for place in recorded.before.values()):
        lines.append(gettext("What had been acknowledged one by one behind its position stays acknowledged."))
    return lines


def _not_stored(answer: SubscriptionMoved, name: str, place: Place) -> bool:
    """Whether the ledger of that position is gone: then it is moved to the beginning."""
    after = place_of_text(answer.moved.get(name, ("", ""))[1])
    return after is not None and (after.ledger_id, after.entry_id) < (place.ledger_id, place.entry_id)


def _consumers(count: int, *, resets: bool) -> str:
    if not count:
        return gettext("No consumer is connected.")
    if resets:
        text = ngettext(
            "{count} consumer is disconnected. A client connects again by itself, and is sent again what it has not acknowledged.",
            "{count} consumers are disconnected. A client connects again by itself, and is sent again what it has not "
            "acknowledged.",
            count,
        )
    else:
        text = ngettext(
            "{count} consumer stays connected. What was sent to a consumer already is not taken back.",
            "{count} consumers stay connected. What was sent to a consumer already is not taken back.",
            count,
        )
    return text.format(count=exact(count))


def place_of(position: str) -> str:
    """A mark-delete position, ledger:entry."""
    return gettext("the beginning") if position.startswith("-1:") else position


def _places(answer: SubscriptionMoved) -> list[str]:
    """The positions of the first partitions."""
    rows = [(topic, *positions) for topic, positions in answer.moved.items()]
    if len(rows) == 1:
        _, before, after = rows[0]
        if not before:
            return [gettext("Its position is {after}.").format(after=place_of(after))]
        return [gettext("Its position moves from {before} to {after}.").format(before=place_of(before), after=place_of(after))]
    lines = [
        (gettext("{name}: from {before} to {after}.") if before else gettext("{name}: to {after}.")).format(
            name=topic.rpartition("/")[2], before=place_of(before), after=place_of(after)
        )
        for topic, before, after in rows[:PLACES_SHOWN]
    ]
    more = len(rows) - PLACES_SHOWN
    return [*lines, *([gettext("And {more} more.").format(more=counted(more, "partition"))] if more > 0 else [])]
