"""What of the decisions on delayed messages may be forgotten."""

from __future__ import annotations

from messaging.broker.core.delayed.index import MemoryIndex
from messaging.broker.core.delayed.overrides import Overrides
from messaging.broker.core.delayed.topic_delays import DelayPolicy, TopicDelays
from messaging.storage.ledger_store import Position
from messaging.storage.managed.ledger_list import LedgerList

STRICT = DelayPolicy(True, 1000, True)


def test_a_rescheduled_message_is_not_forgotten_before_it_is_released() -> None:
    """Its time had come, another change was stored before the timer fired, and nothing released it any more."""
    delays = TopicDelays(MemoryIndex(), lambda size: True)
    delays.published(1, 0, [10_000], 0)
    delays.reschedule(Position(1, 0), 20_000, 10_000)
    delays.advance(10_000, STRICT)
    assert delays.overrides is not None and delays.index.pending
    delays.overrides.forget(LedgerList([(1, 0)]), 20_000, delays.index.pending)
    delays.advance(20_000, STRICT)
    assert not delays.index.pending
    delays.overrides.forget(LedgerList([(1, 0)]), 20_000, delays.index.pending)
    assert not delays.overrides


def test_decisions_about_a_deleted_ledger_are_forgotten() -> None:
    overrides = Overrides()
    overrides.reschedule(Position(1, 0), 20_000, 10_000)
    overrides.reschedule(Position(2, 0), 20_000, 10_000)
    overrides.forget(LedgerList([(2, 0)]), 0, overrides.rescheduled)
    assert list(overrides.times()) == [Position(2, 0)]
