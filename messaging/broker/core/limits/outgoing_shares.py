"""Fair shares of a broker's connections to the others of its fleet, which it has on behalf of clients. Pure.

A client with one WebSocket may need one to each broker, for each topic. So its tenant may have no more of them than are left for
everybody, as with the connections of clients.
"""

from __future__ import annotations

from collections import Counter

from messaging.errors import NotReady


class OutgoingShares:
    """As many as `connections_max`, for each of which there is an open file."""

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self.by_tenant: Counter[str] = Counter()
        self.total = 0

    def take(self, tenant: str) -> None:
        """Raises `NotReady` where there is none for it. Each is to be given back."""
        left, count = self._connections_max - self.total, self.by_tenant[tenant]
        if left <= 0:
            raise NotReady(f"all {self._connections_max} connections to other brokers (connections_max) are taken")
        if count >= left:
            raise NotReady(
                f"tenant {tenant!r} has {count} connections to other brokers, and {left} of connections_max = "
                f"{self._connections_max} are left for everybody: close some"
            )
        self.by_tenant[tenant] += 1
        self.total += 1

    def give(self, tenant: str) -> None:
        self.total -= 1
        self.by_tenant[tenant] -= 1
        if not self.by_tenant[tenant]:
            del self.by_tenant[tenant]
