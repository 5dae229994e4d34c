"""Who may hold a connection to an HTTP server, and who makes room for others. Pure.

A connection is *busy* while a request is worked on, a WebSocket for all its life; else it is *silent*: it has sent nothing yet, or
half a request, or rests between two. Whoever comes is let in. Where that is one too many, a silent one goes: the one that was
silent longest, of the address that has most of them. So whoever holds sockets without using them drives out its own, and a client
that sends its request when it has connected is served, however many there are.

Where all are busy a few more are let in, to ask whether the process is alive; other requests are refused there. Those places are
silent until their request has come, so that nobody can hold them.
"""

from __future__ import annotations

from collections import Counter
from typing import Generic, TypeVar

from messaging.client_address import place_of

Peer = TypeVar("Peer")


class ConnectionSlots(Generic[Peer]):
    def __init__(self, places_max: int, reserved: int = 16) -> None:
        self.places_max = places_max
        self.reserved = reserved
        self.taken = 0
        self.made_room = 0  # connections that had to go, since the start
        self.turned_away = 0
        self._addresses: dict[Peer, str] = {}
        self.silent_peers: dict[str, dict[Peer, None]] = {}  # by address, the longest silent first
        self.busy_peers: Counter[str] = Counter()

    @property
    def full(self) -> bool:
        """Whether a request on a connection that is let in now would be one too many."""
        return self.taken > self.places_max

    def arrive(self, peer: Peer, address: str) -> Peer | None:
        """`peer` is in. Returns who is to be closed for it, perhaps itself; that one counts no longer."""
        leaves = self._longest_silent() if self.taken >= self.places_max else None
        if leaves is None and self.taken >= self.places_max + self.reserved:
            self.turned_away += 1
            return peer
        if leaves is not None:
            self.made_room += 1
            self.leave(leaves)
        address = place_of(address)
        self._addresses[peer] = address
        self.taken += 1
        self.silent_peers.setdefault(address, {})[peer] = None
        return leaves

    def busy(self, peer: Peer) -> None:
        """Idempotent, as are the others."""
        address = self._addresses.get(peer)
        if address is not None and self._forget_silent(address, peer):
            self.busy_peers[address] += 1

    def silent(self, peer: Peer) -> None:
        address = self._addresses.get(peer)
        if address is not None and peer not in self.silent_peers.get(address, ()):
            self._forget_busy(address)
            self.silent_peers.setdefault(address, {})[peer] = None

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

    def _longest_silent(self) -> Peer | None:
        if not self.silent_peers:
            return None
        crowd = max(self.silent_peers, key=lambda address: len(self.silent_peers[address]))
        return next(iter(self.silent_peers[crowd]))

    def _forget_silent(self, address: str, peer: Peer) -> bool:
        found = self.silent_peers.get(address, {})
        if peer not in found:
            return False
        del found[peer]
        if not found:
            del self.silent_peers[address]
        return True

    def _forget_busy(self, address: str) -> None:
        self.busy_peers[address] -= 1
        if not self.busy_peers[address]:
            del self.busy_peers[address]
