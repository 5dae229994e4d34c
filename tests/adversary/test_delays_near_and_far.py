"""Delayed messages that claim much: near and far times mixed in every block, so that all blocks come due at once."""

from __future__ import annotations

from messaging.broker.core.delayed.index import NEVER_MS
from messaging.broker.core.delayed.newest import CHUNKS_MOVED_MAX, FAR_MS
from messaging.broker.core.delayed.run_index import RunIndex
from messaging.broker.core.delayed.time_slots import SLOT_BITS

NOW_MS, HOUR_MS = 1_790_000_000_000, 3_600_000
BLOCK, BLOCKS, SLOT_MS = 2048, 40, 4096


def filled(index: RunIndex, near: int) -> None:
    """`near` entries of each block are due at once, each of the others in a slot of its own."""
    for block in range(BLOCKS):
        far = range(block * BLOCK, (block + 1) * BLOCK - near)
        index.add_block(1, block * BLOCK, [*[NOW_MS] * near, *(NOW_MS + HOUR_MS + at * SLOT_MS for at in far)])


def test_far_delays_take_no_slots_when_a_delay_beside_them_is_due() -> None:
    index = RunIndex()
    filled(index, 1)
    before = index.memory_bytes
    due = 0
    while (first_ms := index.next_ms()) is not None and first_ms <= NOW_MS:
        due += sum(map(len, index.take_due(NOW_MS).entries.values()))
    assert due == BLOCKS
    assert index.memory_bytes < before
    assert index.seal(NOW_MS, 1) is not None, "what is far can still be sealed"


def test_blocks_that_all_come_due_at_once_are_sorted_in_turns() -> None:
    index = RunIndex()
    filled(index, BLOCK)
    first = index.take_due(NOW_MS)
    assert first.until_ms < NOW_MS
    job = index.seal(NOW_MS, 1)
    assert job is not None and job.count == (BLOCKS - CHUNKS_MOVED_MAX) * BLOCK
    taken = [first, index.take_due(NOW_MS)]
    assert len(job.moved) == CHUNKS_MOVED_MAX, "nor are those that are being stored"
    taken += [index.take_due(NOW_MS) for _ in range(2 * BLOCKS)]
    assert sum(len(entries) for due in taken for entries in due.entries.values()) == BLOCKS * BLOCK
    assert index.next_ms() is None


def test_a_time_that_never_comes_is_kept_when_nothing_can_be_stored() -> None:
    """What is left of a block that came due while it was being sealed."""
    index = RunIndex(seal_entries=2)
    index.add_block(1, 0, [NOW_MS + HOUR_MS, NEVER_MS])
    job = index.seal(NOW_MS, 1)
    assert job is not None
    assert set(index.take_due(NOW_MS + HOUR_MS).entries[1]) == {0}
    index.sealed(job, None)
    assert set(index.take_due(NEVER_MS).entries[1]) == {1}


def test_a_delay_that_comes_due_while_it_waits_to_be_sealed_is_released() -> None:
    """Found by the simulation: what was near already came when it had been stored, however long that took."""
    now_ms = (NOW_MS >> SLOT_BITS << SLOT_BITS) - FAR_MS
    index = RunIndex(seal_entries=2)
    index.add_block(1, 0, [now_ms + 1000, now_ms + FAR_MS + 500, now_ms + HOUR_MS, now_ms + HOUR_MS])
    assert set(index.take_due(now_ms + 1000).entries[1]) == {0}
    job = index.seal(now_ms, 1)
    assert job is not None and job.slots
    assert index.next_ms() == now_ms + FAR_MS
    assert set(index.take_due(now_ms + FAR_MS + 500).entries[1]) == {1}
    index.sealed(job, None)
    assert set(index.take_due(now_ms + HOUR_MS).entries[1]) == {2, 3}
