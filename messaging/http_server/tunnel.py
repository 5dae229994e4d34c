"""A tunnel: the WebSockets below one path belong to another listener, to which this one passes their bytes on.

The header of the request is sent there with the address of the client appended to `X-Forwarded-For`, and then bytes go in both
directions as they come: every check, every limit and the WebSocket itself are the other listener's. What is here:

- The client is not read before the other listener has accepted the WebSocket, and never if it refuses: what follows a refusal
  would otherwise arrive there as a request of its own, without the address of the client.
- An end that does not take what was written to it is waited for: the other end is not read meanwhile. So a direction holds
  `UNSENT_BYTES` and one read at most. What waits is counted with the responses that slow peers have not read, by address.
- An end that takes nothing at all for `stall_s` ends the tunnel.
- If an end goes, the other is closed after it has taken what is left, for which it has the time of a transfer.

A tunnel costs two connections and no thread; a task lasts while the other listener is dialled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import h11
import msgspec
from uvicorn.server import ServerState

from messaging.client_address import client_address
from messaging.http_server.bounds import HttpBounds
from messaging.http_server.tunnel_slots import TunnelSlots

UNSENT_BYTES = 32 << 10  # that an end has not taken, before the other is not read any more
READ_BYTES = 32 << 10  # at once: asyncio would read 256 KiB
HEAD_BYTES_MAX = 32 << 10  # of the response
RETRY_AFTER_S = 1
_HIDDEN = frozenset({b"cookie"})  # the console's session is no business of the other listener

TurnedAway = Callable[[], None]
Dial = Callable[[Callable[[], asyncio.BaseProtocol]], Awaitable[TurnedAway]]

logger = logging.getLogger(__name__)


class Tunnels:
    """Of one listener. `dial` connects to the other listener, by the protocol that it is given, and raises `OSError` if that is not
    possible. What it returns is called if the listener that it found cannot serve the WebSocket: it says 503, or nothing."""

    def __init__(self, prefix: str, dial: Dial, tunnels_max: int, stall_s: float, trusted_proxies: Sequence[str] = ()) -> None:
        self._prefix = prefix.encode("ascii")
        self.dial = dial
        self.stall_s = stall_s
        self.slots = TunnelSlots(tunnels_max)
        self._trusted_proxies = trusted_proxies
        self.buffer = memoryview(bytearray(READ_BYTES))  # of all reads: each is passed on before the next
        self._tasks: set[asyncio.Task[None]] = set()

    def serves(self, target: bytes) -> bool:
        return target.startswith(self._prefix)

    def open(self, transport: asyncio.Transport, peer: str, event: h11.Request, bounds: HttpBounds, state: ServerState) -> bool:
        """Takes over the connection of a request for a WebSocket. False: it was answered, and is about to close."""
        forwarded = b", ".join(value for name, value in event.headers if name == b"x-forwarded-for")
        address = client_address(peer, forwarded.decode("latin-1"), self._trusted_proxies)
        refused = self.slots.arrive(address)
        if refused:
            refuse(transport, refused)
            return False
        tunnel = Tunnel(self, bounds, state, _head(event, forwarded, peer), address, transport)
        state.connections.add(tunnel)  # type: ignore[arg-type]
        transport.pause_reading()  # first: what a transport reads into follows from its protocol when it begins to read
        transport.set_protocol(tunnel.client)
        tunnel.client.connection_made(transport)
        task = asyncio.get_running_loop().create_task(tunnel.dial(), name="tunnel")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True


class Tunnel:
    def __init__(
        self,
        tunnels: Tunnels,
        bounds: HttpBounds,
        state: ServerState,
        head: bytes,
        address: str,
        transport: asyncio.Transport,
    ) -> None:
        self.transport = transport  # of the client: the server aborts it if the process cannot wait
        self.address = address
        self.bounds = bounds
        self.stall_s = tunnels.stall_s
        self.buffer = tunnels.buffer
        self.loop = asyncio.get_running_loop()
        self.client = TunnelEnd(self)
        self.target = TargetEnd(self, head)
        self.client.other, self.target.other = self.target, self.client
        self._tunnels = tunnels
        self._state = state
        self._left = False
        self._turned_away: TurnedAway | None = None  # until there is an answer
        self._timer: asyncio.TimerHandle | None = None  # while it opens, and while it ends

    async def dial(self) -> None:
        try:
            async with asyncio.timeout(self.bounds.transfer_s):
                self._turned_away = await self._tunnels.dial(lambda: self.target)
        except (OSError, TimeoutError) as error:
            logger.warning("a WebSocket cannot be passed on", extra={"reason": str(error) or type(error).__name__})
            if not self.client.gone:
                refuse(self.transport, "the broker cannot be reached at the moment: try again")
        if not self.client.reads and not self._left:
            self._cut_later()

    def answered(self, status: bytes) -> None:
        if status == b"503":
            self._turn_away()
        self._turned_away = None
        if status == b"101":
            self._accepted()

    def _turn_away(self) -> None:
        turned_away, self._turned_away = self._turned_away, None
        if turned_away is not None:
            turned_away()

    def _accepted(self) -> None:
        self._keep()
        self.client.reads = True
        self.client.resume()

    def ended(self, end: TunnelEnd) -> None:
        """The connection of `end` is gone: the other one has the time of a transfer to take what is left."""
        self._turn_away()  # if there was no answer
        transport = end.other.transport
        if transport is not None and not end.other.gone:
            transport.close()
            self._cut_later()
        elif not self._left:  # a target that is dialled yet comes too late
            self._left = True
            self._keep()
            self._tunnels.slots.leave(self.address)
            self._state.connections.discard(self)

    def shutdown(self) -> None:
        """The process stops."""
        self.transport.close()

    def _cut_later(self) -> None:
        self._keep()
        self._timer = self.loop.call_later(self.bounds.transfer_s, self._cut)

    def _keep(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cut(self) -> None:
        """No response came, or a refusal that does not end, or an end does not take what is left."""
        for end in (self.client, self.target):
            end.give_way()


class TunnelEnd(asyncio.BufferedProtocol):
    """The connection of the client, and what `TargetEnd` shares with it."""

    other: TunnelEnd
    transport: asyncio.Transport | None = None
    gone = False
    reads = False  # the client: not before the WebSocket is accepted
    _written_bytes = 0
    _waiting = False  # until it takes what was written to it
    _stall: asyncio.TimerHandle | None = None

    def __init__(self, tunnel: Tunnel) -> None:
        self.tunnel = tunnel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # those of uvloop are no instances of it
        self.transport.set_write_buffer_limits(high=UNSENT_BYTES)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.tunnel.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received(bytes(self.tunnel.buffer[:nbytes]))

    def received(self, data: bytes) -> None:
        self.other.write(data)

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.gone:
            self._written_bytes += len(data)
            self.transport.write(data)

    def pause_writing(self) -> None:
        self._waiting = True
        self.other.pause()
        unread = self.tunnel.bounds.unread
        for peer in unread.waits(self, self.tunnel.address, self._unsent_bytes):
            self.tunnel.loop.call_soon(peer.give_way)
        self._stall = self.tunnel.loop.call_later(self.tunnel.stall_s, self._stalled, self._taken_bytes)

    def resume_writing(self) -> None:
        self._waiting = False
        self._forget_waiting()
        self.other.resume()

    def pause(self) -> None:
        if self.transport is not None and not self.gone:
            self.transport.pause_reading()

    def resume(self) -> None:
        """Unless its other end still has enough."""
        if self.transport is None or self.gone or self.transport.is_closing():
            return
        if self.reads and not self.other._waiting:
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self._forget_waiting()
        self.tunnel.ended(self)

    def give_way(self) -> None:
        """What waits for this peer is needed for others."""
        if self.transport is not None:
            self.transport.abort()

    @property
    def _unsent_bytes(self) -> int:
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    @property
    def _taken_bytes(self) -> int:
        return self._written_bytes - self._unsent_bytes

    def _stalled(self, taken_before: int) -> None:
        if self._taken_bytes == taken_before:
            self.give_way()
        else:
            self._stall = self.tunnel.loop.call_later(self.tunnel.stall_s, self._stalled, self._taken_bytes)

    def _forget_waiting(self) -> None:
        self.tunnel.bounds.unread.leave(self)
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None


class TargetEnd(TunnelEnd):
    """The connection to the other listener."""

    reads = True

    def __init__(self, tunnel: Tunnel, head: bytes) -> None:
        super().__init__(tunnel)
        self._head = head
        self._response: bytearray | None = bytearray()  # until its status is known

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.other.gone:
            self.give_way()
        else:
            self.write(self._head)
        self._head = b""

    def received(self, data: bytes) -> None:
        if self._response is None:
            self.other.write(data)
            return
        self._response += data
        if b"\r\n\r\n" in self._response:
            response, self._response = bytes(self._response), None
            self.other.write(response)
            self.tunnel.answered(response.removeprefix(b"HTTP/1.1 ")[:3])
        elif len(self._response) > HEAD_BYTES_MAX:
            self.give_way()


def _head(event: h11.Request, forwarded: bytes, peer: str) -> bytes:
    """The request as it came, from `peer`."""
    forwarded_for = b", ".join(filter(None, (forwarded, peer.encode("ascii", "replace"))))
    lines = [event.method + b" " + event.target + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in event.headers if name not in _HIDDEN and name != b"x-forwarded-for"]
    lines += [b"x-forwarded-for: " + forwarded_for, b"", b""]
    return b"\r\n".join(lines)


def refuse(transport: asyncio.Transport, reason: str) -> None:
    body = msgspec.json.encode({"code": "not_ready", "message": reason, "reason": reason})
    head = (
        f"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        f"retry-after: {RETRY_AFTER_S}\r\nconnection: close\r\n\r\n"
    )
    transport.write(head.encode() + body)
    transport.close()
