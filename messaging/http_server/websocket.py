"""One WebSocket: uvicorn's, with limits on what is read before the application takes it, and on messages that never end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from messaging.http_server.bounds import HttpBounds
from messaging.http_server.transfer_rate import Transfer

FREE_BYTES = 32 << 10  # of a message that has begun, before it counts
FRAMES_A_TURN = 300  # then others get their turn of the loop: pings and pieces of messages can be of seven bytes
READ_BYTES_MAX = 4 << 10  # looked at at once; each message in it becomes an object
PONGS_BYTES_MAX = 64 << 10  # of what a peer has not read, before its pings are not answered any more


class ReadThrottle(Protocol):
    """Where large messages wait for memory: `messaging.broker.http.websocket.memory.MessageIntake`."""

    def begin(self) -> bool: ...

    def end(self) -> None: ...

    def leave(self) -> None: ...


class WebSocketProtocol(WebSocketsSansIOProtocol):
    bounds: HttpBounds | None = None
    _end: asyncio.TimerHandle | None = None  # it was closed
    _transfer: Transfer | None = None  # while a message has begun and not ended
    _timer: asyncio.TimerHandle | None = None
    _read_throttle: ReadThrottle | None = None
    _counted = False  # a message that has begun counts there
    _counted_by_application = False  # this connection: it has no place here
    _stopped = False  # it waits for its turn to go on
    _frames = 0  # looked at in this turn
    _turn_due = False  # what is held goes on in the next
    held_back = b""  # read, and not looked at while the application has enough
    _begun_bytes_max: int | None = None  # of a message, where the application permits less than the server

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._end is not None:
            self._end.cancel()
        self.held_back = b""
        if self._read_throttle is not None:
            self._read_throttle.leave()
        if self.bounds is not None:
            self.bounds.slots.leave(self)
        super().connection_lost(exc)

    def give_way(self) -> None:
        self.transport.abort()

    @property
    def begun_bytes(self) -> int:
        """Of a message that has not ended."""
        return len(self.conn.reader.buffer) + sum(map(len, self.frames))

    def data_received(self, data: bytes) -> None:
        if self.held_back:
            self.held_back += data
            return
        self.look_at(data)

    def look_at(self, data: bytes) -> None:
        """As much as the application takes now; it is asked again when it has taken that."""
        position = 0
        while position < len(data):
            if (self.read_paused or self._stopped) and not self.close_sent:
                self.held_back = data[position:]
                return
            part = data[position : position + READ_BYTES_MAX]
            position += len(part)
            if self._transfer is not None:
                self._transfer.moved_bytes += len(part)
            super().data_received(part)
            if self.transport.is_closing():
                self._end_soon()
                return
            self._watch_message()
            if self._frames > FRAMES_A_TURN and position < len(data) and not self._turn_due:
                self.held_back = data[position:]
                self._turn_due = True
                self.transport.pause_reading()
                self.loop.call_soon(self._next_turn)
                return

    def _next_turn(self) -> None:
        self._turn_due = False
        self._frames = 0
        data, self.held_back = self.held_back, b""
        if self.transport.is_closing():
            return
        self.look_at(data)
        if not self.held_back and not self.read_paused and not self._stopped and not self.transport.is_closing():
            self.transport.resume_reading()

    def handle_events(self) -> None:
        self._frames += len(self.conn.events)
        super().handle_events()

    async def receive(self) -> Any:
        message = await super().receive()
        if self._stopped or self._turn_due:
            self.transport.pause_reading()
        elif self.held_back and not self.read_paused:
            data, self.held_back = self.held_back, b""
            self.look_at(data)
        return message

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.close":
            self._end_soon()  # now: it may wait for the peer to read
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # uvicorn does not know that a refused upgrade is finished, and would log an error

        if self.held_back and self.close_sent:  # the answer to our close may be in it
            data, self.held_back = self.held_back, b""
            self.look_at(data)

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self._count_here()
        if self.transport.is_closing():
            self._end_soon()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._end_soon()

    def _end_soon(self) -> None:
        """Closing waits until the peer has read what was sent and has answered: so long, and no longer."""
        self._count_here()
        if self.bounds is not None and self._end is None and not self.disconnected:
            self._end = self.loop.call_later(self.bounds.transfer_s, self.transport.abort)

    def handle_ping(self) -> None:
        if self.transport.get_write_buffer_size() > PONGS_BYTES_MAX:
            self.conn.data_to_send()  # it does not read the answers
        else:
            super().handle_ping()

    # --- messages that take long, or do not end

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.handshake_initiated and not self.close_sent:
            self.scope["state"]["counts_begun"] = self._count_by
            self.scope["state"]["counts_no_longer"] = self._count_here
            self.scope["state"]["limit_messages"] = self._limit_messages

    def _count_by(self, make: Callable[[Callable[[], None]], ReadThrottle]) -> None:
        """For the application, once it knows whose connection it is and whose memory a message is in."""
        self._read_throttle = make(self._resume_after_pause)
        if self.bounds is not None and self._end is None:
            self._counted_by_application = True
            self.bounds.slots.leave(self)

    def _count_here(self) -> None:
        """The application has done with it, though it is still open: it waits for its peer, and others may need its place."""
        if self.bounds is None or self.disconnected:
            return
        if not self._counted_by_application:
            self.bounds.slots.silent(self)
            return
        self._counted_by_application = False
        leaves = self.bounds.slots.return_silent(self, self.client[0] if self.client else "")
        if leaves is not None:
            leaves.give_way()

    def _limit_messages(self, bytes_max: int) -> None:
        """For the application: a larger message ends the connection, before all of it has arrived."""
        self._begun_bytes_max = bytes_max

    def _count(self) -> None:
        begun = self.begun_bytes
        if self._read_throttle is None:
            return
        if not begun and self._counted:
            self._counted = False
            self._read_throttle.end()
        elif begun > FREE_BYTES and not self._counted:
            self._counted = True
            if self._read_throttle.begin():
                self._stopped = True
                self.transport.pause_reading()

    def _resume_after_pause(self) -> None:
        self._stopped = False
        self._transfer = None  # it was not the peer who waited
        self._stop_timer()
        data, self.held_back = self.held_back, b""
        self.look_at(data)
        if not self.read_paused and not self._stopped and not self.transport.is_closing():
            self.transport.resume_reading()
        self._watch_message()

    def _watch_message(self) -> None:
        if self._begun_bytes_max is not None and self.begun_bytes > self._begun_bytes_max:
            self.transport.abort()
            return
        self._count()
        if self.bounds is None or not self.begun_bytes:
            self._stop_timer()
            self._transfer = None
        elif self._transfer is None:
            self._transfer = Transfer(self.loop.time(), self.bounds.transfer_s)
            self._timer = self.loop.call_at(self._transfer.due_s(), self._due)

    def _due(self) -> None:
        transfer = self._transfer
        assert transfer is not None
        if transfer.due_s() > self.loop.time():
            self._timer = self.loop.call_at(transfer.due_s(), self._due)
        elif self._stopped:
            self._transfer = None
        else:
            self.transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
