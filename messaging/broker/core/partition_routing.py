"""Which partition a message goes to, as Pulsar's clients decide it. Pure.

A key decides by its hash. Messages without a key go to one partition, or to each in turn.
"""

from __future__ import annotations

import struct
from typing import Literal

from mmh3 import hash as mmh3_hash

HashingScheme = Literal["JavaStringHash", "Murmur3_32Hash"]
_POSITIVE = (1 << 31) - 1


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


def key_hash(key: str, scheme: HashingScheme) -> int:
    if scheme == "Murmur3_32Hash":
        return mmh3_hash(key.encode("utf-8", "replace"), 0, False) & _POSITIVE
    data = key.encode("utf-16-le", "surrogatepass")
    value = 0
    for unit in struct.unpack(f"<{len(data) // 2}H", data):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value & _POSITIVE
