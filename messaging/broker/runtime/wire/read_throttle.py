"""Decides when a connection is read: not while too many of its bytes are not durable yet, and not while part of the last read is
unprocessed, nor while too many of its messages wait for rate limits.

Received bytes are counted once per read by the ingress limiter, which also decides about pauses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from messaging.broker.core.memory.ingress_limiter import IngressLimiter, PublishQuota

COUNTED_FRAME_BYTES = 4 << 10  # an incomplete frame counts from this size on


class ReadThrottle:
    """`go_on` is called when the limiter allows reading again and part of the last read was held."""

    __slots__ = ("_completed_bytes", "_held", "_limiter", "_loop", "_transport", "appended_bytes", "go_on", "quota")

    def __init__(self, transport: asyncio.Transport, limiter: IngressLimiter) -> None:
        self.quota = PublishQuota("", self._read_on)
        self.go_on: Callable[[], None] = _nothing
        self.appended_bytes = 0  # since the last `read_done`
        self._held = False
        self._transport = transport
        self._limiter = limiter
        self._loop = asyncio.get_running_loop()
        self._completed_bytes = 0  # in this turn of the event loop

    def belongs_to(self, tenant: str) -> None:
        """Sets the tenant to charge. Later calls have no effect."""
        self.quota.tenant = self.quota.tenant or tenant

    @property
    def paused(self) -> bool:
        """Whether the limiter paused it: process nothing now, neither new reads nor the rest of the last one."""
        return self.quota.paused

    @property
    def reading(self) -> bool:
        return not self._held and not self.quota.paused and not self.quota.parked_too_much

    def hold(self) -> None:
        """Part of the last read is unprocessed: pauses reading until `release`."""
        if self.reading:
            self._pause()
        self._held = True

    def release(self) -> None:
        if self._held:
            self._held = False
            if self.reading:
                self._resume()

    def park(self, size: int) -> None:
        """`size` bytes of this connection wait for rate limits. While that is too much, nothing more is read."""
        reading = self.reading
        if self._limiter.park(self.quota, size) and reading:
            self._pause()

    def unpark(self, size: int) -> None:
        if self._limiter.unpark(self.quota, size) and self.reading:
            self._resume()

    def read_done(self) -> None:
        """The data of this read is appended and counted; call before any of it can complete."""
        size, self.appended_bytes = self.appended_bytes, 0
        if size and self._limiter.take(self.quota, size) and not self._held and not self.quota.parked_too_much:
            self._pause()

    def append_completed(self, size: int) -> None:
        """`size` bytes that this connection appended are durable or failed."""
        if not self._completed_bytes:
            self._loop.call_soon(self._give)
        self._completed_bytes += size

    def frame_begins(self, size: int) -> bool:
        """The beginning of a frame of `size` bytes arrived. Returns whether it is counted: not before the tenant is known."""
        if size < COUNTED_FRAME_BYTES or not self.quota.tenant:
            return False
        if self._limiter.begin(self.quota, size):
            self._pause()
        return True

    def frame_arrived(self) -> None:
        self._limiter.frame_arrived(self.quota)

    def close(self) -> None:
        """The connection is gone. What it appended stays counted until it completes. Idempotent."""
        self._limiter.leave(self.quota)
        self.quota.resume = self.go_on = _nothing  # they refer back to this object and to the connection

    def _give(self) -> None:
        size, self._completed_bytes = self._completed_bytes, 0
        self._limiter.give(self.quota, size)

    def _pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if self._held:
            self.go_on()
        elif self.reading:
            self._resume()

    def _resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()


def _nothing() -> None:
    """Used once the connection is gone."""
