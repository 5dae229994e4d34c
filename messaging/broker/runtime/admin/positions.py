"""Positions of a subscription as administrators name them, and moving it to one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from messaging.ack_ranges import AckRange
from messaging.broker.core.subscription import Subscription
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.storage.ledger_store import Position

_SMALL_BACKLOG = 1000


class MoveEffect(NamedTuple):
    """What a move of the cursor does, in entries: `skipped` ones were not acknowledged and are never delivered, what comes `again`
    was acknowledged, at least in part."""

    skipped: int = 0
    again: int = 0


def effect_of_move(
    subscription: Subscription, target: Position, *, forgets: bool, acknowledged: Sequence[AckRange] = ()
) -> MoveEffect:
    """Of a move that leaves everything up to `target` acknowledged, and those behind it that are in `acknowledged`. `forgets`: what
    else was acknowledged behind it is not any more."""
    cursor, ledger_list = subscription.cursor, subscription.ledger_list
    skipped = cursor.backlog_up_to(target, ledger_list)
    if not forgets:
        return MoveEffect(skipped)
    behind = ledger_list.entries - ledger_list.count_up_to(target)
    again = behind - (subscription.backlog_entries - skipped) + cursor.batches.count_after(target)
    for ledger_id, first, last in acknowledged:
        if ledger_id == target.ledger_id:
            first = max(first, target.entry_id + 1)
        last = min(last, ledger_list.last_of(ledger_id))
        if ledger_id < target.ledger_id or first > last:
            continue
        unacknowledged = cursor.unacked_count(ledger_id, first, last)
        skipped += unacknowledged
        again -= last - first + 1 - unacknowledged + len(cursor.batches.entries_in(ledger_id, first, last))
    return MoveEffect(skipped, again)


def may_expire(subscription: Subscription) -> bool:
    """Whether an expiration that finds no old message is answered as done, as by Pulsar: not where there is no backlog, nor for
    connected consumers that almost caught up."""
    backlog = subscription.backlog_entries
    return backlog >= _SMALL_BACKLOG if subscription.consumers else backlog > 0


async def expire(topic: PersistentTopic, subscriptions: Iterable[Subscription], cutoff_ms: int) -> int:
    """Acknowledges for these subscriptions what the broker stored before `cutoff_ms`. Returns how many entries that were. Where
    that ends is looked up once, however many subscriptions there are."""
    waiting = [subscription for subscription in subscriptions if subscription.backlog_entries]
    if not waiting:
        return 0
    last = await expires_up_to(topic, cutoff_ms)
    topic.check_open()
    return await topic.acknowledgements.expire_each_up_to(waiting, last)


async def expires_up_to(topic: PersistentTopic, cutoff_ms: int) -> Position:
    """The last entry that the broker stored before `cutoff_ms`."""
    return await topic.entries.mark_delete_before_broker_time(cutoff_ms)


def nth_unacknowledged(subscription: Subscription, number: int) -> Position | None:
    """Counted from 1; None where there are fewer."""
    ledger_list, cursor = subscription.ledger_list, subscription.cursor
    position = ledger_list.resolve(ledger_list.next_after(cursor.mark_delete))
    left = number
    while ledger_list.holds(position):
        last = ledger_list.last_of(position.ledger_id)
        for first, stop in cursor.unacked_ranges(position.ledger_id, position.entry_id, last):
            if left <= stop - first + 1:
                return Position(position.ledger_id, first + left - 1)
            left -= stop - first + 1
        position = ledger_list.next_after(Position(position.ledger_id, last))
    return None


def position_ahead(subscription: Subscription, entries: int) -> Position:
    """Up to here lie `entries` more unacknowledged entries, or all that there are."""
    position = nth_unacknowledged(subscription, entries)
    return position if position is not None else subscription.ledger_list.last
