"""Which requests run and which wait, as ASGI middleware around the application of a process.

At most `running_max` requests run at a time and `waiting_max` wait. Waiting requests are served in turn by tenant where a request
shows whose it is, by address where it does not, and nobody has more that run, or wait, than there is room left for others. Where
requests compete for a processor, nobody has more than `of_caller_max` that run either: beside 16 of one caller the page
of somebody else took 20 times as long. A request without room is refused with 503. A request counts until its response starts,
because slow readers must not delay those who wait. One whose caller leaves is not served.

Requests of our own processes have their own queue and wait only for each other. So have health checks, once one has seen that a
request is taken: it asks for a turn as everybody does, and says so if there is none in time.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from messaging.caller import Caller, working_for
from messaging.client_address import place_of
from messaging.errors import NotReady
from messaging.fairness.turns import FairTurns

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Health checks, and how long each waits for a turn. Whoever fails the first is restarted: it waits longer than any request may
# take. Whoever fails the others is sent no requests.
PROBE_S = {"/healthz": 25.0, "/readyz": 2.0, "/status.html": 2.0}
HEALTH_PATHS = (*PROBE_S, "/metrics")
PROBE = "health"  # whose turn a health check asks for
INTERNAL_PREFIX = "/internal/"  # what the broker asks, while requests may be waiting for the broker
OWN_RUNNING_MAX = 4  # of each of those two kinds
OWN_WAITING_MAX = 64
HEADERS_MAX = 100  # of a request; browsers send under 30
FULL = "all connections of this server are in use: try again in a moment"


class RequestQueue:
    """Turns of one kind of request. `who`: a tenant or an address."""

    def __init__(self, running_max: int, waiting_max: int, of_caller_max: int | None = None) -> None:
        self.refused = 0
        self._turns = FairTurns(running_max, of_caller_max, waiting_max)

    @property
    def running(self) -> int:
        return self._turns.slots.served.total()

    @property
    def waiting(self) -> int:
        return self._turns.slots.waiting.total()

    async def begin(self, who: str) -> bool:
        """True when it is this request's turn, which `end` gives back; False where there is no room to wait."""
        try:
            await self._turns.begin(who)
        except NotReady:
            self.refused += 1
            return False
        return True

    def end(self, who: str) -> None:
        self._turns.end(who)

    async def takes_requests(self, within_s: float) -> bool:
        """Whether somebody who uses nothing gets a turn in time."""
        try:
            async with asyncio.timeout(within_s):
                await self._turns.begin(PROBE, always=True)
        except TimeoutError:
            return False
        self._turns.end(PROBE)
        return True


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
    turn, so that none waits for a peer in it; the application around this bounds how much one may send. `who`: whose turns a
    request takes. What is done for it knows its `messaging.caller`, who leaves with the connection."""

    def __init__(
        self,
        app: App,
        running_max: int,
        waiting_max: int,
        bodies: BodyBudget | None = None,
        who: Callable[[Scope], str] | None = None,
        of_caller_max: int | None = None,
    ) -> None:
        self._app = app
        self._who = who or address_of
        self.bodies = bodies
        self.requests = RequestQueue(running_max, waiting_max, of_caller_max)
        self.health = RequestQueue(OWN_RUNNING_MAX, OWN_WAITING_MAX)
        self.internal = RequestQueue(OWN_RUNNING_MAX, OWN_WAITING_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope.get("state", {}).get("full"):
            await _refuse_upgrade(receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        count = len(scope["headers"])
        if _has_two_lengths(scope):
            await refuse(
                send, 400, "invalid_request", "the request has both Content-Length and Transfer-Encoding: send one of them"
            )
        elif count > HEADERS_MAX:
            await refuse(send, 431, "too_many_headers", f"the request has {count} headers; at most {HEADERS_MAX} are taken")
        elif scope["path"] in PROBE_S and not await self.requests.takes_requests(PROBE_S[scope["path"]]):
            queue = self.requests
            text = f"no request was taken for {PROBE_S[scope['path']]:g} s: {queue.running} are served and {queue.waiting} wait"
            await refuse(send, 503, "not_ready", text)
        elif scope["path"] in HEALTH_PATHS:
            await self._in_turn(self.health, scope, receive, send)
        elif scope["path"].startswith(INTERNAL_PREFIX):
            await self._in_turn(self.internal, scope, receive, send)
        elif scope.get("state", {}).get("full"):
            await refuse(send, 503, "not_ready", FULL)
        elif self.bodies is None:
            await self._in_turn(self.requests, scope, receive, send)
        else:
            await self._with_body(self.bodies, scope, receive, send)

    async def _with_body(self, bodies: BodyBudget, scope: Scope, receive: Receive, send: Send) -> None:
        address = address_of(scope)
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
            leaving = asyncio.ensure_future(receive())  # what follows a body is that the caller leaves

            async def again() -> Event:
                return events.popleft() if events else await asyncio.shield(leaving)

            try:
                await self._in_turn(self.requests, scope, again, send, leaving)
            finally:
                leaving.cancel()
        finally:
            bodies.give(address, held_bytes)

    async def _in_turn(
        self,
        request_queue: RequestQueue,
        scope: Scope,
        receive: Receive,
        send: Send,
        leaving: asyncio.Future[Event] | None = None,
    ) -> None:
        caller = Caller(self._who(scope))
        who = caller.tenant
        if leaving is not None:
            leaving.add_done_callback(lambda done: None if done.cancelled() else caller.leave())
        begun = await _begun(request_queue, who, leaving)
        if begun is None:
            return  # nobody is there to be answered
        if not begun:
            await refuse(send, 503, "not_ready", f"{request_queue.waiting} requests wait already: try again in a moment")
            return
        has_slot = True

        def end() -> None:
            nonlocal has_slot
            if has_slot:
                has_slot = False
                request_queue.end(who)

        async def noted(event: Event) -> None:
            if event["type"] == "http.response.start":
                end()
            await send(event)

        try:
            with working_for(caller):
                await self._app(scope, receive, noted)
        finally:
            end()


def _has_two_lengths(scope: Scope) -> bool:
    """A proxy may believe the other one, and take a part of this request for the next one (RFC 9112, 6.3)."""
    return {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}


async def _begun(request_queue: RequestQueue, who: str, leaving: asyncio.Future[Event] | None) -> bool | None:
    """As `begin` of `request_queue`; None if the caller leaves before, and the turn is given up."""
    if leaving is None:
        return await request_queue.begin(who)
    waiting = asyncio.ensure_future(request_queue.begin(who))
    either: set[asyncio.Future[Any]] = {waiting, leaving}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        waiting.cancel()
        (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
        if outcome is True:  # its turn had just come
            request_queue.end(who)
        raise
    try:
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return None
    finally:
        del waiting, either  # an error knows this frame: neither would be freed (`fairness/in_thread.py`)


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return place_of(str(client[0])) if client else ""


async def _refuse_upgrade(receive: Receive, send: Send) -> None:
    """On one of the connections that are for health checks."""

    async def answer(event: Event) -> None:
        await send({**event, "type": event["type"].replace("http.", "websocket.http.", 1)})

    await receive()
    try:
        await refuse(answer, 503, "not_ready", FULL)
    except OSError:
        pass  # it did not wait for the answer


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
