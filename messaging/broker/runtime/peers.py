"""Everybody who is connected to the broker, over the binary protocol or inside the process; and why some were shown the door."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

from messaging.broker.runtime.wire.outgoing import Outgoing
from messaging.errors import MagnetarError, NotAuthorized, NotReady
from messaging.permissions.model import Principal
from messaging.settings import Settings


class Peer(Protocol):
    """A connection of the binary protocol: `wire/connection.py`."""

    principal: Principal | None
    closed: bool

    def refuse(self, reason: str, detail: str = "") -> None: ...

    def keep_alive(self) -> None: ...


class LocalSession(Protocol):
    """A producer or consumer inside the process: `local/`."""

    principal: Principal

    def end(self, error: MagnetarError) -> None: ...


class Peers:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.connections: set[Peer] = set()
        self.sessions: set[LocalSession] = set()
        self.unread: set[Outgoing] = set()  # of connections whose peers have not read all that was sent to them
        self.opened = 0
        self.refused: Counter[str] = Counter()

    def arrived(self, peer: Peer) -> None:
        """Refuses it where there are too many; otherwise it has a short time to say who it is."""
        self.opened += 1
        if len(self.connections) >= self.settings.connections_max:
            peer.refuse("too many connections", f"connections_max = {self.settings.connections_max}")
            return
        self.connections.add(peer)
        asyncio.get_running_loop().call_later(self.settings.handshake_ms / 1000, self._handshake_due, peer)

    def _handshake_due(self, peer: Peer) -> None:
        if peer.principal is None and not peer.closed:
            peer.refuse("no CONNECT came", f"within handshake_ms = {self.settings.handshake_ms}")

    def left(self, peer: Peer) -> None:
        self.connections.discard(peer)

    def end_keys(self, key_ids: set[str]) -> None:
        """These keys were revoked or deleted: what lives by them ends."""
        for peer in list(self.connections):
            if peer.principal is not None and peer.principal.key_id and peer.principal.key_id in key_ids:
                peer.refuse("key revoked")
        for session in list(self.sessions):
            if session.principal.key_id and session.principal.key_id in key_ids:
                session.end(NotAuthorized("the key was revoked: make a new one"))

    def end_all(self) -> None:
        for session in list(self.sessions):
            session.end(NotReady("the broker is stopping: connect again"))
        for peer in list(self.connections):
            peer.refuse("the broker is stopping")
