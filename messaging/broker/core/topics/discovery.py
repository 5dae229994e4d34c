"""Which clients look for new topics, so that a subscription by pattern misses nothing of a topic created later. Pure.

A client that subscribes by pattern finds a new topic some time after its creation, by listing the namespace again or by an update
of its watch, and subscribes to it at the latest message, as it was configured. What was published before that would be lost to it.
A client that has looked before the topic existed and again after is such a client, and its subscription starts with the topic.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, NamedTuple, TypeVar

LOOKS_BYTES = 512  # memory for what is known of one peer and one namespace
NAMESPACES_MAX = 100  # per peer; of more nothing is known
_EVER = 1 << 62

P = TypeVar("P")


class ClientKey(NamedTuple):
    """Clients that cannot be told apart: of one role, at one address."""

    role: str
    address: str
    namespace: str


class Found(Enum):
    NOT = 0  # nobody has looked for it
    ITSELF = 1  # the peer has found it by looking
    ALIKE = 2  # a peer that may belong to the same client has


class TopicDiscovery(Generic[P]):
    """`P`: connections, by identity. A client may have several."""

    def __init__(self) -> None:
        self._looks: dict[ClientKey, dict[P, tuple[int, int]]] = {}  # when it looked first and last, in ms since 1970
        self._of_peer: dict[P, set[ClientKey]] = {}

    def listed(self, peer: P, client_key: ClientKey, at_ms: int) -> bool:
        """The peer was sent a list as of `at_ms`. Returns whether that is more to remember."""
        return self._looked(peer, client_key, at_ms, at_ms)

    def watches(self, peer: P, client_key: ClientKey, from_ms: int) -> bool:
        """From `from_ms` on, the peer is told of each new topic. Returns whether that is more to remember."""
        return self._looked(peer, client_key, from_ms, _EVER)

    def _looked(self, peer: P, client_key: ClientKey, first_ms: int, last_ms: int) -> bool:
        looked = self._looks.get(client_key, {}).get(peer)
        if looked is not None:
            former_first_ms, former_last_ms = looked
            self._looks[client_key][peer] = (min(former_first_ms, first_ms), max(former_last_ms, last_ms))
            return False
        keys = self._of_peer.setdefault(peer, set())
        if len(keys) >= NAMESPACES_MAX:
            return False
        keys.add(client_key)
        self._looks.setdefault(client_key, {})[peer] = (first_ms, last_ms)
        return True

    def left(self, peer: P) -> None:
        for client_key in self._of_peer.pop(peer, ()):
            peers = self._looks[client_key]
            del peers[peer]
            if not peers:
                del self._looks[client_key]

    def found(self, peer: P, client_key: ClientKey, created_ms: int) -> Found:
        """Whether a topic created at `created_ms` was found by looking."""
        peers = self._looks.get(client_key, {})
        looked = peers.get(peer)
        if looked is not None:
            first_ms, last_ms = looked
            return Found.ITSELF if first_ms <= created_ms <= last_ms else Found.NOT
        return Found.ALIKE if any(first <= created_ms <= last for first, last in peers.values()) else Found.NOT

    def alike(self, peer: P, client_key: ClientKey) -> list[P]:
        """The other peers of the same client_key."""
        return [other for other in self._looks.get(client_key, ()) if other is not peer]
