"""A WebSocket of the binary protocol whose client wants another broker: its bytes go there and back as they are.

A client behind a WebSocket reaches one port only. Its lookup says that the broker of a topic is reached through it; it opens
another WebSocket whose CONNECT names that broker, as to Pulsar's proxy. It is identified here, and has its place among the
connections of its tenant here; the broker that it wants is told who it is, checks its key and its permissions, and ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.ownership.delegation import act_for, delegated_client
from messaging.broker.runtime.ownership.dialling import INTERNAL_URL, BrokerPlace
from messaging.broker.runtime.wire.connection import Connection
from messaging.errors import NotReady
from messaging.permissions.model import Principal
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

DIAL_S = 5.0
UNSENT_BYTES = 64 << 10  # that an end has not taken, before the other is not read any more


def place_of_other(service: Broker, wanted: str) -> BrokerPlace | None:
    """Where to connect for the broker that a CONNECT names, None for this one. Raises `NotReady`: no address but those of the
    brokers of the fleet is ever connected to."""
    name = wanted.partition("://")[2] or wanted
    others = service.owners.others
    # With TLS the plain address may be loopback's, which others have too: the one over TLS names a broker on any machine.
    for kind in ("broker_url_tls", "broker_url"):
        own: str = getattr(service.addresses, kind)
        if own and name == own.partition("://")[2]:
            return None
        urls = zip(others(kind), others("broker_url"), others(INTERNAL_URL), strict=True)
        for url, broker_url, internal_url in urls:
            if url and name == url.partition("://")[2]:
                return service.dialler.place_of({"broker_url": broker_url, INTERNAL_URL: internal_url})
    raise NotReady(f"no broker of this platform is at {name[:100]!r}: look the topic up again")


async def pass_on(service: Broker, connection: Connection, body: pb.Connect, principal: Principal, place: BrokerPlace) -> None:
    """`connection` has handed its transport over afterwards. Raises `NotReady`."""
    connect = pb.Connect()
    connect.CopyFrom(body)
    act_for(service.settings, connect, delegated_client(principal, peer=connection.peer, local=connection.local))
    service.outgoing.take(principal.tenant)
    give = partial(service.outgoing.give, principal.tenant)
    target = _TargetEnd(connection.transport, frames.command(pb.Command.CONNECT, connect=connect), give)
    try:
        async with asyncio.timeout(DIAL_S):
            await service.dialler.dial(lambda: target, place)
    except BaseException as error:
        target.leave()
        if isinstance(error, OSError | TimeoutError):
            raise NotReady("the broker that serves the topic cannot be reached at the moment: try again") from None
        raise
    if connection.closed:
        target.end()
        return
    connection.passed_on(principal)
    connection.transport.set_protocol(_ClientEnd(target))


class _TargetEnd(asyncio.Protocol):
    """The connection to the other broker. `on_end` is called once."""

    transport: asyncio.Transport

    def __init__(self, client: asyncio.Transport, connect: bytes, on_end: Callable[[], None]) -> None:
        self._on_end: Callable[[], None] | None = on_end
        self._client = client
        self._connect = connect

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # those of uvloop are no instances of it
        self.transport.set_write_buffer_limits(high=UNSENT_BYTES)
        self.transport.write(self._connect)
        self._connect = b""

    def data_received(self, data: bytes) -> None:
        self._client.write(data)

    def pause_writing(self) -> None:
        self._client.pause_reading()

    def resume_writing(self) -> None:
        self._client.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.leave()
        self._client.close()

    def leave(self) -> None:
        """Idempotent: it is no connection any more, or did not become one."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    def end(self) -> None:
        self.transport.close()


class _ClientEnd(asyncio.Protocol):
    """The WebSocket, instead of the connection that it was."""

    def __init__(self, target: _TargetEnd) -> None:
        self._target = target

    def data_received(self, data: bytes) -> None:
        self._target.transport.write(data)

    def pause_writing(self) -> None:
        self._target.transport.pause_reading()

    def resume_writing(self) -> None:
        self._target.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._target.end()
