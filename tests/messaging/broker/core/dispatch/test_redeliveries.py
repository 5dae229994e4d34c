"""What is to be sent again."""

from __future__ import annotations

from random import Random

from pyroaring import BitMap

from messaging.broker.core.cursors.cursor import Cursor
from messaging.broker.core.dispatch.redeliveries import FORMER_LEDGERS_MAX, Redeliveries
from messaging.storage.ledger_store import Position


def test_the_next_is_the_lowest_whatever_came_back_and_left() -> None:
    random, redeliveries = Random(7), Redeliveries(Cursor())
    waiting: set[Position] = set()
    for _ in range(2_000):
        position = Position(random.randrange(2 * FORMER_LEDGERS_MAX), random.randrange(3))
        if random.random() < 0.5:
            redeliveries.add(position.ledger_id, BitMap([position.entry_id]))
            waiting.add(position)
        elif waiting and random.random() < 0.5:
            first = min(waiting)
            redeliveries.advance(first.ledger_id, first.entry_id, first.entry_id + 1)
            waiting.discard(first)
        else:
            redeliveries.take(position.ledger_id, BitMap([position.entry_id]))
            waiting.discard(position)
        assert redeliveries.next_position() == min(waiting, default=None)
    redeliveries.clear()
    assert redeliveries.next_position() is None
    redeliveries.add(3, BitMap([1]))
    assert redeliveries.next_position() == Position(3, 1)
