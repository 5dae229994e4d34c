"""Fair shares of connections, in one table for the binary protocol and WebSockets. Pure.

Two groups do not compete with each other:

Unauthenticated connections have not authenticated yet. A new one is never refused: if there are too many, the address with the
most of them loses its oldest. Idle connections therefore displace only each other, and everybody else has time for a handshake.

Authenticated connections are limited to `connections_max`. Each tenant, and each address of clients without a key, may have no
more than are left for the others; each key no more than half of what is left. So a single tenant gets half of all connections and
one key a third, and a newcomer always finds room. A sixteenth is reserved for superusers and our own processes, which count
towards nobody's share. Addresses do not count for clients with a key, because a whole company or a proxy may be behind one
address.

The newcomer with the largest share is refused, instead of closing an older connection that already works.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from messaging.client_address import place_of

Peer = TypeVar("Peer")

RESERVED_SHARE = 16  # 1/16 is reserved for superusers and our own processes
CONNECTIONS_CEILING = "max_connections_per_tenant"
KEY_SHARE = 2  # a key may have 1/2 of what is left


class ConnectionLimits(NamedTuple):
    """0 means no limit other than the fair share."""

    connections_max: int
    unauthenticated_max: int
    of_key_max: int = 0
    of_address_max: int = 0

    @property
    def reserved(self) -> int:
        return max(1, self.connections_max // RESERVED_SHARE) if self.connections_max > 1 else 0


class TenantCeiling(NamedTuple):
    """How many connections a tenant may have by the policy `CONNECTIONS_CEILING`, and where that is set; 0: its share."""

    connections_max: int = 0
    level: str = ""


NO_CEILING = TenantCeiling()


class ConnectionOwner(NamedTuple):
    """The owner of a connection. `key_id` is empty for a client without a key."""

    tenant: str
    key_id: str = ""
    privileged: bool = False  # a superuser or one of our own processes
    delegated: bool = False  # another broker connects on its behalf, and counts what the client is connected with


class ConnectionShares(Generic[Peer]):
    """`peer` is any object that represents a connection. Each peer that arrives leaves once; leaving twice is harmless."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.by_tenant: Counter[str] = Counter()
        self.elsewhere: Mapping[str, int] = {}  # connections of tenants at other brokers, which count for their ceilings
        self.delegated: Counter[str] = Counter()  # by tenant, those on behalf of clients of other brokers
        self.by_key: Counter[str] = Counter()
        self.by_address: Counter[str] = Counter()  # of authenticated clients without a key
        self._waiting: dict[str, OrderedDict[Peer, None]] = {}  # unauthenticated peers by address, oldest first
        self._addresses: dict[Peer, str] = {}  # of all peers
        self._owners: dict[Peer, ConnectionOwner] = {}
        self._unauthenticated = 0

    @property
    def authenticated(self) -> int:
        return len(self._owners)

    @property
    def unauthenticated(self) -> int:
        return self._unauthenticated

    def by_tenant_and_key(self) -> Counter[tuple[str, str]]:
        """Counts now: walks over all that have authenticated."""
        return Counter((owner.tenant, owner.key_id) for owner in self._owners.values() if not (owner.privileged or owner.delegated))

    def arrive(self, peer: Peer, address: str) -> Peer | None:
        """Adds `peer`. Returns the peer that must be closed instead, which is no longer counted; it may have the same address."""
        address = place_of(address)
        self._addresses[peer] = address
        self._waiting.setdefault(address, OrderedDict())[peer] = None
        self._unauthenticated += 1
        if self._unauthenticated <= self.limits.unauthenticated_max:
            return None
        crowd = max(self._waiting.values(), key=len)
        oldest = next(iter(crowd))
        self.leave(oldest)
        return oldest

    def sign_in(self, peer: Peer, owner: ConnectionOwner, ceiling: TenantCeiling = NO_CEILING) -> str:
        """`peer` has authenticated. Returns why there is no room for it, or "". It still has to `leave`."""
        address = self._addresses.get(peer)
        if address is None:
            return "the connection was ended to make room for others"
        if peer in self._owners:
            return ""
        reason = self._reached(owner, ceiling) or self._full(owner, address)
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

    def _reached(self, owner: ConnectionOwner, ceiling: TenantCeiling) -> str:
        limit, count = ceiling.connections_max, self.by_tenant[owner.tenant] + self.elsewhere.get(owner.tenant, 0)
        if owner.privileged or not limit or count < limit:
            return ""
        return (
            f"tenant {owner.tenant!r} has {count} connections, which is {CONNECTIONS_CEILING} = {limit}, set on the "
            f"{ceiling.level}: close some, share one client, or have an administrator of the platform raise it"
        )

    def _full(self, owner: ConnectionOwner, address: str) -> str:
        limits = self.limits
        left = limits.connections_max - len(self._owners)
        if owner.privileged:
            return "" if left > 0 else f"all {limits.connections_max} connections (connections_max) are taken"
        left -= limits.reserved
        if owner.delegated:
            count = self.delegated[owner.tenant]
            if left > 0 and (not count or count < left):
                return ""
            return f"tenant {owner.tenant!r} has {count} connections from other brokers, and {max(0, left)} are left for everybody"
        for whose, count, share, most in (
            (f"tenant {owner.tenant!r}", self.by_tenant[owner.tenant], 1, 0),
            (f"key {owner.key_id!r}", self.by_key[owner.key_id] if owner.key_id else 0, KEY_SHARE, limits.of_key_max),
            (f"address {address}", self.by_address[address] if not owner.key_id else 0, 1, limits.of_address_max),
        ):
            if (most and count >= most) or (count and (count + 1) * share > left) or left <= 0:
                return (
                    f"{whose} has {count} connections and {max(0, left)} of connections_max = {limits.connections_max} "
                    "are left for everybody: close some, or share one client"
                )
        return ""

    def _count(self, owner: ConnectionOwner, address: str, change: int) -> None:
        if owner.privileged:
            return
        counters = [(self.delegated if owner.delegated else self.by_tenant, owner.tenant)]
        if not owner.delegated:
            counters.append((self.by_key, owner.key_id) if owner.key_id else (self.by_address, address))
        for counter, name in counters:
            counter[name] += change
            if not counter[name]:
                del counter[name]

    def _forget_waiting(self, peer: Peer, address: str) -> None:
        crowd = self._waiting[address]
        del crowd[peer]
        if not crowd:
            del self._waiting[address]
        self._unauthenticated -= 1
