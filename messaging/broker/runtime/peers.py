"""All clients of the broker, over the binary protocol or inside the process, and counts of the connections that were closed."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from messaging.background import BackgroundLoop
from messaging.broker.core.clients.expiry_index import ExpiryIndex
from messaging.broker.core.control.view import ControlView
from messaging.broker.core.limits.connection_shares import (
    CONNECTIONS_CEILING,
    NO_CEILING,
    ConnectionLimits,
    ConnectionOwner,
    ConnectionShares,
    TenantCeiling,
)
from messaging.broker.runtime.turn_loop import TurnLoop, Worker
from messaging.broker.runtime.wire.last_frames import LastFrames
from messaging.broker.runtime.wire.listings import Listings
from messaging.broker.runtime.wire.outbound import OutboundBuffer
from messaging.broker.runtime.wire.pending_requests import PendingRequests
from messaging.errors import MagnetarError, NotAuthorized, NotReady
from messaging.identity import TokenVerifier
from messaging.permissions.model import Principal
from messaging.policies.resolution import EffectivePolicy
from messaging.protocol.names import TopicName
from messaging.settings import Settings

STOPPING = "the broker is stopping"
ENDS_A_TURN = 50  # connections and sessions of keys that were revoked: one with its producers and consumers takes about 0.1 ms


class Connected(Protocol):
    """Who counts as a connection: over the binary protocol, or a WebSocket."""

    def refuse(self, reason: str, detail: str = "") -> None: ...


class Watched(Protocol):
    """Looks whether a peer is still there: `wire/liveness.py`."""

    def keep_alive(self) -> None: ...

    def check_progress(self) -> None: ...


class Peer(Connected, Protocol):
    """A connection of the binary protocol: `wire/connection.py`."""

    principal: Principal | None
    closed: bool
    address: str  # without the port
    peer: str  # the same with it
    requests: PendingRequests
    client_version: str
    protocol_version: int
    connected_ms: int  # when it said who it is; 0: not yet
    over_websocket: bool
    tls: bool

    @property
    def liveness(self) -> Watched: ...

    @property
    def open_count(self) -> int:
        """Of its producers and consumers together."""

    def open_topics(self) -> tuple[list[TopicName], list[TopicName]]:
        """Of its producers, and of its consumers: one for each."""

    def stop(self) -> None: ...

    def expired(self) -> None:
        """Its credential has: it is asked for another, or disconnected."""


class LocalSession(Protocol):
    """A producer or consumer inside the process: `local/`."""

    principal: Principal

    def stop(self) -> None: ...

    def end(self, error: MagnetarError) -> None: ...


class Peers:
    def __init__(
        self,
        settings: Settings,
        turns_health: BackgroundLoop | None = None,
        policy_of_tenant: Callable[[str, str], EffectivePolicy] | None = None,
    ) -> None:
        """`policy_of_tenant`: the effective value of a policy of a tenant; without it the settings count alone."""
        self.settings = settings
        self._policy_of_tenant = policy_of_tenant
        self.shares: ConnectionShares[Connected] = ConnectionShares(connection_limits(settings))  # of WebSockets too
        self.turn_loop: TurnLoop[Worker] = TurnLoop(_work, health=turns_health)
        self.listings = Listings()
        self.last_frames = LastFrames()
        self.connections: set[Peer] = set()
        self.sessions: set[LocalSession] = set()
        self.unread: set[OutboundBuffer] = set()  # of connections whose peers have not read all that was sent to them
        self.opened = 0
        self._ended = False
        self._signing_keys_revision = 0
        self._key_expiry = ExpiryIndex()
        self._handshakes: dict[Peer, asyncio.TimerHandle] = {}
        self.refused: Counter[str] = Counter()

    def arrived(self, peer: Peer) -> None:
        """It has a short time to say who it is; where too many are that far, one of those has to go."""
        self.opened += 1
        self.connections.add(peer)
        self.counts(peer, peer.address)
        due = asyncio.get_running_loop().call_later(self.settings.handshake_ms / 1000, self._handshake_due, peer)
        self._handshakes[peer] = due
        if self._ended:
            peer.refuse(STOPPING)

    def counts(self, peer: Connected, address: str) -> None:
        """From now on it takes a place of those that have not signed in: the oldest of them may have to go for it."""
        gone = self.shares.arrive(peer, address)
        if gone is not None:
            gone.refuse("made room for others", "it was the oldest without a sign-in, of the address that has most of them")

    def _handshake_due(self, peer: Peer) -> None:
        if peer.principal is None and not peer.closed:
            peer.refuse("no CONNECT came", f"within handshake_ms = {self.settings.handshake_ms}")

    def signed_in(self, peer: Connected, principal: Principal, *, superuser: bool, delegated: bool = False) -> None:
        """`delegated`: another broker connects on its behalf. Raises `NotReady` where its tenant, its key or its address has its
        share of connections already."""
        owner = ConnectionOwner(principal.tenant, principal.key_id, superuser or principal.service, delegated)
        ceiling = NO_CEILING
        if self._policy_of_tenant is not None and not owner.privileged and not delegated:
            ceiling = TenantCeiling(*self._policy_of_tenant(CONNECTIONS_CEILING, principal.tenant))
        reason = self.shares.sign_in(peer, owner, ceiling)
        if reason:
            self.refused["too many connections"] += 1
            raise NotReady(f"too many connections: {reason}")

    def left(self, peer: Peer) -> None:
        self.passed_on(peer)
        self.shares.leave(peer)

    def passed_on(self, peer: Peer) -> None:
        """Another broker serves it, and ends it. It keeps its place among the connections of its tenant here."""
        due = self._handshakes.pop(peer, None)
        if due is not None:
            due.cancel()
        self.connections.discard(peer)

    def follow(self, view: ControlView, changed: Iterable[tuple[str, str]]) -> None:
        """These entities (kind, key) of the view changed: what lives by keys that were revoked or deleted ends."""
        keys = {key for kind, key in changed if kind == "key"}
        gone = {key for key in keys if view.key_revoked(key) is not False}
        for key in keys:
            self._key_expiry.note(key, 0 if key in gone else view.key_expires_ms(key))
        self.end_keys(gone)

    def end_keys(self, key_ids: set[str]) -> None:
        """These keys were revoked or deleted."""
        self._end_where(lambda principal: principal.key_id in key_ids, "key revoked", "the key was revoked: make a new one")

    def end_expired_keys(self, now_ms: int) -> None:
        """Once a second: what lives by a key that ended before its token, because it was replaced. Connections are asked for a new
        token, as where a token expires; what cannot be asked ends."""
        key_ids = self._key_expiry.due(now_ms)
        if not key_ids:
            return

        def outlives(principal: Principal | None) -> bool:
            return principal is not None and principal.key_id in key_ids and not 0 < principal.expires_ms <= now_ms

        sessions = [session for session in self.sessions if outlives(session.principal)]
        due = deque[Callable[[], None]](partial(self._expire, peer) for peer in self.connections if outlives(peer.principal))
        due.extend(partial(self._end_session, session, "the key has expired: use the one that replaced it") for session in sessions)
        try:
            for session in sessions:
                session.stop()
        finally:
            self._end_next(due)

    def keys_in_use(self) -> set[str]:
        """Of all connections and sessions: walks over them."""
        principals = [peer.principal for peer in self.connections] + [session.principal for session in self.sessions]
        return {principal.key_id for principal in principals if principal is not None and principal.key_id}

    def _expire(self, peer: Peer) -> None:
        if peer in self.connections:
            peer.expired()

    def end_untrusted(self, trusts: Callable[[Principal], bool]) -> None:
        """An issuer of a tenant changed: what lives by tokens that it would not be let in with any more ends."""
        why = "the issuer of the token, its key or its role is no longer trusted: get a new token"
        self._end_where(lambda principal: not trusts(principal), "issuer no longer trusted", why)

    def check_signing_keys(self, verifier: TokenVerifier, now_ms: int) -> None:
        """Once a second: where a key that signs tokens was retired, what lives by its tokens ends."""
        verifier.reload(now_ms)
        if verifier.revision == self._signing_keys_revision:
            return
        self._signing_keys_revision = verifier.revision
        why = "the key that signed the token was retired: make a new key"
        self._end_where(lambda principal: not verifier.still_verifies(principal), "signing key retired", why)

    def _end_where(self, ends: Callable[[Principal], bool], reason: str, why: str) -> None:
        """All stop at once. Ending them takes longer: some end now and the others in the next turns of the loop, since one key may
        have thousands."""
        peers = [peer for peer in self.connections if peer.principal is not None and ends(peer.principal)]
        sessions = [session for session in self.sessions if ends(session.principal)]
        due: deque[Callable[[], None]] = deque(partial(self._end_connection, peer, reason) for peer in peers)
        due.extend(partial(self._end_session, session, why) for session in sessions)
        try:
            for peer in peers:
                peer.stop()
            for session in sessions:
                session.stop()
        finally:
            self._end_next(due)

    def _end_next(self, due: deque[Callable[[], None]]) -> None:
        try:
            for _ in range(min(ENDS_A_TURN, len(due))):
                due.popleft()()
        finally:  # one that cannot be ended keeps no other open
            if due:
                asyncio.get_running_loop().call_soon(self._end_next, due)

    def _end_connection(self, peer: Peer, reason: str) -> None:
        if peer in self.connections:
            peer.refuse(reason)

    def _end_session(self, session: LocalSession, why: str) -> None:
        if session in self.sessions:
            session.end(NotAuthorized(why))

    def end_all(self) -> None:
        """And whoever connects from now on: until its ports are closed, it would use what is being closed."""
        self._ended = True
        for session in list(self.sessions):
            session.end(NotReady("the broker is stopping: connect again"))
        for peer in list(self.connections):
            peer.refuse(STOPPING)


def _work(worker: Worker) -> str | None:
    return worker.work()


def connection_limits(settings: Settings) -> ConnectionLimits:
    return ConnectionLimits(
        settings.connections_max,
        settings.connections_unauthenticated_max,
        of_key_max=settings.connections_of_key_max,
        of_address_max=settings.connections_of_address_max,
    )
