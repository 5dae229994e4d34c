"""How many messages a WebSocket consumer may receive, and when delayed positions are due. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from messaging.broker.runtime.local.messages import MessagePosition

QUEUED_BYTES_MAX = 4 << 20  # of messages that wait for the peer to read, a connection
_SIZE_GUESS_BYTES = 64 << 10  # before the first message has been seen


class PushWindow:
    """Permits of one consumer: what its client may be sent, and what the broker is asked for.

    In push mode up to `limit` messages are out unacknowledged, and each acknowledgement makes room for one. In pull mode nothing is
    sent until the client grants it. In both, the broker is asked for no more than what about `QUEUED_BYTES_MAX` will hold: a peer
    that does not read stops being served, and keeps little.

    The broker delivers whole batches, so more may come than was asked for. What is too much waits here, and the broker, which then
    counts below zero, is asked for nothing until it is used up; the next question makes up for it.
    """

    def __init__(self, limit: int, *, pull: bool = False) -> None:
        self.limit = limit
        self.pull = pull
        self.allowance = 0 if pull else limit  # messages that the client may be sent now
        self.outstanding = 0  # asked for and not come; below zero: came and was not asked for
        self.queued = 0
        self.queued_bytes = 0
        self._size_bytes = _SIZE_GUESS_BYTES

    @property
    def may_send(self) -> bool:
        return self.allowance > 0

    def to_ask(self, room_bytes: int = QUEUED_BYTES_MAX) -> int:
        """Permits to give the broker now; they count as given. `room_bytes`: memory there is for more; one message may always come
        where none is queued."""
        room_bytes = min(QUEUED_BYTES_MAX - self.queued_bytes, room_bytes)
        if room_bytes <= 0 and self.queued:
            return 0
        fitting = max(1, room_bytes // self._size_bytes)
        wanted = min(self.allowance - self.queued, fitting)
        permits = wanted - self.outstanding
        if wanted <= 0 or permits <= 0:
            return 0
        self.outstanding += permits
        return permits

    def arrived(self, sizes_bytes: Iterable[int]) -> None:
        for size in sizes_bytes:
            self.queued += 1
            self.queued_bytes += size
            self.outstanding -= 1
            # The largest recently, forgotten slowly: one large message among small ones must not come sixty-fold.
            self._size_bytes = max(size, self._size_bytes - self._size_bytes // 16, 1)

    def passed_over(self, count: int, largest_bytes: int = 0) -> None:
        """So many came and are not for this client. `largest_bytes`: of one that is kept nevertheless."""
        self.outstanding -= count
        self._size_bytes = max(self._size_bytes, largest_bytes)

    def withdrawn(self, sizes_bytes: Sequence[int]) -> None:
        """So many of the queue will come once more."""
        self.queued -= len(sizes_bytes)
        self.queued_bytes -= sum(sizes_bytes)
        self.outstanding += len(sizes_bytes)

    def sent(self, size_bytes: int) -> None:
        self.queued -= 1
        self.queued_bytes -= size_bytes
        self.allowance -= 1

    def acknowledged(self, count: int = 1) -> None:
        if not self.pull:
            self.allowance = min(self.limit, self.allowance + count)

    def granted(self, permits: int) -> None:
        if self.pull:
            self.allowance = min(self.allowance + permits, 2**31 - 1)


class TimedPositions:
    """Positions that become due a fixed time after they were added: negative acknowledgements and acknowledgement timeouts."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self._due: OrderedDict[MessagePosition, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, position: MessagePosition) -> bool:
        return position in self._due

    def add(self, position: MessagePosition, now_s: float) -> None:
        """A position that is already there keeps its time."""
        self._due.setdefault(position, now_s + self.delay_s)

    def discard(self, position: MessagePosition) -> None:
        self._due.pop(position, None)

    def take_due(self, now_s: float) -> list[MessagePosition]:
        taken = []
        while self._due:
            position, due_s = next(iter(self._due.items()))
            if due_s > now_s:
                break
            del self._due[position]
            taken.append(position)
        return taken

    @property
    def next_due_s(self) -> float | None:
        return next(iter(self._due.values()), None)
