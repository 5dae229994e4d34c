"""The minimum rate at which a peer must send a request and read a response. Pure."""

from __future__ import annotations

BYTES_PER_S_MIN = 16 << 10  # a fifth of what the slowest mobile networks of today give


class Transfer:
    """A transfer may take `grace_s`, and a second more for each `BYTES_PER_S_MIN` bytes that have come through."""

    __slots__ = ("_began_s", "_grace_s", "moved_bytes")

    def __init__(self, now_s: float, grace_s: float) -> None:
        self._began_s = now_s
        self._grace_s = grace_s
        self.moved_bytes = 0

    def due_s(self) -> float:
        return self._began_s + self._grace_s + self.moved_bytes / BYTES_PER_S_MIN


def reads_too_slowly(waiting_bytes: int, read_bytes: int, passed_s: float) -> bool:
    """Whether a peer for which `waiting_bytes` waited read too few bytes since."""
    return read_bytes < min(waiting_bytes, passed_s * BYTES_PER_S_MIN)
