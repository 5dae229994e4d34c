"""Shared by the loops of both directions: SEND frames and blocks of them, and protobuf's varints.

Where they are compiled, the classes are C structs (`common.pxd`): the loops make and read them without an object for each field.
They are made by `__new__` and filled field by field, because a call with eight arguments costs more than all the rest.
"""

from __future__ import annotations

from array import array

COMPILED = not __file__.endswith(".py")

VARINTS = [bytes((value,)) for value in range(128)]


class SendFrame:
    """A SEND frame in the bytes of a read. From `payload_start` on follow the checksum, the metadata and the message itself, which
    are stored and forwarded unchanged. `highest_sequence_id` is 0 if the frame has none, and `deliver_at_ms` if its metadata
    asks for no delivery time."""

    __slots__ = (
        "deliver_at_ms",
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
        deliver_at_ms: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.sequence_id = sequence_id
        self.start = start
        self.payload_start = payload_start
        self.end = end
        self.message_count = message_count
        self.highest_sequence_id = highest_sequence_id
        self.flags = flags
        self.deliver_at_ms = deliver_at_ms


class BlockSummary:
    """A block of SEND frames: the union of their flags, sums, and the end offset of each frame in the block (type "I")."""

    __slots__ = ("end_offsets", "flags", "message_count", "payload_bytes")

    def __init__(self, flags: int, message_count: int, payload_bytes: int, end_offsets: array[int]) -> None:
        self.flags = flags
        self.message_count = message_count
        self.payload_bytes = payload_bytes
        self.end_offsets = end_offsets


def group_by_producer(frames: list[SendFrame]) -> list[list[SendFrame]]:
    """`frames` by producer id, in the order received; producers in the order of their first frames."""
    if not frames:
        return []
    producer_id = frames[0].producer_id
    for frame in frames:
        if frame.producer_id != producer_id:
            break
    else:
        return [frames]
    groups: dict[int, list[SendFrame]] = {}
    for frame in frames:
        group = groups.get(frame.producer_id)
        if group is None:
            groups[frame.producer_id] = [frame]
        else:
            group.append(frame)
    return list(groups.values())


def summarize(frames: list[SendFrame]) -> BlockSummary:
    flags = 0
    messages = 0
    payload = 0
    total = 0
    end_offsets = []
    for frame in frames:
        total += frame.end - frame.start
        payload += frame.end - frame.payload_start
        messages += frame.message_count
        flags |= frame.flags
        end_offsets.append(total)
    summary = BlockSummary.__new__(BlockSummary)
    summary.flags = flags
    summary.message_count = messages
    summary.payload_bytes = payload
    summary.end_offsets = array("I", end_offsets)
    return summary


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
