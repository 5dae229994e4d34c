"""Loops that run once for each entry that a Key_Shared subscription reads: the hash of its key, and the consumer that owns it. The
package docstring states the rules.

The key of an entry is in its outer metadata, for a batch as for a single message: the ordering key, else the partition key, else
the name of the producer and the sequence id, as Pulsar's brokers have it. Its hash is Murmur3 (x86, 32 bits, seed 0) without the
highest bit.
"""

from __future__ import annotations

import binascii
from array import array
from bisect import bisect_left
from collections.abc import Container, Sequence

from mmh3 import hash as mmh3_hash

COMPILED = not __file__.endswith(".py")

HASH_MAX = 0x7FFFFFFF
NO_KEY_HASH = 504741539  # of the text "NONE_KEY": the key of an entry whose metadata nobody can read
NOBODY = 0  # the owner of slots that no consumer asked for

# Of Murmur3. Named because a literal of more than 31 bits is an object where this is compiled.
MASK = 0xFFFFFFFF
FACTOR_1, FACTOR_2, ADDED = 0xCC9E2D51, 0x1B873593, 0xE6546B64
LAST_1, LAST_2 = 0x85EBCA6B, 0xC2B2AE35


def murmur(data: bytes | memoryview, start: int, stop: int) -> int:
    """The hash of ``data[start:stop]``."""
    hashed = 0
    size = stop - start
    whole = start + (size & -4)
    while start < whole:
        part = data[start + 3]
        part = part << 24 | data[start + 2] << 16 | data[start + 1] << 8 | data[start]
        part = part * FACTOR_1 & MASK
        part = (part << 15 | part >> 17) & MASK
        hashed ^= part * FACTOR_2 & MASK
        hashed = (hashed << 13 | hashed >> 19) & MASK
        hashed = (hashed * 5 + ADDED) & MASK
        start += 4
    if start < stop:
        part = data[start]
        if stop - start > 1:
            part |= data[start + 1] << 8
        if stop - start > 2:
            part |= data[start + 2] << 16
        part = part * FACTOR_1 & MASK
        part = (part << 15 | part >> 17) & MASK
        hashed ^= part * FACTOR_2 & MASK
    hashed ^= size
    hashed = (hashed ^ hashed >> 16) * LAST_1 & MASK
    hashed = (hashed ^ hashed >> 13) * LAST_2 & MASK
    hashed ^= hashed >> 16
    return hashed & 0x7FFFFFFF


def key_hashes(data: bytes | memoryview, end_offsets: Sequence[int]) -> array[int]:
    """The hash of the key of each entry (type "I"). `data` and `end_offsets` as in `EntryBlock`."""
    compiled = COMPILED
    made = array("I", bytes(4 * len(end_offsets)))
    hashes = memoryview(made)
    start = 0
    for index in range(len(end_offsets)):
        stop = end_offsets[index]
        i = start + 4
        start = stop
        high = data[i]
        i += 4 + ((high << 24) | (data[i + 1] << 16) | (data[i + 2] << 8) | data[i + 3])
        if i + 10 <= stop and data[i] == 14 and data[i + 1] == 1:
            i += 6
        end = 0
        if i + 4 <= stop:
            high = data[i]
            end = i + 4 + ((high << 24) | (data[i + 1] << 16) | (data[i + 2] << 8) | data[i + 3])
            i += 4
        name = name_end = key = key_end = ordering = 0
        sequence_id = 0
        encoded = False
        readable = 0 < end <= stop
        while readable and i < end:
            tag = 0
            shift = 0
            byte = 128
            while i < end and byte >= 128 and shift < 35:
                byte = data[i]
                tag |= (byte & 127) << shift
                shift += 7
                i += 1
            readable = byte < 128
            wire_type = tag & 7
            if wire_type == 1 or wire_type == 5:
                i += 8 if wire_type == 1 else 4
            elif wire_type == 0 or wire_type == 2:
                value = 0
                shift = 0
                byte = 128
                while i < end and byte >= 128 and shift < 70:
                    byte = data[i]
                    value |= (byte & 127) << shift
                    shift += 7
                    i += 1
                if byte >= 128:
                    readable = False
                elif tag == 16:
                    sequence_id = value
                elif tag == 136:
                    encoded = value != 0
                elif wire_type == 2:
                    if value > end - i:
                        readable = False
                    else:
                        if tag == 10:
                            name, name_end = i, i + value
                        elif tag == 50 and not ordering:
                            key, key_end = i, i + value
                        elif tag == 146:
                            key, key_end, ordering = i, i + value, 1
                        i += value
            else:
                readable = False
        if not readable or i != end:
            hashes[index] = NO_KEY_HASH
        elif key and (ordering or not encoded):
            if compiled:
                hashes[index] = murmur(data, key, key_end)
            else:
                hashes[index] = mmh3_hash(bytes(data[key:key_end]), 0, False) & HASH_MAX
        elif key:
            hashes[index] = encoded_hash(bytes(data[key:key_end]))
        else:
            hashes[index] = nameless_hash(bytes(data[name:name_end]), sequence_id)
    return made


def encoded_hash(text: bytes) -> int:
    """Of a key in base64."""
    try:
        key = binascii.a2b_base64(text + b"=" * (-len(text) % 4), strict_mode=True)
    except ValueError:
        return NO_KEY_HASH
    return int(mmh3_hash(key, 0, False)) & HASH_MAX


def nameless_hash(producer: bytes, sequence_id: int) -> int:
    """Of a message without a key."""
    sequence_id &= 0xFFFFFFFFFFFFFFFF
    number = sequence_id - (1 << 64) if sequence_id >> 63 else sequence_id
    return int(mmh3_hash(producer + b"-%d" % number, 0, False)) & HASH_MAX


def route(
    hashes: array[int],
    first: int,
    last: int,
    slots: int,
    first_slot: int,
    bounds: array[int],
    owners: array[int],
    rooms: array[int],
    closed: Container[int],
    counts: list[int] | None,
    picked: list[list[int]],
    aside: list[int],
    aside_max: int,
) -> int:
    """Decides who gets the entries with index `first` to ``last - 1``: `picked` has a list for each owner, `aside` those that their
    owner cannot take now. Returns where it stopped: before the first entry that would be one more aside than `aside_max`, or when
    ``rooms[NOBODY]``, the messages that all owners together may still take, is used up.

    The slot of a hash is ``hash % slots + first_slot``, or 1 where that is 0. Its owner is that of the first of `bounds` (type "I",
    ascending) which is not below it; each has an owner (type "I"). `rooms`: how many messages an owner may still take (type "q"),
    which is counted down. `closed`: slots of which nobody gets anything. `counts`: the messages of each entry, None for one each.
    """
    compiled = COMPILED
    some_closed = bool(closed)
    for index in range(first, last):
        if rooms[0] <= 0:
            return index
        slot = hashes[index] % slots + first_slot
        if slot == 0:
            slot = 1
        if compiled:
            low = 0
            high = len(bounds)
            while low < high:
                middle = (low + high) >> 1
                if bounds[middle] < slot:
                    low = middle + 1
                else:
                    high = middle
        else:
            low = bisect_left(bounds, slot)
        owner = owners[low]
        if owner and rooms[owner] > 0 and not (some_closed and slot in closed):
            messages = 1 if counts is None else counts[index]
            rooms[owner] -= messages
            rooms[0] -= messages
            picked[owner].append(index)
        elif len(aside) >= aside_max:
            return index
        else:
            aside.append(index)
    return last
