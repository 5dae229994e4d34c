"""Checks whether the peer of a connection is alive.

It is pinged when it was silent or when others wait for what it holds, and it must make progress on a frame that it started to send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from messaging.broker.core.turns.frame_progress import FrameProgress, too_slow
from messaging.broker.runtime.wire.outbound import OutboundBuffer
from messaging.broker.runtime.wire.receiver import Receiver
from messaging.protocol import frames
from messaging.protocol.session import State
from messaging.settings import Settings


class Liveness:
    """`refuse` closes the connection."""

    __slots__ = ("_deadline", "_out", "_progress", "_receiver", "_refuse", "_settings", "asked", "heard", "ping_sent")

    def __init__(self, settings: Settings, out: OutboundBuffer, receiver: Receiver, refuse: Callable[[str, str], None]) -> None:
        self._settings = settings
        self._out = out
        self._receiver = receiver
        self._refuse = refuse
        self.heard = True  # something arrived since the last keep-alive tick
        self.ping_sent = False
        self.asked: asyncio.Future[None] | None = None  # probes waiting for a sign of life: others wait for what the peer holds
        self._deadline: asyncio.TimerHandle | None = None  # for that
        self._progress: FrameProgress | None = None  # at the last check

    def keep_alive(self) -> None:
        """Called every keep-alive interval: pings a silent peer, and closes the connection if it did not answer the last ping."""
        if self._out.stalled():
            self._out.cut_off()
        elif self.heard or not self._receiver.reading:  # reading is paused: it may have answered
            self.heard = False
            self.ping_sent = False
        elif self.ping_sent:
            self._refuse("no answer to ping", "")
        elif self._receiver.inbound.state is State.READY:
            self.ping_sent = True
            self._out.gather(frames.PING)

    def probe(self) -> asyncio.Future[None] | None:
        """Pings the peer and returns when it answers, or when it was disconnected for not answering within `liveness_ms`."""
        if self._out.closed or not self._receiver.reading:  # while reading is paused it may have answered
            return None
        if self.asked is None:
            loop = asyncio.get_running_loop()
            self.asked = loop.create_future()
            self._deadline = loop.call_later(
                self._settings.liveness_ms / 1000, self._refuse, "no sign of life", "another client asks for what it holds"
            )
            self._out.gather(frames.PING)
        return self.asked

    def answered(self) -> None:
        if self.asked is not None:
            asked, self.asked = self.asked, None
            if self._deadline is not None:
                self._deadline.cancel()
            asked.set_result(None)

    def check_progress(self) -> None:
        """Called once per window: a frame that makes too little progress closes the connection."""
        now = self._receiver.progress if self._receiver.reading else None
        if too_slow(self._progress, now):
            self._refuse("a frame came too slowly", f"{now}")
        self._progress = now

    def close(self) -> None:
        """The connection is gone; removes all references to it. Idempotent."""
        self.answered()
        self._refuse = lambda reason, detail: None
