"""Limits the responses that wait in memory for peers to read them, for all connections of a listener. Pure.

A connection is given no more data while a write is pending, so it holds at most one piece of a response. That piece may be large,
because it was made before the peer's speed was known. If all connections together hold too much, one is closed: of the address
that holds most, the one that has not read for the longest time. A single connection is never closed for what it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Generic, TypeVar

from messaging.client_address import place_of

UNREAD_BYTES_MAX = 64 << 20  # of a listener: three answers as large as the largest message, unpacked

Peer = TypeVar("Peer")


class UnreadResponses(Generic[Peer]):
    def __init__(self, bytes_max: int = UNREAD_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self.cut_off = 0  # connections, since the start
        self._held: dict[Peer, tuple[str, int]] = {}  # the one that has not read longest first
        self._by_address: Counter[str] = Counter()

    def waits(self, peer: Peer, address: str, size: int) -> list[Peer]:
        """So much waits for `peer` now. Returns whom to cut off for it, perhaps itself; they count no longer."""
        address = place_of(address)
        _, before = self._held.get(peer, (address, 0))
        if size:
            self._held[peer] = (address, size)
            self._count(address, size - before)
        else:
            self.leave(peer)
        return list(self._make_room())

    def leave(self, peer: Peer) -> None:
        """Nothing waits for it, or it is gone. Idempotent."""
        address, size = self._held.pop(peer, ("", 0))
        self._count(address, -size)

    def _make_room(self) -> Iterator[Peer]:
        while self.held_bytes > self.bytes_max and len(self._held) > 1:
            most = max(self._by_address, key=lambda address: self._by_address[address])
            leaves = next(peer for peer, (address, _) in self._held.items() if address == most)
            self.leave(leaves)
            self.cut_off += 1
            yield leaves

    def _count(self, address: str, more: int) -> None:
        self.held_bytes += more
        self._by_address[address] += more
        if not self._by_address[address]:
            del self._by_address[address]
