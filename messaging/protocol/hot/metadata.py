"""Reads single fields of a message's metadata without parsing all of it. The package docstring states the rules."""

from __future__ import annotations

COMPILED = not __file__.endswith(".py")

DELIVER_AT_KEY = b"\x98\x01"  # the key of `Metadata.deliver_at_time`: field 19, a varint


def deliver_at(buf: bytes, pos: int, stop: int) -> int:
    """The delivery time that metadata at `pos`..`stop` asks for, milliseconds since 1970; 0 if it asks for none that can be.

    `stop` must not be beyond the end of `buf`. Metadata that cannot be read asks for none: no consumer can read it either."""
    at_ms = 0
    while pos < stop:
        key = 0
        shift = 0
        byte = 128
        while pos < stop and byte >= 128 and shift < 35:
            byte = buf[pos]
            pos += 1
            key |= (byte & 127) << shift
            shift += 7
        kind = key & 7
        if byte >= 128 or kind == 3 or kind == 4 or kind > 5:
            return 0
        if kind == 1 or kind == 5:
            pos += 8 if kind == 1 else 4
            continue
        value = 0
        shift = 0
        byte = 128
        while pos < stop and byte >= 128 and shift <= 63:
            byte = buf[pos]
            pos += 1
            value |= (byte & 127) << shift
            shift += 7
        if byte >= 128 or (shift > 63 and byte > 1):
            return 0
        if kind == 0:
            if key == 152:
                at_ms = 0 if value >> 63 else value  # of several the last one counts; a negative one asks for nothing
        elif value > stop - pos:
            return 0
        else:
            pos += value
    return at_ms if pos == stop else 0
