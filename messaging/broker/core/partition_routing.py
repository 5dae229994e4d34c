"""Which partition a message goes to, as Pulsar's clients decide it. Pure.

A key decides by its hash. Messages without a key go to one partition, or to each in turn.
"""

from __future__ import annotations

from messaging.protocol.key_hashing import HashingScheme, key_hash


class PartitionRouter:
    """`begin`: any number, which decides where messages without a key go first."""

    def __init__(self, partitions: int, begin: int, *, in_turn: bool, hashing: HashingScheme) -> None:
        self.partitions = partitions
        self._begin = begin
        self._in_turn = in_turn
        self._hashing: HashingScheme = hashing
        self._single = begin % partitions

    def choose(self, key: str | None) -> int:
        if key is not None:
            return key_hash(key, self._hashing) % self.partitions
        if not self._in_turn:
            return self._single
        self._begin += 1
        return self._begin % self.partitions
