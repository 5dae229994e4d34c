"""When a connection is read: not while it holds too much that is not durable yet, and not while something of the last read is left.

What it sends and the broker has to hold is counted once per read, by the ingress limiter, which also decides about pauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from messaging.broker.core.ingress_limiter import IngressLimiter, PublishQuota

COUNTED_FRAME_BYTES = 4 << 10  # a frame that is still coming counts from this size on


class ReadThrottle:
    """`go_on` is called where the limiter lets it be read again and `hold` says that something of the last read is left."""

    __slots__ = ("_completed_bytes", "_held", "_limiter", "_loop", "_transport", "appended_bytes", "go_on", "quota")

    def __init__(self, transport: asyncio.Transport, limiter: IngressLimiter) -> None:
        self.quota = PublishQuota("", self._read_on)
        self.go_on: Callable[[], None] = _nothing
        self.appended_bytes = 0  # since the last `read_done`
        self._held = False
        self._transport = transport
        self._limiter = limiter
        self._loop = asyncio.get_running_loop()
        self._completed_bytes = 0  # in this turn of the loop

    def belongs_to(self, tenant: str) -> None:
        """Whose memory this is from now on. The first word counts."""
        self.quota.tenant = self.quota.tenant or tenant

    @property
    def paused(self) -> bool:
        """By the limiter: nothing is to be handled now, neither what will be read nor what is left of a read."""
        return self.quota.paused

    @property
    def reading(self) -> bool:
        return not self._held and not self.quota.paused

    def hold(self) -> None:
        """Something of a read is left: nothing more is read until `release`."""
        if self.reading:
            self._pause()
        self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            if not self.quota.paused:
                self._resume()

    def read_done(self) -> None:
        """What this read brought is appended and counts; call before any of it can be completed."""
        size, self.appended_bytes = self.appended_bytes, 0
        if size and self._limiter.take(self.quota, size) and not self._held:
            self._pause()

    def append_completed(self, size: int) -> None:
        """`size` bytes that this connection appended are durable, or will never be."""
        if not self._completed_bytes:
            self._loop.call_soon(self._give)
        self._completed_bytes += size

    def frame_begins(self, size: int) -> bool:
        """The first bytes of a frame of `size` bytes are there. Returns whether it counts: not before it is known whose it is."""
        if size < COUNTED_FRAME_BYTES or not self.quota.tenant:
            return False
        if self._limiter.begin(self.quota, size):
            self._pause()
        return True

    def frame_arrived(self) -> None:
        self._limiter.frame_arrived(self.quota)

    def close(self) -> None:
        """The connection is over. What it appended still counts until that is completed. Idempotent."""
        self._limiter.leave(self.quota)
        self.quota.resume = self.go_on = _nothing  # they lead back here, and to the connection

    def _give(self) -> None:
        size, self._completed_bytes = self._completed_bytes, 0
        self._limiter.give(self.quota, size)

    def _pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if self._held:
            self.go_on()
        else:
            self._resume()

    def _resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()


def _nothing() -> None:
    """Nothing is read any more."""
