"""Frames of equal size that follow one another, handled column by column: a consumer that costs next to nothing a message.

What one producer sends differs in a few bytes only, so that its messages, and the receipts for them, come in long runs of one size.
Byte k of all of them is one strided slice, which C copies; no statement here runs once for each message.
"""

from __future__ import annotations

from tests.benchmarks import wire

# size u32 | command u32 | 08 kind | .. n | 08 consumer 12 m | m bytes of message id: sizes, kind, n and m have to be equal
_COLUMNS: dict[int, tuple[int, ...]] = {wire.MESSAGE: (2, 3, 7, 9, 11, 15), wire.SEND_RECEIPT: (3, 7, 9)}
_OTHERS = (2, 3, 9)


def run_at(data: bytearray, at: int, end: int) -> tuple[int, int, int]:
    """(kind, size, count) of the whole frames from `at` on that are alike; the count is 0 where the first one is not complete."""
    if end - at < 10:
        return 0, 0, 0
    kind, size = data[at + 9], 4 + int.from_bytes(data[at : at + 4], "big")
    count = (end - at) // size
    for offset in _COLUMNS.get(kind, _OTHERS):
        if count > 1:
            column = data[at + offset : at + count * size : size]
            count = len(column) - len(column.lstrip(column[:1]))
    return kind, size, count


def acks(data: bytearray, at: int, size: int, count: int) -> bytearray:
    """Individual acknowledgements of `count` MESSAGE frames of one size, each in a frame of its own: their ids as they came."""
    id_bytes = data[at + 15]
    ack_size = id_bytes + 6
    head = (ack_size + 8).to_bytes(4, "big") + (ack_size + 4).to_bytes(4, "big") + b"\x08\x0a\x52"
    template = head + bytes((ack_size, 0x08, 1, 0x10, 0, 0x1A, id_bytes)) + bytes(id_bytes)
    made = bytearray(template * count)
    step, end = len(template), at + count * size
    for index in range(id_bytes):
        made[step - id_bytes + index :: step] = data[at + 16 + index : end : size]
    return made
