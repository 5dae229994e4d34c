"""WebSockets without sockets: an ASGI server between the broker's sessions and a scripted peer, with seeded delays.

What a peer sends arrives in order. What a session sends waits while the peer does not read; the peer is told of it when it arrives,
and `written` in the moment that the broker hands it over.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NoReturn

from messaging.broker.http.context import Edge, EdgeContext, EdgeCounters
from messaging.broker.http.websocket.upgrade import serve_websocket
from messaging.broker.runtime.admin.handlers import AdminHandlers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.broker_metrics import broker_samples
from messaging.broker.runtime.local.sessions import LocalSessions
from messaging.permissions.model import Principal

DELAY_S_MAX = 0.002
UNREAD_MAX = 64 << 10  # what a server takes from a session whose peer does not read
_HERE = ("127.0.0.1", 1)

Json = dict[str, Any]


class NoServices:
    """Nobody calls the admin RPC."""

    def verify(self, token: str, now_ms: int) -> Principal:
        raise NotImplementedError


def context_of(broker: Broker) -> EdgeContext:
    edge = Edge(broker, LocalSessions(broker), partial(broker_samples, broker), AdminHandlers(broker).methods)
    return EdgeContext(edge, broker.settings, NoServices(), broker.now_ms, broker.settings, EdgeCounters())


class Socket:
    """One WebSocket. `opened` is called when it is, `lost` at its end, once."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        context: EdgeContext,
        path: str,
        query: str,
        *,
        opened: Callable[[], None],
        written: Callable[[Json], None],
        received: Callable[[Json], None],
        lost: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._random = random
        self._opened, self._written, self._received, self._lost = opened, written, received, lost
        self._to_broker: deque[Json] = deque([{"type": "websocket.connect"}])
        self._to_peer: deque[tuple[int, Json]] = deque()
        self._unread_bytes = 0
        self._delivering = False
        self._came, self._read = asyncio.Event(), asyncio.Event()
        self._came.set()
        self.peer_reads = True
        self.open = True
        scope: dict[str, Any] = {
            "type": "websocket",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", b"localhost")],
            "client": _HERE,
            "server": _HERE,
        }
        self._task = loop.create_task(serve_websocket(context, scope, self._receive, self._send), name="websocket")

    # The peer's side

    def say(self, **frame: Any) -> None:
        self._put({"type": "websocket.receive", "text": json.dumps(frame)})

    def _put(self, event: Json) -> None:
        self._to_broker.append(event)
        self._loop.call_later(self._random.random() * DELAY_S_MAX, self._came.set)

    def read_on(self) -> None:
        """The peer reads again."""
        self.peer_reads = True
        self._deliver_later()

    def cut(self, *, arrives: bool = False) -> None:
        """The connection ends without a word. `arrives`: what the broker has written still reaches the peer."""
        if self.open:
            self.open = False
            if arrives:
                for _, received in self._to_peer:
                    self._received(received)
            self._to_peer.clear()
            self._lost()

    def close_by_peer(self) -> None:
        if self.open:
            self.cut()
            self._to_broker.append({"type": "websocket.disconnect", "code": 1006})
            self._came.set()
            self._read.set()

    def get_write_buffer_size(self) -> int:
        return self._unread_bytes

    def _deliver_later(self) -> None:
        if not self._delivering and self._to_peer and self.peer_reads and self.open:
            self._delivering = True
            self._loop.call_later(self._random.random() * DELAY_S_MAX, self._deliver)

    def _deliver(self) -> None:
        self._delivering = False
        for _ in range(self._random.randint(1, 1 + len(self._to_peer))):
            if not self.open or not self.peer_reads or not self._to_peer:
                break
            size, received = self._to_peer.popleft()
            self._unread_bytes -= size
            self._received(received)
        if self._unread_bytes <= UNREAD_MAX:
            self._read.set()
        self._deliver_later()

    # The server's side

    async def _receive(self) -> Json:
        while not self._to_broker:
            self._came.clear()
            await self._came.wait()
        return self._to_broker.popleft()

    async def _send(self, event: Any) -> None:
        while self.open and self._unread_bytes > UNREAD_MAX:
            self._read.clear()
            await self._read.wait()
        if not self.open:
            self._gone()
        match event["type"]:
            case "websocket.accept":
                self._opened()
            case "websocket.send":
                frame: Json = json.loads(event["text"])
                self._to_peer.append((len(event["text"]), frame))
                self._unread_bytes += len(event["text"])
                self._written(frame)
                self._deliver_later()
            case "websocket.close" | "websocket.http.response.body":
                self._loop.call_later(DELAY_S_MAX, self._ended)

    def _ended(self) -> None:
        """The broker closed it. What it wrote before has arrived, if the peer reads."""
        if self.peer_reads:
            self.cut(arrives=True)
        else:
            self.cut()

    def _gone(self) -> NoReturn:
        raise OSError("the peer is gone")
