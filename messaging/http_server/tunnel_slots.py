"""How many tunnels there may be, and how many of them one address may have. Pure.

An address may have no more than are left for the others, so that one alone gets half of them and a newcomer finds room. Newcomers
are refused; a tunnel that works is never closed for one.
"""

from __future__ import annotations

from collections import Counter

from messaging.client_address import place_of


class TunnelSlots:
    def __init__(self, tunnels_max: int) -> None:
        self.tunnels_max = tunnels_max
        self.taken = 0
        self.opened = 0  # since the start
        self.refused = 0
        self._by_address: Counter[str] = Counter()

    def arrive(self, address: str) -> str:
        """Returns why there is no room for a tunnel of `address`, or "": it then has to `leave` once."""
        place = place_of(address)
        count, left = self._by_address[place], self.tunnels_max - self.taken
        if left <= 0:
            self.refused += 1
            return f"all {self.tunnels_max} WebSockets (web_websockets_max) are taken: try again later, or use the WebSocket port"
        if count and count + 1 > left:
            self.refused += 1
            return (
                f"{address} has {count} WebSockets and {left} of web_websockets_max = {self.tunnels_max} are left for everybody: "
                "share one client, or use the WebSocket port"
            )
        self.taken += 1
        self.opened += 1
        self._by_address[place] += 1
        return ""

    def leave(self, address: str) -> None:
        place = place_of(address)
        self.taken -= 1
        self._by_address[place] -= 1
        if not self._by_address[place]:
            del self._by_address[place]
