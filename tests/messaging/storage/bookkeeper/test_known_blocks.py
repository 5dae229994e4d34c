"""Finding the block of an entry between those that are known, against a list of all blocks."""

from __future__ import annotations

from random import Random

from messaging.storage.bookkeeper.known_blocks import BLOCKS_MAX, KnownBlocks


def blocks(count: int, random: Random, *, gaps: bool) -> list[tuple[int, int, int]]:
    """(after, last, size in bytes) of each."""
    made, last = list[tuple[int, int, int]](), -1
    for _ in range(count):
        after, last = last, last + random.randint(1, 9) + (random.choice((0, 0, 1000)) if gaps else 0)
        made.append((after, last, random.randint(0, 5000)))
    return made


def test_the_block_is_always_within_what_is_said() -> None:
    for seed in range(30):
        random = Random(seed)
        stored = blocks(200, random, gaps=seed % 2 == 1)
        known = KnownBlocks(sparse=seed % 2 == 1)
        for number in random.sample(range(200), seed):
            known.add(number, *stored[number])
        for _ in range(100):
            entry = random.randint(0, stored[-1][1])
            where = known.find(entry, 199, stored[-1][1])
            expected = next(number for number, (_, last, _) in enumerate(stored) if last >= entry)
            assert where.lowest <= expected <= where.highest
            assert where.begin <= entry < where.end


def test_a_forecast_is_what_a_read_brings() -> None:
    random = Random(1)
    stored = blocks(100, random, gaps=False)
    known = KnownBlocks(sparse=False)
    known.last_block = 99
    for number, block in enumerate(stored):
        known.add(number, *block)
    for _ in range(300):
        first, entries_max, bytes_max = random.randint(0, stored[-1][1]), random.randint(1, 100), random.randint(1, 40_000)
        entries = size_bytes = 0
        for after, last, block_bytes in stored:
            if last < first:
                continue
            size_bytes += block_bytes
            if entries and (size_bytes > bytes_max or entries >= entries_max):
                break
            entries += last - max(after, first - 1)
            if size_bytes >= bytes_max:
                break
        assert known.entries_of_read(first, entries_max, bytes_max) == entries


def test_nothing_is_forecast_where_blocks_are_not_known() -> None:
    known = KnownBlocks(sparse=False)
    known.last_block = 5
    known.add(0, -1, 9, 100)
    known.add(2, 19, 29, 100)
    assert known.entries_of_read(0, 100, 10_000) == 0, "block 1 is not known"
    assert known.entries_of_read(0, 10, 10_000) == 10
    assert known.entries_of_read(25, 100, 10_000) == 0, "nor is what follows"
    assert known.entries_of_read(15, 1, 1) == known.entries_of_read(40, 1, 1) == 0


def test_what_is_known_is_bounded_and_the_newest_is_kept() -> None:
    known = KnownBlocks(sparse=False)
    count = 20 * BLOCKS_MAX
    for number in range(count):
        known.add(number, number - 1, number, 10)
    assert known.size <= BLOCKS_MAX
    for entry in (count - 1, count - 200):
        where = known.find(entry, count - 1, count - 1)
        assert where.lowest == where.highest == entry
    far = known.find(17, count - 1, count - 1)
    assert far.lowest <= 17 <= far.highest < count // 2, "of the rest some are"
