"""The partition of a message, as Pulsar's clients choose it. The hashes were made by Java's."""

from __future__ import annotations

import pytest

from messaging.broker.core.partition_routing import PartitionRouter
from messaging.protocol.key_hashing import HashingScheme, key_hash


@pytest.mark.parametrize(
    ("key", "scheme", "partition"),
    [
        ("a", "JavaStringHash", 1),
        ("d", "JavaStringHash", 4),
        ("a", "Murmur3_32Hash", 2),
        ("c", "Murmur3_32Hash", 7),
        ("e", "Murmur3_32Hash", 7),
        ("", "JavaStringHash", 0),
    ],
)
def test_a_key_decides(key: str, scheme: HashingScheme, partition: int) -> None:
    """Of eight partitions; those of a real Pulsar in `frames_of_partitions.publishing_by_another_hash`."""
    assert PartitionRouter(8, 3, in_turn=False, hashing=scheme).choose(key) == partition


def test_javas_hash_is_of_utf_16_and_positive() -> None:
    assert key_hash("polygenelubricants", "JavaStringHash") == 0  # in Java the smallest number there is
    assert key_hash("\U0001f600", "JavaStringHash") == 1772899


def test_without_a_key_it_is_one_partition_or_each_in_turn() -> None:
    single = PartitionRouter(3, 7, in_turn=False, hashing="JavaStringHash")
    assert {single.choose(None) for _ in range(9)} == {1}
    turns = PartitionRouter(3, 7, in_turn=True, hashing="JavaStringHash")
    assert [turns.choose(None) for _ in range(4)] == [2, 0, 1, 2]
    turns.partitions = 4
    assert {turns.choose(None) for _ in range(4)} == {0, 1, 2, 3}
