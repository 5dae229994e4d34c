"""What the loops of both directions share: how a SEND frame and a block of them are described, and protobuf's numbers.

Where they are compiled, the classes are C structs (`common.pxd`): the loops make and read them without an object for each field.
They are made by `__new__` and filled field by field, because a call with eight arguments costs more than all the rest.
"""

from __future__ import annotations

from array import array

COMPILED = not __file__.endswith(".py")

VARINTS = [bytes((value,)) for value in range(128)]


class SendFrame:
    """A SEND frame in the bytes of a read. `payload_start`: what follows the command, which is checksum, metadata and the message
    itself, stored and sent on untouched. `highest_sequence_id` is 0 where the frame does not say it."""

    __slots__ = (
        "end",
        "flags",
        "highest_sequence_id",
        "message_count",
        "payload_start",
        "producer_id",
        "sequence_id",
        "start",
    )

    def __init__(
        self,
        producer_id: int,
        sequence_id: int,
        start: int,
        payload_start: int,
        end: int,
        message_count: int,
        highest_sequence_id: int,
        flags: int,
    ) -> None:
        self.producer_id = producer_id
        self.sequence_id = sequence_id
        self.start = start
        self.payload_start = payload_start
        self.end = end
        self.message_count = message_count
        self.highest_sequence_id = highest_sequence_id
        self.flags = flags


class BlockSummary:
    """Of a block of SEND frames: all flags together, sums, and where each frame ends when they stand back to back (type "I")."""

    __slots__ = ("end_offsets", "flags", "message_count", "payload_bytes")

    def __init__(self, flags: int, message_count: int, payload_bytes: int, end_offsets: array[int]) -> None:
        self.flags = flags
        self.message_count = message_count
        self.payload_bytes = payload_bytes
        self.end_offsets = end_offsets


def varint(value: int) -> bytes:
    """`value` >= 0 as protobuf's base-128 varint."""
    if value < 128:
        return VARINTS[value]
    if value < 16384:
        return bytes((value & 127 | 128, value >> 7))
    if value < 2097152:
        return bytes((value & 127 | 128, (value >> 7) & 127 | 128, value >> 14))
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
