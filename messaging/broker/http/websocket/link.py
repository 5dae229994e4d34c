"""Moves frames between one WebSocket and its session: one task reads, one writes, neither gets ahead of the other side.

Reading pauses while the session has enough to do, writing waits while the peer does not read. Whichever ends first ends both.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Protocol

from messaging.broker.http.asgi import Receive, Send
from messaging.broker.http.websocket.frames import InvalidFrame
from messaging.errors import MagnetarError

logger = logging.getLogger(__name__)

FRAMES_A_TURN = 64  # read or written before others have the loop: about 2 ms
CLOSE_PATIENCE_S = 5.0  # how long a peer that does not read may delay its own end
NORMAL, GOING_AWAY, BAD_DATA, POLICY, INTERNAL, RESTART = 1000, 1001, 1007, 1008, 1011, 1012
_REASON_BYTES_MAX = 123  # what a close frame holds


class Session(Protocol):
    """Interprets frames. No method blocks; `on_text` may await the broker."""

    def start(self) -> None:
        """The connection is open."""

    async def on_text(self, text: str) -> None:
        """Raises `InvalidFrame` for a frame that ends the connection."""

    def accepting(self) -> bool:
        """Whether another frame may be read now. `Link.wake` is called when this becomes true."""

    def next_frame(self) -> str | None:
        """The next text to send, or None. `Link.wake` is called when there is one again."""

    def close(self) -> None:
        """The connection is closed. Idempotent."""


class Link:
    """The connection of a session, and the two tasks behind it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._to_send = asyncio.Event()
        self._to_read = asyncio.Event()
        self._ending: tuple[int, str] | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._writer: asyncio.Task[None] | None = None

    def wake(self) -> None:
        self._to_send.set()
        self._to_read.set()

    def end(self, code: int, reason: str) -> None:
        """Closes the connection after everything that is ready has been sent. Only the first call counts."""
        if self._ending is None:
            self._ending = (code, reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore"))
            self.wake()
            self.after(CLOSE_PATIENCE_S, self._cut)

    def refuse(self, reason: str, detail: str = "") -> None:
        """Its place is needed by others."""
        self.end(RESTART, reason)

    def end_for(self, error: MagnetarError | None) -> None:
        """Closes because the broker closed the producer or consumer behind it."""
        if error is None:
            self.end(NORMAL, "")
        elif error.http_status in (400, 401, 403, 404):
            self.end(POLICY, error.message)
        else:
            self.end(RESTART if error.http_status == 503 else INTERNAL, error.message)

    def after(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Calls `callback` in `delay_s` seconds, unless the connection is closed by then."""

        def run() -> None:
            self._timers.discard(timer)
            callback()

        timer = self._loop.call_later(delay_s, run)
        self._timers.add(timer)

    def soon(self, callback: Callable[[], None]) -> None:
        """Calls `callback` after the frames that were already read have been handled."""
        self._loop.call_soon(callback)

    def now_s(self) -> float:
        return self._loop.time()

    async def run(self, session: Session, receive: Receive, send: Send) -> None:
        """Runs until either side closes the connection."""
        self._writer = asyncio.create_task(self._write(session, send))
        reader = asyncio.create_task(self._read(session, receive))
        try:
            session.start()
            await asyncio.wait({reader, self._writer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            session.close()
            for timer in self._timers:
                timer.cancel()
            for task in (reader, self._writer):
                task.cancel()
            results = await asyncio.gather(reader, self._writer, return_exceptions=True)
        for result in results:
            # OSError is how uvicorn says that the peer is gone.
            if isinstance(result, Exception) and not isinstance(result, OSError):
                raise result

    def _cut(self) -> None:
        if self._writer is not None:
            self._writer.cancel()

    async def _read(self, session: Session, receive: Receive) -> None:
        for count in itertools.count(1):
            if not count % FRAMES_A_TURN:
                await asyncio.sleep(0)
            while not session.accepting():
                self._to_read.clear()
                await self._to_read.wait()
            event = await receive()
            if event["type"] == "websocket.disconnect":
                session.close()  # now, before what waits for the end of this round asks the broker for more
                return
            text = event.get("text")
            if text is None:
                self.end(BAD_DATA, "binary frames are not taken: send JSON as text")
                continue
            if self._ending is not None:
                continue
            try:
                await session.on_text(text)
            except InvalidFrame as error:
                self.end(BAD_DATA, f"{error.code}: {error}")
            except MagnetarError as error:
                self.end_for(error)

    async def _write(self, session: Session, send: Send) -> None:
        for count in itertools.count(1):
            if not count % FRAMES_A_TURN:
                await asyncio.sleep(0)
            frame = session.next_frame()
            if frame is not None:
                await send({"type": "websocket.send", "text": frame})
            elif self._ending is not None:
                await send({"type": "websocket.close", "code": self._ending[0], "reason": self._ending[1]})
                return
            else:
                self._to_send.clear()
                await self._to_send.wait()
