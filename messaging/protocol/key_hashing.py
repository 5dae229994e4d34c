"""The hashes by which Pulsar's clients map a key to a partition. Pure."""

from __future__ import annotations

import struct
from typing import Literal

from mmh3 import hash as mmh3_hash

HashingScheme = Literal["JavaStringHash", "Murmur3_32Hash"]
_POSITIVE = (1 << 31) - 1


def key_hash(key: str, scheme: HashingScheme) -> int:
    if scheme == "Murmur3_32Hash":
        return mmh3_hash(key.encode("utf-8", "replace"), 0, False) & _POSITIVE
    data = key.encode("utf-16-le", "surrogatepass")
    value = 0
    for unit in struct.unpack(f"<{len(data) // 2}H", data):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value & _POSITIVE
