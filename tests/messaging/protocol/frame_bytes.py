"""Bytes of frames, put together by hand."""

from __future__ import annotations


def whole(command: bytes, rest: bytes) -> bytes:
    """A frame around an encoded command and what follows it."""
    return (4 + len(command) + len(rest)).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command + rest


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
