"""What one connection sends and the broker has to hold: counted once a read, and the reason why reading may pause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from messaging.broker.core.ingress_limiter import IngressLimiter, PublishQuota

COUNTED_FRAME_BYTES = 4 << 10  # a frame that is still coming counts from this size on


class Intake:
    """`go_on` is called where the gate lets it be read again and `hold` says that something of the last read is left."""

    __slots__ = ("_appended", "_go_on", "_held", "_ingress_limiter", "_loop", "_settled", "_transport", "quota")

    def __init__(self, transport: asyncio.Transport, ingress_limiter: IngressLimiter, go_on: Callable[[], None]) -> None:
        self.quota = PublishQuota("", self._read_on)
        self._held = False
        self._go_on = go_on
        self._transport = transport
        self._ingress_limiter = ingress_limiter
        self._loop = asyncio.get_running_loop()
        self._appended = 0  # since the last `read_done`
        self._settled = 0  # in this turn of the loop

    def belongs_to(self, tenant: str) -> None:
        """Whose memory this is from now on. The first word counts."""
        self.quota.tenant = self.quota.tenant or tenant

    @property
    def paused(self) -> bool:
        """By the gate: nothing is to be handled now, neither what will be read nor what is left of a read."""
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

    def appended(self, size: int) -> None:
        self._appended += size

    def read_done(self) -> None:
        """What this read brought is appended and counts; call before any of it can be settled."""
        size, self._appended = self._appended, 0
        if size and self._ingress_limiter.take(self.quota, size) and not self._held:
            self._pause()

    def append_completed(self, size: int) -> None:
        """`size` bytes that this connection appended are durable, or will never be."""
        if not self._settled:
            self._loop.call_soon(self._give)
        self._settled += size

    def frame_begins(self, size: int) -> None:
        """The first bytes of a frame of `size` bytes are there. Before it is known whose they are, frames are small."""
        if size >= COUNTED_FRAME_BYTES and self.quota.tenant and self._ingress_limiter.begin(self.quota, size):
            self._pause()

    def frame_came(self) -> None:
        self._ingress_limiter.came(self.quota)

    def leave(self) -> None:
        """The connection is over. What it appended still counts until it is settled. Idempotent."""
        self._ingress_limiter.leave(self.quota)
        self.quota.resume = self._go_on = _nothing  # they lead back here, and to the connection

    def _give(self) -> None:
        size, self._settled = self._settled, 0
        self._ingress_limiter.give(self.quota, size)

    def _pause(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if self._held:
            self._go_on()
        else:
            self._resume()

    def _resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()


def _nothing() -> None:
    """Nothing is read any more."""
