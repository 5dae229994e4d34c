"""Loops that run once for each message sent: they build receipts and MESSAGE frames. The package docstring states the rules."""

from __future__ import annotations

from collections.abc import Sequence

from messaging.protocol.hot.common import SendFrame, varint

COMPILED = not __file__.endswith(".py")

VARINTS = [varint(value) for value in range(128)]
LENGTHS = [value.to_bytes(4, "big") for value in range(256)]
HEAD_BYTES_MAX = 47  # of a message, without its `tail`: two sizes 8, keys and lengths 9, three numbers of up to 10
RECEIPT_BYTES_MAX = 69  # before its fields 12, their keys and the length of the message id 7, five numbers of up to 10


def width(value: int) -> int:
    """Bytes of `varint(value)`."""
    size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size


def put(out: bytearray, at: int, value: int) -> int:
    """Writes `varint(value)` at `at`; returns where it ends."""
    while value >= 128:
        out[at] = value & 127 | 128
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


def receipts(frames: list[SendFrame], first: int, last: int, ledger_id: int, entry_id: int, step: int = 1) -> bytes:
    """SEND_RECEIPT frames for ``frames[first:last]``, in send order; their entries are `entry_id` and following of `ledger_id`.
    `step`: 0 if all have the same id, because they are not stored."""
    made = bytearray((last - first) * RECEIPT_BYTES_MAX)
    out = made  # a pointer in C: bounds are not checked
    at = 0
    ledger_size = width(ledger_id)
    for index in range(first, last):
        frame = frames[index]
        producer_id = frame.producer_id
        sequence_id = frame.sequence_id
        highest = frame.highest_sequence_id
        id_size = 2 + ledger_size + width(entry_id)
        size = 4 + width(producer_id) + width(sequence_id) + id_size
        if highest:
            size += 1 + width(highest)
        out[at + 3] = size + 8
        out[at + 7] = size + 4
        out[at + 8] = 8
        out[at + 9] = 7
        out[at + 10] = 58
        out[at + 11] = size
        out[at + 12] = 8
        at = put(out, at + 13, producer_id)
        out[at] = 16
        at = put(out, at + 1, sequence_id)
        out[at] = 26
        out[at + 1] = id_size
        out[at + 2] = 8
        at = put(out, at + 3, ledger_id)
        out[at] = 16
        at = put(out, at + 1, entry_id)
        if highest:
            out[at] = 32
            at = put(out, at + 1, highest)
        entry_id += step
    return bytes(made[:at])


def joined_receipts(frames: list[SendFrame], first: int, last: int, ledger_id: int, entry_id: int, step: int = 1) -> bytes:
    """The same as `receipts`, for uncompiled use: see `joined_messages`."""
    parts = []
    ledger = b"\x08" + varint(ledger_id) + b"\x10"
    producer_id = -1
    begin = b""
    for index in range(first, last):
        frame = frames[index]
        if frame.producer_id != producer_id:  # nearly always all have the same producer
            producer_id = frame.producer_id
            begin = b"\x08" + varint(producer_id) + b"\x10"
        message_id = ledger + varint(entry_id)
        body = begin + varint(frame.sequence_id) + b"\x1a" + VARINTS[len(message_id)] + message_id
        if frame.highest_sequence_id:
            body += b"\x20" + varint(frame.highest_sequence_id)
        size = len(body)
        parts.append(LENGTHS[size + 8] + LENGTHS[size + 4] + b"\x08\x07\x3a" + VARINTS[size] + body)
        entry_id += step
    return b"".join(parts)


def messages(
    data: bytes | memoryview,
    end_offsets: Sequence[int],
    first: int,
    last: int,
    ledger_id: int,
    entry_id: int,
    consumer_id: int,
    tail: bytes,
) -> memoryview:
    """The MESSAGE frames that bring entries `first` to ``last - 1`` of a block to a consumer; `entry_id` is that of the first.

    `data` and `end_offsets` (an array of typecode "I") as in `EntryBlock`: whole SEND frames, whose commands are left out here.
    `tail`: the fields of the message id that follow the entry id, the same for all: see `message_id_tail`.
    """
    start = end_offsets[first - 1] if first else 0
    made = bytearray(end_offsets[last - 1] - start + (last - first) * (HEAD_BYTES_MAX + len(tail)))
    out = memoryview(made)
    at = size = place = longer_from = 0
    for index in range(first, last):
        stop = end_offsets[index]
        high = data[start + 4]
        body = start + 8 + ((high << 24) | (data[start + 5] << 16) | (data[start + 6] << 8) | data[start + 7])
        if entry_id >= longer_from:  # the length of its varint changes
            number = varint(entry_id)
            longer_from = 1 << 7 * len(number) if len(number) < 9 else entry_id
            head = memoryview(message_head(0, ledger_id, entry_id, consumer_id, tail))
            size = len(head)
            place = size - len(tail) - len(number)
        out[at : at + size] = head
        high = size - 4 + stop - body
        out[at] = high >> 24 & 255
        out[at + 1] = high >> 16 & 255
        out[at + 2] = high >> 8 & 255
        out[at + 3] = high & 255
        i = at + place
        value = entry_id
        while value >= 128:
            out[i] = value & 127 | 128
            value >>= 7
            i += 1
        out[i] = value
        at += size
        out[at : at + stop - body] = data[body:stop]
        at += stop - body
        start = stop
        entry_id += 1
    return memoryview(made)[:at]


def message_head(payload_bytes: int, ledger_id: int, entry_id: int, consumer_id: int, tail: bytes) -> bytes:
    """The frame of one large message up to its `payload_bytes`, which `messages` would copy. `tail`: see there."""
    message_id = b"\x08" + varint(ledger_id) + b"\x10" + varint(entry_id) + tail
    command = b"\x08" + varint(consumer_id) + b"\x12" + VARINTS[len(message_id)] + message_id
    command = b"\x08\x09\x4a" + VARINTS[len(command)] + command
    return (len(command) + 4 + payload_bytes).to_bytes(4, "big") + LENGTHS[len(command)] + command


def joined_messages(
    data: bytes | memoryview,
    end_offsets: Sequence[int],
    first: int,
    last: int,
    ledger_id: int,
    entry_id: int,
    consumer_id: int,
    tail: bytes,
) -> bytes:
    """The same as `messages`, for uncompiled use, where writing byte by byte through views is the slowest way."""
    prefix = b"\x08" + varint(consumer_id) + b"\x12"
    ledger = b"\x08" + varint(ledger_id) + b"\x10"
    begin = end_offsets[first - 1] if first else 0
    sends = bytes(data[begin : end_offsets[last - 1]])
    parts = []
    start = size = longer_from = 0
    head = b""
    for index in range(first, last):
        stop = end_offsets[index] - begin
        number = varint(entry_id)
        if entry_id >= longer_from:  # the length of the varint changes
            longer_from = 1 << 7 * len(number)
            command = prefix + VARINTS[len(ledger) + len(number) + len(tail)] + ledger
            size = len(command) + len(number) + len(tail)
            head = LENGTHS[size + 4] + b"\x08\x09\x4a" + VARINTS[size] + command
        body = start + 8 + int.from_bytes(sends[start + 4 : start + 8], "big")
        parts.append((size + 8 + stop - body).to_bytes(4, "big") + head + number + tail + sends[body:stop])
        start = stop
        entry_id += 1
    return b"".join(parts)


def picked_messages(
    data: bytes | memoryview,
    end_offsets: Sequence[int],
    picked: list[int],
    ledger_id: int,
    first_entry: int,
    consumer_id: int,
    tail: bytes,
) -> memoryview:
    """Like `messages`, for the entries whose indexes are `picked`, in order; `first_entry` is that of index 0."""
    size = len(picked) * (HEAD_BYTES_MAX + len(tail))
    for index in picked:
        size += end_offsets[index] - (end_offsets[index - 1] if index else 0)
    made = bytearray(size)
    out = memoryview(made)
    at = size = place = longer_from = 0
    for index in picked:
        start = end_offsets[index - 1] if index else 0
        stop = end_offsets[index]
        entry_id = first_entry + index
        high = data[start + 4]
        body = start + 8 + ((high << 24) | (data[start + 5] << 16) | (data[start + 6] << 8) | data[start + 7])
        if entry_id >= longer_from:  # the length of its varint changes
            number = varint(entry_id)
            longer_from = 1 << 7 * len(number) if len(number) < 9 else entry_id
            head = memoryview(message_head(0, ledger_id, entry_id, consumer_id, tail))
            size = len(head)
            place = size - len(tail) - len(number)
        out[at : at + size] = head
        high = size - 4 + stop - body
        out[at] = high >> 24 & 255
        out[at + 1] = high >> 16 & 255
        out[at + 2] = high >> 8 & 255
        out[at + 3] = high & 255
        i = at + place
        value = entry_id
        while value >= 128:
            out[i] = value & 127 | 128
            value >>= 7
            i += 1
        out[i] = value
        at += size
        out[at : at + stop - body] = data[body:stop]
        at += stop - body
    return memoryview(made)[:at]


def joined_picked_messages(
    data: bytes | memoryview,
    end_offsets: Sequence[int],
    picked: list[int],
    ledger_id: int,
    first_entry: int,
    consumer_id: int,
    tail: bytes,
) -> bytes:
    """The same as `picked_messages`, for uncompiled use."""
    prefix = b"\x08" + varint(consumer_id) + b"\x12"
    ledger = b"\x08" + varint(ledger_id) + b"\x10"
    parts = []
    for index in picked:
        frame = bytes(data[end_offsets[index - 1] if index else 0 : end_offsets[index]])
        message_id = ledger + varint(first_entry + index) + tail
        command = prefix + VARINTS[len(message_id)] + message_id
        size = len(command)
        body = 8 + int.from_bytes(frame[4:8], "big")
        head = LENGTHS[size + 4] + b"\x08\x09\x4a" + VARINTS[size] + command
        parts.append((size + 8 + len(frame) - body).to_bytes(4, "big") + head + frame[body:])
    return b"".join(parts)
