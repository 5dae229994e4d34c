"""The outgoing data of one connection, collected over a turn of the event loop, and the limits for a peer that does not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from messaging.broker.core.memory.memory_limiter import MemoryAccount
from messaging.errors import NotReady

UNREAD_BYTES_PAUSE = 1 << 20  # bytes in our send buffer above which nothing more is dispatched to this peer
UNREAD_BYTES_PAUSE_MIN = 64 << 10  # the same when memory for send buffers is short
UNREAD_BYTES_MAX = 64 << 20  # a peer that reads nothing at all is disconnected here
GATHERED_BYTES_MAX = 256 << 10  # above this, data is written at once instead of being collected until the end of the turn


class OutboundBuffer:
    """Sends nothing any more once it is `closed`. `does_not_read` is called when too much is buffered for the peer.

    Unread bytes are charged to `tenant`, and the less memory is left, the lower the limit for this peer. They are measured before
    each write, so bytes just written do not count; `unread` holds the buffers that were not empty when last measured."""

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
        self.writable = True  # True: writes go out; False: they pile up, so anything that can wait should
        self.closed = False
        self.transport = transport
        self._does_not_read = does_not_read
        self._loop = asyncio.get_running_loop()
        self._gathered: list[bytes | memoryview] = []
        self._gathered_bytes = 0
        self._account = account
        self._unread = unread
        self._unread_bytes = 0
        self._looked_bytes = 0  # unread bytes at the last call of `stalled`
        self._pause_bytes = UNREAD_BYTES_PAUSE
        transport.set_write_buffer_limits(high=UNREAD_BYTES_PAUSE)

    def gather(self, data: bytes | memoryview) -> None:
        """Sends the data at the end of this turn of the event loop, in the order of calls: the output of many topics and requests
        for one peer goes out in one write."""
        gathered = self._gathered
        gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes > GATHERED_BYTES_MAX:
            self.flush()
        elif len(gathered) == 1:
            self._loop.call_soon(self.flush)

    def gather_parts(self, parts: list[bytes | memoryview]) -> None:
        """Sends at once, in large parts that are passed to the kernel without being copied into one buffer."""
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
        """Collected data is still sent as far as the transport accepts it."""
        self.flush()
        self.closed = True

    def belongs_to(self, tenant: str) -> None:
        """Sets the tenant to charge. Later calls have no effect."""
        if not self.tenant:
            self._count(0)
            self.tenant = tenant

    def end(self) -> None:
        """The connection is gone, together with anything unsent."""
        self.closed = True
        self._count(0)
        self._does_not_read = _nobody  # it refers to the connection, which should be freed without the garbage collector

    # --- peers that do not read

    def cut_off(self) -> None:
        """Gives up on a peer that does not read."""
        self._does_not_read(self.transport.get_write_buffer_size())

    def pause(self) -> None:
        """Called by the transport when its buffer is above the high-water mark."""
        self.writable = False
        self.count()

    def takes_answers(self) -> bool:
        """Whether the peer reads what it is sent. Raises `NotReady` if it is gone: what it asked for need not be made."""
        if self.closed:
            raise NotReady("the connection is closed")
        return self.writable

    def stalled(self) -> bool:
        """Called once per keep-alive interval: whether much is buffered and the peer has read none of it since the last call."""
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
    """Used once the connection is gone."""
