"""What one connection sends, gathered over a turn of the loop, and what happens if its peer does not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from messaging.broker.core.memory_limiter import MemoryAccount

UNREAD_BYTES_PAUSE = 1 << 20  # in our send buffer: nothing more is dispatched to this peer
UNREAD_BYTES_PAUSE_MIN = 64 << 10  # the same when memory for such buffers is short
UNREAD_BYTES_MAX = 64 << 20  # a peer that reads nothing at all is cut off here
GATHERED_BYTES_MAX = 256 << 10  # beyond it what a turn of the loop brings for one peer is not collected any further


class OutboundBuffer:
    """Nothing is sent any more once it is `closed`. `does_not_read` is called when the peer has let too much pile up.

    What the peer has not read counts as memory of `tenant`, and the less of that is left the less may pile up here. It is looked at
    before each write, so that what was just written does not count; whoever is in `unread` had something left at the last look."""

    __slots__ = (
        "_account",
        "_does_not_read",
        "_gathered",
        "_gathered_bytes",
        "_looked_bytes",
        "_loop",
        "_pause_bytes",
        "_unread",
        "_unread_bytes",
        "closed",
        "tenant",
        "transport",
        "writable",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        does_not_read: Callable[[int], None],
        account: MemoryAccount,
        unread: set[OutboundBuffer],
    ) -> None:
        self.tenant = ""
        self.writable = True  # what is sent leaves; False: it piles up, and nothing should be added that can wait
        self.closed = False
        self.transport = transport
        self._does_not_read = does_not_read
        self._loop = asyncio.get_running_loop()
        self._gathered: list[bytes | memoryview] = []
        self._gathered_bytes = 0
        self._account = account
        self._unread = unread
        self._unread_bytes = 0
        self._looked_bytes = 0  # unread at the last look of `stalled`
        self._pause_bytes = UNREAD_BYTES_PAUSE
        transport.set_write_buffer_limits(high=UNREAD_BYTES_PAUSE)

    def gather(self, data: bytes | memoryview) -> None:
        """Sends it at the end of this turn of the loop, in the order of calls: what many topics and requests have for one peer
        leaves in one write."""
        gathered = self._gathered
        gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes > GATHERED_BYTES_MAX:
            self.flush()
        elif len(gathered) == 1:
            self._loop.call_soon(self.flush)

    def gather_parts(self, parts: list[bytes | memoryview]) -> None:
        """At once, in large parts: they are not copied into one buffer, the kernel takes them as they are."""
        self.flush()
        self._write(parts)

    def flush(self) -> None:
        gathered = self._gathered
        if gathered:
            self._gathered = []
            self._gathered_bytes = 0
            self._write(b"".join(gathered) if len(gathered) > 1 else gathered[0])

    def _write(self, data: bytes | memoryview | list[bytes | memoryview]) -> None:
        if self.closed:
            return
        self.count()
        if isinstance(data, list):
            self.transport.writelines(data)
        else:
            self.transport.write(data)
        if not self.writable and self.transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self.cut_off()

    def close(self) -> None:
        """What was gathered still goes out, as far as the transport sends it."""
        self.flush()
        self.closed = True

    def belongs_to(self, tenant: str) -> None:
        """Whose memory this is from now on. The first word counts."""
        if not self.tenant:
            self._count(0)
            self.tenant = tenant

    def end(self) -> None:
        """The connection is gone, and what it had not sent with it."""
        self.closed = True
        self._count(0)
        self._does_not_read = _nobody  # it leads back to the connection, which is to be freed without the collector

    # --- what the peer has not read

    def cut_off(self) -> None:
        """The peer does not read, and is waited for no longer."""
        self._does_not_read(self.transport.get_write_buffer_size())

    def pause(self) -> None:
        """The transport says that too much piles up."""
        self.writable = False
        self.count()

    def stalled(self) -> bool:
        """Once a keep-alive interval: whether much waits for the peer, and it has read nothing of that since the last look."""
        size = 0 if self.writable else self.transport.get_write_buffer_size()
        before, self._looked_bytes = self._looked_bytes, size
        return 0 < before <= size

    def resume(self) -> None:
        self.writable = True
        self._looked_bytes = 0
        self.count()

    def count(self) -> None:
        self._count(self.transport.get_write_buffer_size())

    def _count(self, size: int) -> None:
        more, self._unread_bytes = size - self._unread_bytes, size
        if not more:
            return
        if more > 0:
            self._account.take(self.tenant, more)
        else:
            self._account.give(self.tenant, -more)
        if size:
            self._unread.add(self)
        else:
            self._unread.discard(self)
        pause = min(UNREAD_BYTES_PAUSE, max(UNREAD_BYTES_PAUSE_MIN, self._account.share(self.tenant)))
        if not self.closed and (pause * 2 <= self._pause_bytes or self._pause_bytes * 2 <= pause):
            self._pause_bytes = pause
            self.transport.set_write_buffer_limits(high=pause)


def _nobody(unread_bytes: int) -> None:
    """The connection is gone."""
