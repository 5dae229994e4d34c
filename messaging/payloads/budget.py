"""How much may be made of a payload, and the error where it is not what it should be.

A few bytes can stand for millions of values: an Avro array of nulls takes none for each. So values are counted as they are made.
"""

from __future__ import annotations

from typing import Any

VALUES_MAX = 10_000  # of one payload
DEPTH_MAX = 64
NAME_BYTES = 64  # of a name that a definition gives: each so many count as a further value, since it is repeated with each


class PayloadError(ValueError):
    """The payload is not what its schema or format says, or larger than what is decoded. The text is for people."""


class Budget:
    """How many more values may be made."""

    __slots__ = ("left",)

    def __init__(self, values_max: int = VALUES_MAX) -> None:
        self.left = values_max

    def spend(self, values: int = 1) -> None:
        """Raises `PayloadError`."""
        self.left -= values
        if self.left < 0:
            raise PayloadError(f"it holds more than {VALUES_MAX} values, which are not decoded")

    def spend_name(self, name: str) -> None:
        """For a name that is not in the payload: a byte of it may stand for a name of a million. Raises `PayloadError`."""
        if len(name) >= NAME_BYTES:
            self.spend(len(name) // NAME_BYTES)


class Input:
    """The bytes of a payload, from the front."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def take(self, size: int) -> bytes:
        """Raises `PayloadError` where there are fewer."""
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise PayloadError(f"it ends after {len(self.data)} bytes, within a value")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def byte(self) -> int:
        if self.position >= len(self.data):
            raise PayloadError(f"it ends after {len(self.data)} bytes, within a value")
        self.position += 1
        return self.data[self.position - 1]

    def number(self, size: int) -> int:
        """Unsigned, big-endian."""
        return int.from_bytes(self.take(size), "big")

    def varint(self) -> int:
        """Seven bits a byte, the least first; 64 bits at most."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (1 << 64) - 1
            shift += 7
            if shift > 63:
                raise PayloadError("a number has more than ten bytes")


def check_depth(depth: int) -> None:
    if depth > DEPTH_MAX:
        raise PayloadError(f"it is nested more than {DEPTH_MAX} levels deep")


def text_of(data: bytes) -> str:
    """Raises `PayloadError`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise PayloadError("a text in it is not UTF-8") from None


def key_of(value: Any) -> str:
    """A key of a map, as a member of an object is named. Raises `PayloadError` for one that is a map or a list: written out in a
    name, and that in another, each level doubles what is quoted."""
    if isinstance(value, dict | list):
        raise PayloadError("a key in it is a map or a list")
    return value if isinstance(value, str) else repr(value)


def shown_bytes(data: bytes) -> str:
    """Bytes in a decoded value, of which JSON has none."""
    return f"0x{data.hex()}"


def shown_number(value: float) -> float | str:
    """As JSON has it, which knows no infinity."""
    return value if value - value == 0 else str(value)
