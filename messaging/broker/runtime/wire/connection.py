"""One connection of the binary protocol on a socket: bytes in, blocks and commands out; receipts and messages back.

What the bytes mean, and what may come when, is decided without a socket, in `messaging/protocol/inbound.py`. `receiver.py` takes
the events in slices, `endpoints.py` is the fast path, `commands.py` acts on all else. Here is the life of the socket. No task is
made for a message.

A peer can only harm itself: before it is known it may send one small command; a frame is never larger than the largest message;
what it sends is not read while the disk is behind; what it does not read ends the connection when too much has piled up.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Protocol, cast

import structlog

from messaging.broker.core.clients.client_info import LOCAL_CLIENT, ClientInfo
from messaging.broker.core.memory.memory_charge import MemoryCharge
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.ownership.dialling import BROKER
from messaging.broker.runtime.peers import Connected
from messaging.broker.runtime.wire.endpoints import Endpoints
from messaging.broker.runtime.wire.gathered_reads import GatheredReads
from messaging.broker.runtime.wire.liveness import Liveness
from messaging.broker.runtime.wire.outbound import OutboundBuffer
from messaging.broker.runtime.wire.pending_requests import PendingRequests
from messaging.broker.runtime.wire.read_throttle import ReadThrottle
from messaging.broker.runtime.wire.receiver import Receiver
from messaging.broker.runtime.wire.sinks import ReceiptSender
from messaging.identity.certificates import common_names
from messaging.local_caller import is_local_caller
from messaging.permissions.model import Principal
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.events import Command
from messaging.protocol.inbound import Inbound
from messaging.protocol.names import TopicName

log = structlog.get_logger("broker.connection")

LINGER_S = 5.0  # how long a refused peer has to read the error


class Handler(Protocol):
    """Handles commands; implemented by `Commands`."""

    def handle(self, connection: Connection, command: Command) -> None:
        """Raises `ProtocolError`."""


class Connection(asyncio.Protocol):
    """`arrived_as`: the entry that counted it in the table of connection shares during the TLS handshake. `of_broker`: nobody but a
    broker is at the other end, by its certificate."""

    # Set by `connection_made`.
    transport: asyncio.Transport
    endpoints: Endpoints
    receiver: Receiver
    liveness: Liveness
    requests: PendingRequests
    throttle: ReadThrottle
    memory_charge: MemoryCharge
    out: OutboundBuffer
    producer_sink: ReceiptSender

    def __init__(
        self, service: Broker, commands: Handler, *, tls: bool, arrived_as: Connected | None = None, of_broker: bool = False
    ) -> None:
        self.service = service
        self.of_broker = of_broker
        self.commands = commands
        self.tls = tls
        self.peer = ""
        self.address = ""
        self.local = False  # the peer is on this machine, so its address identifies nobody
        self.same_machine = False  # the other end of the socket is
        self.over_websocket = False
        self.principal: Principal | None = None
        self.client_version = ""
        self.client_info = LOCAL_CLIENT  # until CONNECT
        self.protocol_version = 0
        self.connected_ms = 0
        self.supports_auth_refresh = False
        self.closed = False
        self._arrived_as = arrived_as
        self._expiry: asyncio.TimerHandle | None = None
        self._abort: asyncio.TimerHandle | None = None

    # --- life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        service = self.service
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "?"
        self.address = str(peer[0]) if peer else "?"
        own = transport.get_extra_info("sockname")
        self.over_websocket = bool(transport.get_extra_info("websocket"))
        self.same_machine = bool(peer and own and peer[0] == own[0]) and not self.over_websocket
        self.local = bool(peer and own and is_local_caller(service.settings.host, peer[0], own[0]))
        self.throttle = ReadThrottle(self.transport, service.ingress_limiter)
        self.memory_charge = MemoryCharge(service.memory_limiter.sessions, self.address)
        self.out = OutboundBuffer(self.transport, self._does_not_read, service.memory_limiter.egress, service.peers.unread)
        self.endpoints = Endpoints(service, self.out, self.throttle, self.memory_charge)
        self.producer_sink = ReceiptSender(self.endpoints)
        self.requests = PendingRequests(self.out, self.memory_charge)
        inbound = Inbound(service.settings.message_bytes_max, self.requests.admits)
        next_commit = service.storage.next_commit
        gathered_reads = GatheredReads(self.transport, next_commit)
        self.receiver = Receiver(inbound, self.endpoints, self, service.peers.turn_loop, next_commit, gathered_reads)
        self.liveness = Liveness(service.settings, self.out, self.receiver, self.refuse)
        self.throttle.go_on = self.receiver.go_on
        self.requests.answered = self.receiver.requests_answered
        self.endpoints.probe = self.liveness.probe
        if self._arrived_as is not None:
            service.peers.shares.leave(self._arrived_as)
        service.peers.arrived(self)
        if self.of_broker and common_names(transport.get_extra_info("peercert")) != [BROKER]:
            self.refuse("no broker", "this port is for brokers, which have a certificate of that name")

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self.out.end()
        if self._abort:
            self._abort.cancel()
        self._leave()
        self.service.peers.left(self)

    def _leave(self) -> None:
        """Releases everything this connection holds. Idempotent.

        Also cuts all references from its parts back to the connection, so that it is freed when the last of its requests and blocks
        ends, without the garbage collector. The collector runs rarely, and peers that come and go would fill the memory."""
        if self._expiry:
            self._expiry.cancel()
        self.liveness.close()
        self.receiver.close()
        self.throttle.close()
        self.memory_charge.change(self.requests.size_bytes - self.memory_charge.held_bytes)  # these release it themselves
        self.endpoints.close()
        self.service.topic_watches.left(self)
        self.service.discovery.left(self.endpoints)

    def stop(self) -> None:
        """From now on nothing is received or sent; call `refuse` afterwards."""
        self.receiver.close()
        self.out.close()

    def refuse(self, reason: str, detail: str = "") -> None:
        """Closes the connection from our side; what is in the send buffer is still sent if the peer reads it soon."""
        if not self.closed:
            log.info("connection.refused", peer=self.peer, reason=reason, detail=detail, client=self.client_version)
            self.service.peers.refused[reason] += 1
            self.out.close()
            self.closed = True
            # Closing waits for the send buffer, and a peer that does not read would hold its resources forever.
            self._leave()
            self.transport.close()
            self._abort = asyncio.get_running_loop().call_later(LINGER_S, self.transport.abort)

    # --- what is open on it

    @property
    def open_count(self) -> int:
        return len(self.endpoints.producers) + len(self.endpoints.consumers)

    def open_topics(self) -> tuple[list[TopicName], list[TopicName]]:
        producers, consumers = self.endpoints.producers.values(), self.endpoints.consumers.values()
        return [topic.name for topic, _ in producers], [topic.name for topic, *_ in consumers]

    # --- identity of the peer

    def stands_for(self, address: str, peer: str, *, local: bool, sessions: bool) -> None:
        """Another broker is at the other end, for a client of its own."""
        self.address, self.local, self.endpoints.of_sessions = address, local, sessions
        self.peer = peer or address
        self.client_info = LOCAL_CLIENT if sessions else ClientInfo(self.peer, self.client_version)

    def passed_on(self, principal: Principal) -> None:
        """Another broker serves the peer from now on. What is left of this is its place among the connections."""
        self.principal = principal
        self.closed = True
        self._leave()
        self.out.end()
        self.service.peers.passed_on(self)

    def signed_in(self, principal: Principal) -> None:
        """The answer to CONNECT or to an auth challenge identified the peer. It is challenged again when the credential expires."""
        self.principal = replace(principal, address=self.address)
        self.receiver.inbound.accepted()
        self.throttle.belongs_to(principal.tenant)
        self.memory_charge.belongs_to(principal.tenant)
        self.out.belongs_to(principal.tenant)
        if self._expiry:
            self._expiry.cancel()
            self._expiry = None
        if principal.expires_ms:
            delay_s = max(0.0, (principal.expires_ms - self.service.now_ms()) / 1000)
            self._expiry = asyncio.get_running_loop().call_later(delay_s, self.expired)

    def expired(self) -> None:
        """Asks the client for a new credential; disconnects it if it has none."""
        if self._expiry:
            self._expiry.cancel()
        if self.supports_auth_refresh and self.principal is not None:
            challenge = pb.AuthData(auth_method_name="token", auth_data=b"PulsarAuthRefresh")
            self.send(
                frames.command(
                    pb.Command.AUTH_CHALLENGE,
                    auth_challenge=pb.AuthChallenge(challenge=challenge, protocol_version=self.protocol_version),
                )
            )
            self._expiry = asyncio.get_running_loop().call_later(
                self.service.settings.keep_alive_ms / 1000, self.refuse, "token expired", "no new token came"
            )
        else:
            self.refuse("token expired")

    # --- reading

    def data_received(self, data: bytes) -> None:
        liveness = self.liveness
        liveness.heard = True
        if liveness.asked is not None:
            liveness.answered()
        self.receiver.received(data)

    def command(self, command: Command) -> None:
        self.commands.handle(self, command)

    # --- writing

    def send(self, data: bytes) -> None:
        self.out.gather(data)

    def pause_writing(self) -> None:
        self.out.pause()

    def resume_writing(self) -> None:
        self.out.resume()
        self.endpoints.wake_consumers()
        self.receiver.requests_answered()

    def _does_not_read(self, unread_bytes: int) -> None:
        log.warning("connection.does_not_read", peer=self.peer, unread_bytes=unread_bytes)
        self.service.peers.refused["peer does not read"] += 1
        self.closed = True
        self.receiver.close()  # what it sent earlier is no longer processed
        self.out.end()
        self.transport.abort()
