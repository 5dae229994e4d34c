"""What a producer has on its way: admission, order of writing, receipts, repetition, deadlines. No I/O, no clock, no futures.

    admit ──> waiting ──next_to_write──> written ──settle──> gone
                 ^                          │
                 └──────connection_lost─────┘         (all of them again, in the first order)

An *operation* is what is written and receipted as one; today that is a message, later it may be a batch. Operations are numbered
densely from 0; the broker answers in the order it got them. After a broken connection nobody knows which of the written ones were
stored, so all are written again under their old numbers: with deduplication they are stored once, without it at least once.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

from messaging.client.codec import InvalidAnswer
from messaging.client.message import OutgoingMessage


class MemoryBudget:
    """Bytes that all producers of a client may have on their way together. One message larger than all of it passes alone."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self._released: list[Callable[[], None]] = []

    def reserve(self, size_bytes: int) -> bool:
        if self.used_bytes and self.used_bytes + size_bytes > self.bytes_max:
            return False
        self.used_bytes += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        for callback in tuple(self._released):
            callback()

    def on_release(self, callback: Callable[[], None]) -> None:
        self._released.append(callback)

    def forget(self, callback: Callable[[], None]) -> None:
        if callback in self._released:
            self._released.remove(callback)


@dataclass(slots=True, eq=False)
class Operation:
    """`written_ever`: bytes of it may have reached the broker, so that its outcome is unknown until a receipt comes."""

    number: int
    message: OutgoingMessage
    size_bytes: int
    deadline_s: float
    written_ever: bool = False


class ProducerPipeline:
    """Bounded by `messages_max` operations and the shared `memory`. Whatever leaves, by whichever way, gives both back."""

    def __init__(self, messages_max: int, memory: MemoryBudget, send_timeout_s: float) -> None:
        self._messages_max = messages_max
        self._memory = memory
        self._send_timeout_s = send_timeout_s
        self._next_number = 0
        self._pending: OrderedDict[int, Operation] = OrderedDict()  # in order of their numbers
        self._waiting: deque[Operation] = deque()

    def __len__(self) -> int:
        return len(self._pending)

    def admit(self, message: OutgoingMessage, now_s: float) -> Operation | None:
        """Takes the message in; None if there is no room."""
        size_bytes = message.size_bytes
        if len(self._pending) >= self._messages_max or not self._memory.reserve(size_bytes):
            return None
        operation = Operation(self._next_number, message, size_bytes, now_s + self._send_timeout_s)
        self._next_number += 1
        self._pending[operation.number] = operation
        self._waiting.append(operation)
        return operation

    def next_to_write(self) -> Operation | None:
        """The next operation to write on the present connection; it counts as written from here on."""
        while self._waiting:
            operation = self._waiting.popleft()
            if operation.number in self._pending:
                operation.written_ever = True
                return operation
        return None

    def complete(self, number: int) -> Operation | None:
        """The operation that the broker answered; None if it is gone already (timed out, say).

        Raises `InvalidAnswer` where an older one was skipped: its answer is lost, and only repeating it brings it back.
        """
        operation = self._pending.get(number)
        if operation is None:
            if number >= self._next_number:
                raise InvalidAnswer(f"a response to operation {number}, which was never sent")
            return None
        oldest = next(iter(self._pending))
        if oldest != number:
            raise InvalidAnswer(f"a response to operation {number} before that to {oldest}")
        if not operation.written_ever:
            raise InvalidAnswer(f"a response to operation {number}, which was not sent yet")
        return self._leave(operation)

    def connection_lost(self) -> None:
        self._waiting = deque(self._pending.values())

    def withdraw(self, operation: Operation) -> bool:
        """Takes back an operation that was never written; False if it may have been, or has left."""
        if operation.written_ever or operation.number not in self._pending:
            return False
        self._leave(operation)
        return True

    def take_largest_written(self) -> Operation | None:
        """The one to blame when the broker ended the connection because of a frame too large."""
        written = [operation for operation in self._pending.values() if operation.written_ever]
        return self._leave(max(written, key=lambda operation: operation.size_bytes)) if written else None

    def take_expired(self, now_s: float) -> list[Operation]:
        """Those past their deadline, oldest first; they are not written again."""
        expired = []
        while self._pending:
            oldest = next(iter(self._pending.values()))
            if oldest.deadline_s > now_s:
                break
            expired.append(self._leave(oldest))
        return expired

    def take_all(self) -> list[Operation]:
        return [self._leave(operation) for operation in list(self._pending.values())]

    @property
    def next_deadline_s(self) -> float | None:
        """Deadlines rise with the numbers, so the oldest is due first."""
        oldest = next(iter(self._pending.values()), None)
        return None if oldest is None else oldest.deadline_s

    def _leave(self, operation: Operation) -> Operation:
        del self._pending[operation.number]
        self._memory.release(operation.size_bytes)
        return operation
