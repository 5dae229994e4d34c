"""Which connections to an HTTP server may stay open, and which are closed to make room for others. Pure.

A connection is *busy* while a request is processed, and a WebSocket is busy as long as its application works on it. Otherwise it
is *silent*: it has sent nothing yet or only part of a request, it is idle between two requests, or it is being closed and its peer
has not answered that yet. New connections are always accepted. If there are then too many, the longest silent one of the address
with the most of them is closed. So clients that hold idle connections, or do not let go of closed ones, displace only their own,
and a client that sends its request at once is served, however many there are.

If all are busy, a few more are accepted to answer health checks; other requests on them are refused, and so are upgrades. These
slots are silent until their request has arrived and again when it is refused, so nobody can occupy them.

A WebSocket whose owner is known has a place among the connections that its application counts, and none here (`leave`). When the
application has done with it, it is one of the silent here until it is closed (`return_silent`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Generic, TypeVar

from messaging.client_address import place_of

Peer = TypeVar("Peer")

RESERVED = 16  # connections beyond the limit, for health checks


class ConnectionSlots(Generic[Peer]):
    def __init__(self, places_max: int, reserved: int = RESERVED) -> None:
        self.places_max = places_max
        self.reserved = reserved
        self.taken = 0
        self.made_room = 0  # connections that had to go, since the start
        self.turned_away = 0
        self._addresses: dict[Peer, str] = {}
        self.silent_peers: dict[str, OrderedDict[Peer, None]] = {}  # by address, the longest silent first
        self.busy_peers: Counter[str] = Counter()

    @property
    def full(self) -> bool:
        """Whether a request on a connection that is let in now would be one too many."""
        return self.taken > self.places_max

    def arrive(self, peer: Peer, address: str) -> Peer | None:
        """`peer` is in. Returns who is to be closed for it, perhaps itself; that one counts no longer."""
        return self._let_in(peer, address, self.places_max + self.reserved)

    def busy(self, peer: Peer) -> None:
        """Idempotent, as are the others."""
        address = self._addresses.get(peer)
        if address is not None and self._forget_silent(address, peer):
            self.busy_peers[address] += 1

    def silent(self, peer: Peer) -> None:
        address = self._addresses.get(peer)
        if address is not None and peer not in self.silent_peers.get(address, ()):
            self._forget_busy(address)
            self.silent_peers.setdefault(address, OrderedDict())[peer] = None

    def return_silent(self, peer: Peer, address: str) -> Peer | None:
        """As `arrive`, of one that left and is being closed: the places for health checks are not for it."""
        return None if peer in self._addresses else self._let_in(peer, address, self.places_max)

    def leave(self, peer: Peer) -> None:
        address = self._addresses.pop(peer, None)
        if address is not None:
            self.taken -= 1
            if not self._forget_silent(address, peer):
                self._forget_busy(address)

    def replace(self, former: Peer, following: Peer) -> None:
        """`following` goes on with the connection of `former`: an upgrade."""
        address = self._addresses.get(former)
        if address is not None:
            self.leave(former)
            self._addresses[following] = address
            self.taken += 1
            self.busy_peers[address] += 1

    def _let_in(self, peer: Peer, address: str, places: int) -> Peer | None:
        leaves = self._longest_silent() if self.taken >= self.places_max else None
        if leaves is None and self.taken >= places:
            self.turned_away += 1
            return peer
        if leaves is not None:
            self.made_room += 1
            self.leave(leaves)
        address = place_of(address)
        self._addresses[peer] = address
        self.taken += 1
        self.silent_peers.setdefault(address, OrderedDict())[peer] = None
        return leaves

    def _longest_silent(self) -> Peer | None:
        if not self.silent_peers:
            return None
        crowd = max(self.silent_peers, key=lambda address: len(self.silent_peers[address]))
        return next(iter(self.silent_peers[crowd]))

    def _forget_silent(self, address: str, peer: Peer) -> bool:
        peers = self.silent_peers.get(address, OrderedDict())
        if peer not in peers:
            return False
        del peers[peer]
        if not peers:
            del self.silent_peers[address]
        return True

    def _forget_busy(self, address: str) -> None:
        self.busy_peers[address] -= 1
        if not self.busy_peers[address]:
            del self.busy_peers[address]
