"""Finding the block of an entry between those that are known, against a list of all blocks."""

from __future__ import annotations

from random import Random

from messaging.storage.bookkeeper.known_blocks import BLOCKS_MAX, KnownBlocks


def blocks(count: int, random: Random, *, gaps: bool) -> list[tuple[int, int, int, int]]:
    """(after, last, size in bytes, where it ends in bytes) of each."""
    made, last, end_bytes = list[tuple[int, int, int, int]](), -1, 0
    for _ in range(count):
        after, last = last, last + random.randint(1, 9) + (random.choice((0, 0, 1000)) if gaps else 0)
        size_bytes = random.randint(0, 5000)
        end_bytes += size_bytes
        made.append((after, last, size_bytes, end_bytes))
    return made


def brought(stored: list[tuple[int, int, int, int]], first: int, entries_max: int, bytes_max: int) -> int:
    """How many entries a read brings."""
    entries = size_bytes = 0
    for after, last, block_bytes, _ in stored:
        if last < first:
            continue
        size_bytes += block_bytes
        if entries and (size_bytes > bytes_max or entries >= entries_max):
            break
        entries += last - max(after, first - 1)
        if size_bytes >= bytes_max:
            break
    return entries


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
            expected = next(number for number, (_, last, _, _) in enumerate(stored) if last >= entry)
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
        assert known.entries_of_read(first, entries_max, bytes_max) == brought(stored, first, entries_max, bytes_max)


def test_one_block_tells_where_a_read_ends_that_follows_another() -> None:
    """Reads of a ledger of which nothing was known but where the first one ended: each is planned before the one before it is done,
    looks at three blocks at most, and brings just what was forecast."""
    for seed in range(50):
        random = Random(seed)
        stored = blocks(300, random, gaps=False)
        last_entry = stored[-1][1]
        known = KnownBlocks(sparse=False)
        known.last_block = 299
        entries_max, bytes_max = random.choice((5, 50, 4096)), random.choice((6_000, 40_000))
        assert known.end_of_read(0, last_entry, entries_max, bytes_max) is None, "how large blocks are is not known"
        known.add(0, *stored[0])
        first, planned = stored[0][1] + 1, 0
        while first <= last_entry:
            end = known.end_of_read(first, last_entry, entries_max, bytes_max)
            assert end is not None and stored[end.begin][0] == first - 1
            looks = 1
            known.add(end.number, *stored[end.number])
            while (share := known.share_of_read(end, bytes_max)) < 1.0:
                end, looks = end.shorter(share * 0.8), looks + 1
                known.add(end.number, *stored[end.number])
            entries = known.entries_to(end, first, entries_max)
            assert looks <= 3
            if entries:
                assert entries == brought(stored, first, entries, bytes_max)
                assert known.known_end(end.begin, first + entries - 1, bytes_max) in (end.number, None)
            else:  # too many entries: the read itself tells
                entries = brought(stored, first, entries_max, bytes_max)
                number = next(number for number, block in enumerate(stored) if block[1] == first + entries - 1)
                known.add(number, *stored[number])
            first, planned = first + entries, planned + 1
        assert first == last_entry + 1 and planned >= 300 * 2500 // bytes_max // 2


def test_where_a_read_ends_is_not_guessed_behind_a_gap() -> None:
    random = Random(3)
    known = KnownBlocks(sparse=True)
    known.last_block = 9
    stored = blocks(10, random, gaps=True)
    known.add(0, *stored[0])
    assert known.end_of_read(stored[0][1] + 1, stored[-1][1], 100, 10_000) is None
    dense = KnownBlocks(sparse=False)
    dense.last_block = 9
    dense.add(5, *blocks(10, random, gaps=False)[5])
    assert dense.end_of_read(0, 40, 100, 10_000) is None, "what is before it is not known"
    assert dense.known_end(0, 3, 10_000) is None


def test_nothing_is_forecast_where_blocks_are_not_known() -> None:
    known = KnownBlocks(sparse=False)
    known.last_block = 5
    known.add(0, -1, 9, 100, 100)
    known.add(2, 19, 29, 100, 300)
    assert known.entries_of_read(0, 100, 10_000) == 0, "block 1 is not known"
    assert known.entries_of_read(0, 10, 10_000) == 10
    assert known.entries_of_read(25, 100, 10_000) == 0, "nor is what follows"
    assert known.entries_of_read(15, 1, 1) == known.entries_of_read(40, 1, 1) == 0


def test_what_is_known_is_bounded_and_the_newest_is_kept() -> None:
    known = KnownBlocks(sparse=False)
    count = 20 * BLOCKS_MAX
    for number in range(count):
        known.add(number, number - 1, number, 10, 10 * number + 10)
    assert known.size <= BLOCKS_MAX
    for entry in (count - 1, count - 200):
        where = known.find(entry, count - 1, count - 1)
        assert where.lowest == where.highest == entry
    far = known.find(17, count - 1, count - 1)
    assert far.lowest <= 17 <= far.highest < count // 2, "of the rest some are"
