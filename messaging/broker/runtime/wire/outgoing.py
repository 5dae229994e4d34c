"""What one connection sends: at once, or gathered over a turn of the loop; and what happens when its peer does not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

UNREAD_BYTES_PAUSE = 1 << 20  # in our send buffer: nothing more is dispatched to this peer
UNREAD_BYTES_MAX = 64 << 20  # a peer that reads nothing at all is cut off here
GATHERED_BYTES_MAX = 256 << 10  # beyond it what a turn of the loop brings for one peer is not collected any further


class Outgoing:
    """Nothing is sent any more once it is `closed`. `does_not_read` is called when the peer has let too much pile up."""

    __slots__ = ("_does_not_read", "_gathered", "_gathered_bytes", "_loop", "_transport", "closed", "writable")

    def __init__(self, transport: asyncio.Transport, does_not_read: Callable[[int], None]) -> None:
        self.writable = True  # what is sent leaves; False: it piles up, and nothing should be added that can wait
        self.closed = False
        self._transport = transport
        self._does_not_read = does_not_read
        self._loop = asyncio.get_running_loop()
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        transport.set_write_buffer_limits(high=UNREAD_BYTES_PAUSE)

    def send(self, data: bytes) -> None:
        """In the order of calls, after what was gathered."""
        if self._gathered:
            self.flush()
        self._write(data)

    def gather(self, data: bytes) -> None:
        """Like `send`, at the end of this turn of the loop: what many topics have for one peer leaves as one buffer."""
        gathered = self._gathered
        gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes > GATHERED_BYTES_MAX:
            self.flush()
        elif len(gathered) == 1:
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        gathered = self._gathered
        if gathered:
            self._gathered = []
            self._gathered_bytes = 0
            self._write(b"".join(gathered) if len(gathered) > 1 else gathered[0])

    def _write(self, data: bytes) -> None:
        if self.closed:
            return
        self._transport.write(data)
        if not self.writable and self._transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self._does_not_read(self._transport.get_write_buffer_size())

    def close(self) -> None:
        """What was gathered still goes out, as far as the transport sends it."""
        self.flush()
        self.closed = True
