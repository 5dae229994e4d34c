"""What is decided of single delayed messages takes bounded memory, however often it is decided."""

from __future__ import annotations

from pyroaring import BitMap

from messaging.broker.core.delayed.changes import why_full
from messaging.broker.core.delayed.overrides import BATCH_BITS_BYTES_MAX, BATCHES_MAX, STALE_MAX, Overrides
from messaging.limits.sizes import ACK_SET_WORDS_MAX
from messaging.storage.ledger_store import Position

START_MS = 1_700_000_000_000
STEP_MS = 5_000
ONE, OTHER = Position(1, 1), Position(1, 2)


def test_a_message_that_is_put_off_again_and_again_takes_no_more_memory() -> None:
    """Each time is in a slot of its own, far ahead."""
    overrides = Overrides()
    overrides.reschedule(OTHER, START_MS, START_MS)
    for number in range(1, STALE_MAX + 1):
        overrides.reschedule(ONE, START_MS + number * STEP_MS, START_MS)
    most = overrides.memory_bytes
    last_ms = START_MS + 10 * STALE_MAX * STEP_MS
    for number in range(STALE_MAX, 10 * STALE_MAX + 1):
        overrides.reschedule(ONE, START_MS + number * STEP_MS, START_MS)
        most = max(most, overrides.memory_bytes)
    assert most < 2 * STALE_MAX * 1_000
    assert overrides.take_due(START_MS) == {1: BitMap([2])}
    assert overrides.take_due(last_ms - 1) == {}
    assert overrides.take_due(last_ms) == {1: BitMap([1])}


def test_rescheduling_and_cancelling_in_turn_takes_no_more_memory() -> None:
    overrides = Overrides()
    for number in range(10 * STALE_MAX):
        overrides.reschedule(Position(1, number), START_MS + number * STEP_MS, START_MS)
        overrides.cancel(1, BitMap([number]))
    assert overrides.rescheduled_count == 0
    assert overrides.memory_bytes < 2 * STALE_MAX * 1_000


def test_ack_sets_of_the_largest_batches_are_bounded_in_bytes() -> None:
    """All of it is written with each decision."""
    overrides, count = Overrides(), 0
    while not why_full(overrides, reschedules=False, batch=True):
        overrides.batches.put(Position(1, count), (1,) * ACK_SET_WORDS_MAX)
        count += 1
    assert count < BATCHES_MAX and len(overrides.encode()) < BATCH_BITS_BYTES_MAX + (1 << 17)
    assert "bytes about messages of batches" in why_full(overrides, reschedules=False, batch=True)
    assert why_full(overrides, reschedules=False, batch=False) == ""
