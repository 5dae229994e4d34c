"""Ids of ledgers from sequences of 31 bits: what happens when one is used up."""

from __future__ import annotations

import pytest

from messaging.bookkeeper.errors import Unavailable
from messaging.bookkeeper.metadata.ledger_ids import SEQUENCE_MAX, UPPER_MAX, Sequences, new_ledger_id


class FakeSequences(Sequences):
    """`used`: by path, how many numbers of each sequence are given out."""

    def __init__(self, **used: int) -> None:
        self.used = {f"/ledgers/{path.replace('_', '/')}": count for path, count in used.items()}
        self.made: set[str] = set()

    async def next_of(self, path: str) -> int:
        number = self.used.get(path, 0)
        self.used[path] = number + 1
        return number if number <= SEQUENCE_MAX else -(1 << 31)  # ZooKeeper's counter overflows

    async def names_below(self, path: str) -> list[str] | None:
        below = [each.removeprefix(f"{path}/") for each in self.used if each.startswith(f"{path}/")]
        return below if below or path in self.made else None

    async def make(self, path: str) -> None:
        self.made.add(path)


async def test_short_ids_come_first_and_long_ones_follow() -> None:
    sequences = FakeSequences(idgen=SEQUENCE_MAX)
    ids = [await new_ledger_id(sequences, "/ledgers") for _ in range(4)]
    assert ids == [SEQUENCE_MAX, 1 << 32, (1 << 32) + 1, (1 << 32) + 2]
    assert sequences.made == {"/ledgers/idgen-long"}, "from now on nobody takes short ones"


async def test_the_next_value_of_the_upper_bits_follows_a_sequence_that_is_used_up() -> None:
    sequences = FakeSequences()
    sequences.used = {"/ledgers/idgen-long/HOB-0000000007": SEQUENCE_MAX, "/ledgers/idgen-long/HOB-0000000003": 5}
    assert [await new_ledger_id(sequences, "/ledgers") for _ in range(3)] == [7 << 32 | SEQUENCE_MAX, 8 << 32, 8 << 32 | 1]


async def test_ids_that_are_not_ours_to_give_are_never_given() -> None:
    sequences = FakeSequences()
    sequences.used = {f"/ledgers/idgen-long/HOB-{UPPER_MAX:010d}": SEQUENCE_MAX + 1}
    with pytest.raises(Unavailable, match="name the ledger_id"):
        await new_ledger_id(sequences, "/ledgers")
