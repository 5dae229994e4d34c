"""How many connections each may have, whatever they speak: one table for the binary protocol and for WebSockets. Pure.

Two groups that take nothing from each other:

*Unauthenticated*: they have come and have not said who they are. A newcomer is never refused: where there are too many, the address
that has most of them loses its oldest. So silent sockets drive out each other, and everybody else has the time of a handshake.

*Authenticated*: at most `connections_max`. Each tenant, and each address of those who came without a key, may have no more than are
left for the others; each key no more than half of what is left. So one tenant alone has half of them, one key a third, and whoever
comes next finds a place however many the first one took. A sixteenth is kept for superusers and our own processes, who are in
nobody's share. Addresses do not count for those who came with a key: behind one address there may be a whole company, or a proxy.

Refusing the newcomer of the largest share, rather than ending an older connection, leaves alone what already works.
"""

from __future__ import annotations

from collections import Counter
from typing import Generic, NamedTuple, TypeVar

from messaging.client_address import place_of

Peer = TypeVar("Peer")

RESERVED_SHARE = 16  # one of so many places is for superusers and our own processes
KEY_SHARE = 2  # a key may have one part of so many of what is left


class ConnectionLimits(NamedTuple):
    """0 stands for no bound but the share."""

    connections_max: int
    unauthenticated_max: int
    of_tenant_max: int = 0
    of_key_max: int = 0
    of_address_max: int = 0

    @property
    def reserved(self) -> int:
        return max(1, self.connections_max // RESERVED_SHARE) if self.connections_max > 1 else 0


class ConnectionOwner(NamedTuple):
    """Whose connection it is. `key_id` is empty for those who came without a key."""

    tenant: str
    key_id: str = ""
    privileged: bool = False  # a superuser, or a process of ours


class ConnectionShares(Generic[Peer]):
    """`peer` is whatever stands for a connection. Each that arrives leaves, once; leaving twice does no harm."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.by_tenant: Counter[str] = Counter()
        self.by_key: Counter[str] = Counter()
        self.by_address: Counter[str] = Counter()  # of those who are authenticated without a key
        self._waiting: dict[str, dict[Peer, None]] = {}  # unauthenticated by address, the oldest first
        self._addresses: dict[Peer, str] = {}  # of every peer
        self._owners: dict[Peer, ConnectionOwner] = {}
        self._unauthenticated = 0

    @property
    def authenticated(self) -> int:
        return len(self._owners)

    @property
    def unauthenticated(self) -> int:
        return self._unauthenticated

    def arrive(self, peer: Peer, address: str) -> Peer | None:
        """`peer` has come. Returns who has to go instead, who then counts no longer; it may be of the same address."""
        address = place_of(address)
        self._addresses[peer] = address
        self._waiting.setdefault(address, {})[peer] = None
        self._unauthenticated += 1
        if self._unauthenticated <= self.limits.unauthenticated_max:
            return None
        crowd = max(self._waiting.values(), key=len)
        oldest = next(iter(crowd))
        self.leave(oldest)
        return oldest

    def sign_in(self, peer: Peer, owner: ConnectionOwner) -> str:
        """`peer` is known now. Returns why there is no place for it, or "". It still leaves by `leave`."""
        address = self._addresses.get(peer)
        if address is None:
            return "the connection was ended to make room for others"
        if peer in self._owners:
            return ""
        reason = self._full(owner, address)
        if reason:
            return reason
        self._forget_waiting(peer, address)
        self._owners[peer] = owner
        self._count(owner, address, 1)
        return ""

    def leave(self, peer: Peer) -> None:
        address = self._addresses.pop(peer, None)
        if address is None:
            return
        owner = self._owners.pop(peer, None)
        if owner is None:
            self._forget_waiting(peer, address)
        else:
            self._count(owner, address, -1)

    def _full(self, owner: ConnectionOwner, address: str) -> str:
        limits = self.limits
        left = limits.connections_max - len(self._owners)
        if owner.privileged:
            return "" if left > 0 else f"all {limits.connections_max} connections (connections_max) are taken"
        left -= limits.reserved
        for whose, held, share, most in (
            (f"tenant {owner.tenant!r}", self.by_tenant[owner.tenant], 1, limits.of_tenant_max),
            (f"key {owner.key_id!r}", self.by_key[owner.key_id] if owner.key_id else 0, KEY_SHARE, limits.of_key_max),
            (f"address {address}", self.by_address[address] if not owner.key_id else 0, 1, limits.of_address_max),
        ):
            if (most and held >= most) or (held and (held + 1) * share > left) or left <= 0:
                return (
                    f"{whose} has {held} connections and {max(0, left)} of connections_max = {limits.connections_max} "
                    "are left for everybody: close some, or share one client"
                )
        return ""

    def _count(self, owner: ConnectionOwner, address: str, change: int) -> None:
        if owner.privileged:
            return
        held = [(self.by_tenant, owner.tenant)]
        held.append((self.by_key, owner.key_id) if owner.key_id else (self.by_address, address))
        for counter, name in held:
            counter[name] += change
            if not counter[name]:
                del counter[name]

    def _forget_waiting(self, peer: Peer, address: str) -> None:
        crowd = self._waiting[address]
        del crowd[peer]
        if not crowd:
            del self._waiting[address]
        self._unauthenticated -= 1
