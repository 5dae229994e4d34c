"""One WebSocket: uvicorn's, with bounds on what is read before the application takes it, and on messages that do not end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from messaging.http_server.transfer import Transfer

if TYPE_CHECKING:
    from messaging.http_server.protocol import HttpBounds

READ_BYTES_MAX = 16 << 10  # looked at at once; each message in it becomes an object
PONGS_BYTES_MAX = 64 << 10  # of what a peer has not read, before its pings are not answered any more


class WebSocketProtocol(WebSocketsSansIOProtocol):
    bounds: HttpBounds | None = None
    _transfer: Transfer | None = None  # while a message has begun and not ended
    _timer: asyncio.TimerHandle | None = None
    _held = b""  # read, and not looked at while the application has enough

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._held = b""
        if self.bounds is not None:
            self.bounds.places.leave(self)
        super().connection_lost(exc)

    def give_way(self) -> None:
        self.transport.abort()

    @property
    def begun_bytes(self) -> int:
        """Of a message that has not ended."""
        return len(self.conn.reader.buffer) + sum(map(len, self.frames))

    def data_received(self, data: bytes) -> None:
        if self._held:
            self._held += data
            return
        self._look_at(data)

    def _look_at(self, data: bytes) -> None:
        """As much as the application takes now; it is asked again when it has taken that."""
        position = 0
        while position < len(data):
            if self.read_paused and not self.close_sent:
                self._held = data[position:]
                return
            part = data[position : position + READ_BYTES_MAX]
            position += len(part)
            if self._transfer is not None:
                self._transfer.moved_bytes += len(part)
            super().data_received(part)
            if self.transport.is_closing():
                return
        self._watch_message()

    async def receive(self) -> Any:
        message = await super().receive()
        if self._held and not self.read_paused:
            data, self._held = self._held, b""
            self._look_at(data)
        return message

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # uvicorn does not know that a refused upgrade is finished, and would log an error

        if self._held and self.close_sent:  # the answer to our close may be in it
            data, self._held = self._held, b""
            self._look_at(data)

    def handle_ping(self) -> None:
        if self.transport.get_write_buffer_size() > PONGS_BYTES_MAX:
            self.conn.data_to_send()  # it does not read the answers
        else:
            super().handle_ping()

    # --- messages that do not end

    def _watch_message(self) -> None:
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
        else:
            self.transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
