"""What the listeners need from the broker, as types, and their counters."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from messaging.adminrpc.base import Answer
from messaging.adminrpc.methods import METHODS
from messaging.broker.core.memory.ingress_limiter import IngressLimiter
from messaging.broker.core.memory.memory_limiter import MemoryLimiter
from messaging.broker.runtime.local.messages import LocalService
from messaging.broker.runtime.peers import Peers
from messaging.errors import AuthenticationFailed
from messaging.http_guard import HostView
from messaging.metrics import Sample
from messaging.permissions.model import Grants, Principal
from messaging.settings import Settings

RpcMethod = Callable[[Any], Awaitable[Answer]]


class EdgeBroker(Protocol):
    """The broker as the listeners see it."""

    memory_limiter: MemoryLimiter
    ingress_limiter: IngressLimiter
    peers: Peers

    @property
    def grants(self) -> Grants: ...

    async def authenticate(self, token: str | None, local: bool, address: str = "") -> Principal:
        """Who has this token; None: nobody, who may be anonymous where it is `local`. Raises `AuthenticationFailed`."""

    def authenticate_certificate(self, certificate: Mapping[str, Any]) -> Principal:
        """Who presented it. Raises `AuthenticationFailed`."""

    def sign_in_failed(self, error: AuthenticationFailed, address: str) -> None:
        """For the audit log."""

    def ready(self) -> tuple[bool, str]:
        """Whether the broker takes traffic, and why not."""


class Samples(Protocol):
    def __call__(self, *, private: bool) -> Iterable[Sample]:
        """Samples of `messaging.metrics.METRICS`; those that name tenants' things only if `private`."""


class ServiceIdentityVerifier(Protocol):
    def verify(self, token: str, now_ms: int) -> Principal: ...


class StreamEnd(Protocol):
    """Takes the bytes of a peer: a connection of the binary protocol, or what passes them on."""

    def connection_lost(self, exc: Exception | None) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class BinaryConnection(StreamEnd, Protocol):
    """A connection of the binary protocol: `messaging.broker.runtime.wire.connection`."""

    principal: Principal | None

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...


# Whether it is encrypted -> a connection that was not made yet.
MakeConnection = Callable[[bool], BinaryConnection]


@dataclass(frozen=True, slots=True)
class Edge:
    """What the listeners serve: the broker, sessions on it, its figures, the methods of its admin RPC (`own_methods`: what
    other brokers are answered, in their place), and connections of the binary protocol over WebSockets, if it takes any.

    Raises `TypeError` naming the methods that are missing, at start rather than in a call."""

    broker: EdgeBroker
    sessions: LocalService
    samples: Samples
    methods: Mapping[str, RpcMethod]
    make_connection: MakeConnection | None = None
    own_methods: Mapping[str, RpcMethod] = field(default_factory=dict)

    def __post_init__(self) -> None:
        missing = sorted(METHODS.keys() - self.methods.keys())
        if missing:
            raise TypeError(f"the admin RPC lacks methods: {', '.join(missing)}")


@dataclass(slots=True)
class EdgeCounters:
    """Counters of the listeners: plain integers, exported by `samples`."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)  # (route, status)
    opened: Counter[str] = field(default_factory=Counter)  # by endpoint
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)  # (endpoint, status)
    connections: Counter[str] = field(default_factory=Counter)  # open now, by endpoint
    messages_in: int = 0
    messages_out: int = 0
    listeners: list[Callable[[], Iterator[Sample]]] = field(default_factory=list)

    def samples(self) -> Iterator[Sample]:
        for labels, count in self.requests.items():
            yield Sample("magnetar_http_requests_total", count, labels)
        for labels, count in self.refused.items():
            yield Sample("magnetar_websocket_refused_total", count, labels)
        for endpoint in self.opened:
            yield Sample("magnetar_websocket_opened_total", self.opened[endpoint], (endpoint,))
            yield Sample("magnetar_websocket_connections", self.connections[endpoint], (endpoint,))
        yield Sample("magnetar_websocket_messages_in_total", self.messages_in)
        yield Sample("magnetar_websocket_messages_out_total", self.messages_out)
        for listener in self.listeners:
            yield from listener()


@dataclass(slots=True)
class EdgeContext:
    """Passed to every request handler. `clock_ms` is the wall clock, `hosts` the names of the listener that received the
    request."""

    edge: Edge
    settings: Settings
    verifier: ServiceIdentityVerifier
    clock_ms: Callable[[], int]
    hosts: HostView
    counters: EdgeCounters

    @property
    def broker(self) -> EdgeBroker:
        return self.edge.broker
