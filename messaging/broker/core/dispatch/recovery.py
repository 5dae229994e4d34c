"""After something raised while entries were shared out: what was not sent is found, and sent again. Pure.

Each unacknowledged entry before the read position is in one place: a consumer holds it, it is to be sent again, it is a dead
letter, it is delayed, it is due, or it waits for the consumer that has the chunks before it. Whatever is in none of these was
forgotten. To find that costs what the subscription has: it is for failures alone.
"""

from __future__ import annotations

from pyroaring import BitMap

from messaging.broker.core.consumer import Consumer
from messaging.broker.core.delayed import entry_sets
from messaging.broker.core.delayed.entry_sets import EntrySets
from messaging.broker.core.dispatch.assignment import Delivery
from messaging.broker.core.dispatch.chunk_sets import ChunkSets
from messaging.broker.core.dispatch.state import DispatchState
from messaging.storage.ledger_store import Position


def take_back(state: DispatchState, *, holds: bool) -> list[Delivery]:
    """What was given to consumers and not sent takes no permits. Returns it. `holds`: it was their own, and is no more."""
    unsent = list(state.unsent)
    for delivery in unsent:
        consumer = delivery.consumer
        if delivery.block.chunked and state.chunks is not None:
            _take_back_chunks(state.chunks, delivery, holds)
        if holds:
            consumer.release(delivery.block.ledger_id, delivery.block.entries_at(delivery.indexes))
        consumer.permits += delivery.messages
        consumer.messages_out -= delivery.messages
        consumer.entries_out -= len(delivery.indexes)
        state.unsent.popleft()
    return unsent


def _take_back_chunks(chunks: ChunkSets, delivery: Delivery, holds: bool) -> None:
    block = delivery.block
    for index in delivery.indexes:
        chunk = block.chunk_at(index)
        if chunk is not None:
            chunks.not_sent(delivery.consumer, Position(block.ledger_id, block.entry_at(index)), chunk, counted=holds)


def let_go(state: DispatchState) -> None:
    """Nothing is to be sent again that is acknowledged, or that reading comes to anyway; and nothing is due that is to be sent
    again, or held: what is in two places would be taken for the one when it is sent from the other."""
    redeliveries, position = state.redeliveries, state.read_position
    for ledger_id, entries in list(redeliveries.entries.items()):
        left = entry_sets.before(ledger_id, entry_sets.unacknowledged(ledger_id, entries, state.cursor), position)
        redeliveries.take(ledger_id, entries - left)
    for ledger_id, entries in list(redeliveries.dead.items()):
        redeliveries.acknowledged(ledger_id, entries - entry_sets.unacknowledged(ledger_id, entries, state.cursor))
    if state.delayed is not None:
        entry_sets.take(state.delayed.due, {ledger_id: state.in_hand(ledger_id) for ledger_id in state.delayed.due})


def release_acknowledged(state: DispatchState) -> None:
    """Nobody holds what is acknowledged."""
    for consumer in state.consumers:
        for ledger_id, unacked in list(consumer.held.items()):
            done = unacked - entry_sets.unacknowledged(ledger_id, unacked, state.cursor)
            if done:
                consumer.release(ledger_id, done)


def forgotten(state: DispatchState) -> EntrySets:
    """The unacknowledged entries before the read position that nobody would ever be sent."""
    lost: EntrySets = {}
    cursor, ledger_list = state.cursor, state.ledger_list
    for ledger_id, first, last in ledger_list.ranges(cursor.mark_delete, ledger_list.before(state.read_position)):
        entries = entry_sets.unacknowledged(ledger_id, BitMap(range(first, last + 1)), cursor) - state.in_hand(ledger_id)
        if state.chunks:
            entries -= state.chunks.waiting_in(ledger_id)
        if state.delayed is not None:
            for waiting in (state.delayed.due, state.delayed.pending):
                entries -= waiting.get(ledger_id, BitMap())
        entry_sets.add(lost, ledger_id, entries)
    return lost


def recount(state: DispatchState) -> None:
    """What consumers hold is counted anew, each and all together."""
    for consumer in state.consumers:
        consumer.recount()
    state.unacked.recount(
        sum(consumer.unacked_messages for consumer in state.consumers), sum(consumer.uncounted for consumer in state.consumers)
    )


def first_of(delivery: Delivery) -> Position:
    return Position(delivery.block.ledger_id, delivery.block.entry_at(delivery.first))


def wake_all(consumers: dict[Consumer, None]) -> None:
    for consumer in consumers:
        consumer.wake()
