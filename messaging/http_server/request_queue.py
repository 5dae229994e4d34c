"""Which requests run and which wait, as ASGI middleware around the application of a process.

At most `running_max` requests run at a time and `waiting_max` wait. Waiting requests are served one per address in turn, and no
address may have more of them than there is room left for others. A request without room is refused with 503. A request counts
until its response starts, because slow readers must not delay those who wait.

Health checks and requests of our own processes have their own queues and wait only for each other.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from messaging.client_address import place_of
from messaging.fair_queue import FairQueue

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEALTH_PATHS = ("/healthz", "/readyz", "/metrics", "/status.html")
INTERNAL_PREFIX = "/internal/"  # what the broker asks, while requests may be waiting for the broker
OWN_RUNNING_MAX = 4  # of each of those two kinds
OWN_WAITING_MAX = 64
HEADERS_MAX = 100  # of a request; browsers send under 30


class RequestQueue:
    """Turns of one kind of request."""

    def __init__(self, running_max: int, waiting_max: int) -> None:
        self.running_max = running_max
        self.waiting_max = waiting_max
        self.running = 0
        self.refused = 0
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self.by_address: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        return self.by_address.total()

    async def begin(self, address: str) -> bool:
        """True when it is this request's turn, which `end` gives back; False where there is no room to wait."""
        if self.running < self.running_max and not self._waiting:
            self.running += 1
            return True
        if self.by_address[address] >= self.waiting_max - self.waiting:
            self.refused += 1
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.push(address, turn)
        self.by_address[address] += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end()
            raise
        finally:
            self._waiting.discard(address, turn)
            self.by_address[address] -= 1
            if not self.by_address[address]:
                del self.by_address[address]
        return True

    def end(self) -> None:
        while (following := self._waiting.pop()) is not None:
            if not following.done():
                following.set_result(None)
                return
        self.running -= 1


class BodyBudget:
    """Bodies that were read and wait for their turn: no address keeps more than is left for the others."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self.refused = 0
        self.by_address: Counter[str] = Counter()

    def take(self, address: str, size: int) -> bool:
        if self.by_address[address] + size > self.bytes_max - self.held_bytes:
            self.refused += 1
            return False
        self.by_address[address] += size
        self.held_bytes += size
        return True

    def give(self, address: str, size: int) -> None:
        self.held_bytes -= size
        self.by_address[address] -= size
        if not self.by_address[address]:
            del self.by_address[address]


class RequestQueues:
    """`bodies` None: the application reads bodies itself, when it knows who asks. Else they are read before a request takes its
    turn, so that none waits for a peer in it; the application around this bounds how much one may send."""

    def __init__(self, app: App, running_max: int, waiting_max: int, bodies: BodyBudget | None = None) -> None:
        self._app = app
        self.bodies = bodies
        self.requests = RequestQueue(running_max, waiting_max)
        self.health = RequestQueue(OWN_RUNNING_MAX, OWN_WAITING_MAX)
        self.internal = RequestQueue(OWN_RUNNING_MAX, OWN_WAITING_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        count = len(scope["headers"])
        if count > HEADERS_MAX:
            await refuse(send, 431, "too_many_headers", f"the request has {count} headers; at most {HEADERS_MAX} are taken")
        elif scope["path"] in HEALTH_PATHS:
            await self._in_turn(self.health, scope, receive, send)
        elif scope["path"].startswith(INTERNAL_PREFIX):
            await self._in_turn(self.internal, scope, receive, send)
        elif scope.get("state", {}).get("full"):
            await refuse(send, 503, "not_ready", "all connections of this server are in use: try again in a moment")
        elif self.bodies is None:
            await self._in_turn(self.requests, scope, receive, send)
        else:
            await self._with_body(self.bodies, scope, receive, send)

    async def _with_body(self, bodies: BodyBudget, scope: Scope, receive: Receive, send: Send) -> None:
        address = _address(scope)
        events: deque[Event] = deque()
        held_bytes = 0
        try:
            while True:
                event = await receive()
                size = len(event.get("body", b""))
                if not bodies.take(address, size):
                    await refuse(
                        send, 503, "not_ready", f"{bodies.held_bytes} bytes of requests wait already: try again in a moment"
                    )
                    return
                held_bytes += size
                events.append(event)
                if event["type"] == "http.disconnect" or not event.get("more_body"):
                    break

            async def again() -> Event:
                return events.popleft() if events else await receive()

            await self._in_turn(self.requests, scope, again, send)
        finally:
            bodies.give(address, held_bytes)

    async def _in_turn(self, request_queue: RequestQueue, scope: Scope, receive: Receive, send: Send) -> None:
        if not await request_queue.begin(_address(scope)):
            await refuse(send, 503, "not_ready", f"{request_queue.waiting} requests wait already: try again in a moment")
            return
        held = True

        def end() -> None:
            nonlocal held
            if held:
                held = False
                request_queue.end()

        async def noted(event: Event) -> None:
            if event["type"] == "http.response.start":
                end()
            await send(event)

        try:
            await self._app(scope, receive, noted)
        finally:
            end()


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return place_of(str(client[0])) if client else ""


async def refuse(send: Send, status: int, code: str, message: str) -> None:
    """One shape that the readers of all our errors understand; the connection ends with it."""
    fields = {"type": "about:blank", "status": status, "detail": message, "reason": message, "code": code, "message": message}
    body = msgspec.json.encode(fields)
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
