"""Loops that run once for each message received: they scan SEND and ACK frames. The package docstring states the rules."""

from __future__ import annotations

import struct

from crc32c import crc32c

from messaging.protocol.hot.common import SendFrame, varint
from messaging.protocol.hot.metadata import DELIVER_AT_KEY, deliver_at

COMPILED = not __file__.endswith(".py")
WALKS = COMPILED  # walking through metadata is cheaper than searching them for a key; a C constant where it is compiled

# Flags of a scanned SEND that keep it off the plain path.
TRANSACTION = 1
BAD_CHECKSUM = 2
MALFORMED = 4
MARKER = 8
# Counts that are impossible, or possible only if the payload is compressed: `messaging.protocol.batch.implausible` decides.
DOUBTFUL = 32
# Flags that stay on the plain path. The frame is a chunk of a larger message; all its chunks have the same sequence id.
CHUNK = 16
DELAYED = 64  # its metadata asks for a delivery time

ALL = 1 << 30  # frames: more than any read can contain
COPIED_BYTES_MAX = 4096  # up to this size a copy is cheaper than a view
SEND_HEAD = b"\x08\x06\x32"  # the type SEND, then the key of the field with the command
# The same values as in messaging.limits.sizes (a test compares them); compiled, they are constants.
BATCH_MESSAGES_MAX = 131072
BATCHED_MESSAGE_BYTES_MIN = 6
COUNT_MAX = 2147483647  # the largest value of the field; a larger one is reported as this
TWO_SIZES = struct.Struct(">II")  # the sizes of the frame and of its command
CHECKED = struct.Struct(">HII")  # the magic number of a checksum, the checksum, the size of the metadata


def scan(buf: bytes, pos: int, end: int, out: list[SendFrame], verified: bool = False, most: int = ALL) -> int:
    """Appends a `SendFrame` for each complete SEND frame from `pos` on. Returns the offset at which it stopped: at another command,
    at an incomplete frame, or when `out` has `most` frames. Verifies the CRC-32C of frames that have one, unless it was `verified`
    before, and flags a mismatch.
    """
    left = most - len(out)
    while end - pos >= 12 and left > 0:
        left -= 1
        high = buf[pos]  # a separate variable: in C, a byte of 128 or more shifted by 24 would be negative
        stop = pos + 4 + ((high << 24) | (buf[pos + 1] << 16) | (buf[pos + 2] << 8) | buf[pos + 3])
        if stop > end or stop < pos + 12 or buf[pos + 8] != 8 or buf[pos + 9] != 6:
            break
        high = buf[pos + 4]
        size = (high << 24) | (buf[pos + 5] << 16) | (buf[pos + 6] << 8) | buf[pos + 7]
        body = pos + 8 + size
        # Field 6 of the command: its length (at most two bytes, since a SEND is short), then the fields of Send up to its end.
        if size < 4 or body + 4 > stop or buf[pos + 10] != 50:
            i, length = pos, 0
        elif buf[pos + 11] < 128:
            i, length = pos + 12, buf[pos + 11]
        else:
            i, length = pos + 13, buf[pos + 11] & 127 | buf[pos + 12] << 7
        if i + length != body:
            out.append(SendFrame(0, 0, pos, pos, stop, 1, 0, MALFORMED))
            pos = stop
            continue
        frame = SendFrame.__new__(SendFrame)
        frame.start = pos
        frame.payload_start = body
        frame.end = stop
        frame.deliver_at_ms = 0
        if _read_fields(buf, i, body, frame) != body:
            frame.flags |= MALFORMED
        else:
            _check_message(buf, body, stop, frame, verified)
        out.append(frame)
        pos = stop
    return pos


def _read_fields(buf: bytes, i: int, stop: int, frame: SendFrame) -> int:
    """Reads the fields of Send from `i` to `stop` into `frame`. Returns where it stopped: at `stop` unless a field has no end.
    All are varints except message_id, which no client sends."""
    producer_id = sequence_id = highest = 0
    count = 1
    flags = 0
    while i < stop:
        key = buf[i]
        i += 1
        if key >= 128:  # a field number above 15: unknown, so only its type matters
            while i < stop and buf[i] >= 128:
                i += 1
            i += 1
            key &= 7
        if i < stop and buf[i] < 128:
            value = buf[i]
            i += 1
        else:
            value = 0
            shift = 0
            byte = 128
            while i < stop and byte >= 128 and shift <= 63:
                byte = buf[i]
                i += 1
                value |= (byte & 127) << shift
                shift += 7
            if byte >= 128 or (shift > 63 and byte > 1):  # unterminated, or more than 64 bits
                flags |= MALFORMED
                break
        if key == 8:
            producer_id = value
        elif key == 16:
            sequence_id = value
        elif key == 24:
            count = value
        elif key == 48:
            highest = value
        elif key == 32 or key == 40:
            flags |= TRANSACTION if value else 0
        elif key == 56:
            flags |= CHUNK if value else 0
        elif key == 64:
            flags |= MARKER if value else 0
        elif key & 7 == 2 and value <= stop - i:
            i += value
        elif key & 7 != 0:
            flags |= MALFORMED
            break
    if count != 1 and (count < 1 or count > BATCH_MESSAGES_MAX or count * BATCHED_MESSAGE_BYTES_MIN > frame.end - stop):
        flags |= DOUBTFUL
        count = min(count, COUNT_MAX)
    if (sequence_id | highest) >> 63:  # they are stored as signed numbers
        flags |= DOUBTFUL
    frame.producer_id = producer_id
    frame.sequence_id = sequence_id
    frame.message_count = count
    frame.highest_sequence_id = highest
    frame.flags = flags
    return i


def _check_message(buf: bytes, i: int, stop: int, frame: SendFrame, verified: bool) -> int:
    """Checks what follows the command, from `i` to `stop`: the checksum unless it was `verified`, and whether the metadata fits.
    Returns where the metadata would end."""
    if buf[i] == 14 and buf[i + 1] == 1 and i + 10 <= stop:
        expected = (buf[i + 2] << 24) | (buf[i + 3] << 16) | (buf[i + 4] << 8) | buf[i + 5]
        if not verified:
            covered = buf[i + 6 : stop] if stop - i < COPIED_BYTES_MAX else memoryview(buf)[i + 6 : stop]
            if crc32c(covered, 0, 0) != expected:  # 0: no other thread gets its turn meanwhile, that would take longer
                frame.flags |= BAD_CHECKSUM
        i += 6
    high = buf[i]
    size = (high << 24) | (buf[i + 1] << 16) | (buf[i + 2] << 8) | buf[i + 3]
    i += 4
    if i + size <= stop:
        if WALKS or DELIVER_AT_KEY in buf[i : i + size]:
            due = deliver_at(buf, i, i + size)
            if due:
                frame.deliver_at_ms = due
                frame.flags |= DELAYED
    elif not frame.flags & BAD_CHECKSUM:  # the metadata does not fit: no consumer could read this message
        frame.flags |= MALFORMED
    return i + size


def scan_sequential(buf: bytes, pos: int, end: int, out: list[SendFrame], verified: bool = False, most: int = ALL) -> int:
    """The same as `scan`, for uncompiled use, where reading a command byte by byte is the slowest way.

    What one producer sends at once differs, as a rule, in nothing but the sequence id, which goes up by what the message before
    counted. So a command is not read but compared with what it would be then; `scan` reads every one that is anything else.
    """
    producer_before = -1
    while end - pos >= 12 and len(out) < most:
        stop = pos + 4 + int.from_bytes(buf[pos : pos + 4], "big")
        if stop > end or scan(buf, pos, stop, out, verified) == pos:
            break
        frame = out[len(out) - 1]
        producer_id, sequence_id, body, count = frame.producer_id, frame.sequence_id, frame.payload_start, frame.message_count
        before, producer_before = producer_before, producer_id
        command = buf[pos + 8 : body]
        pos = stop
        if frame.flags or frame.highest_sequence_id or producer_id != before or len(command) > 127:
            continue
        least = max(10, count * BATCHED_MESSAGE_BYTES_MIN)
        head = command[:4] + b"\x08" + varint(producer_id) + b"\x10"
        tail = b"" if count == 1 else b"\x18" + varint(count)
        if command[:3] != SEND_HEAD or command != head + varint(sequence_id) + tail:
            continue
        while end - pos >= 12 and len(out) < most:
            sequence_id += count
            command = head + varint(sequence_id) + tail
            total, size = TWO_SIZES.unpack_from(buf, pos)
            stop = pos + 4 + total
            body = pos + 8 + size
            if stop > end or size != len(command) or not buf.startswith(command, pos + 8) or body + least > stop:
                break
            magic, expected, size = CHECKED.unpack_from(buf, body)
            if (
                magic != 0x0E01
                or body + 10 + size > stop
                or sequence_id >> 63
                or DELIVER_AT_KEY in buf[body + 10 : body + 10 + size]
            ):
                break
            if not verified and crc32c(buf[body + 6 : stop], 0, 0) != expected:
                break
            frame = SendFrame.__new__(SendFrame)
            frame.producer_id = producer_id
            frame.sequence_id = sequence_id
            frame.start = pos
            frame.payload_start = body
            frame.end = stop
            frame.message_count = count
            frame.highest_sequence_id = 0
            frame.flags = 0
            frame.deliver_at_ms = 0
            out.append(frame)
            pos = stop
    return pos
