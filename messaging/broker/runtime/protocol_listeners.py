"""Listens for the binary protocol: clients on the ports of all brokers and on the broker's own, and other brokers on theirs."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack, ExitStack

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.listeners import BACKLOG, Listeners
from messaging.broker.runtime.wire.commands import Commands
from messaging.broker.runtime.wire.connection import Connection
from messaging.broker.runtime.wire.tls_listener import TlsListener
from messaging.internal_tls import internal_server_context


async def listen(
    service: Broker, commands: Commands, listeners: Listeners, context: ssl.SSLContext | None, stack: AsyncExitStack
) -> None:
    """`context`: for `listeners.secure`, which are none without. `stack` closes what it opened; what is shared with other brokers
    is closed when the broker begins to stop, since the system gives each who listens there a part of the new connections."""
    loop = asyncio.get_running_loop()
    shared = stack.enter_context(ExitStack())

    async def leave_shared() -> None:
        shared.close()

    service.before_stop.insert(0, leave_shared)
    for plain in listeners.plain:
        listener = await loop.create_server(lambda: Connection(service, commands, tls=False), sock=plain, backlog=BACKLOG)
        (shared if plain in listeners.shared else stack).callback(listener.close)
    for secure in listeners.secure:
        assert context is not None
        shaking = TlsListener(
            service.peers, secure, context, lambda before: Connection(service, commands, tls=True, arrived_as=before)
        )
        if secure in listeners.shared:
            shared.callback(secure.close)
            shared.callback(shaking.close)
        else:
            stack.callback(shaking.close)
    brokers_only = internal_server_context(service.settings, "broker")
    if listeners.internal is not None and brokers_only is not None:
        of_brokers = TlsListener(
            service.peers,
            listeners.internal,
            brokers_only,
            lambda before: Connection(service, commands, tls=True, arrived_as=before, of_broker=True),
        )
        stack.callback(of_brokers.close)
