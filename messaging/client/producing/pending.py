"""Stage: operations that have no receipt yet, in the order in which they were sent. Pure.

An operation is a SEND frame: a batch, a message, or a chunk of one. The broker answers in the order in which it got them. After a
broken connection nobody knows which of them were stored, so all are sent again, as they were and in order: with deduplication they
are stored once, without it at least once.

This is a queue of those that wait for receipts, not of those that wait to be sent: an operation is written as soon as it is in
here, if there is a connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from messaging.client.producing.batches import Outgoing
from messaging.protocol.frames import ProtocolError


@dataclass(slots=True, eq=False)
class Operation:
    """`messages`: whose receipts it brings; none for a chunk that is not the last. `written`: bytes of it may have reached the
    broker, so that its outcome is unknown until a receipt comes."""

    sequence_id: int
    frame: bytes
    messages: Sequence[Outgoing]
    since_s: float
    batched: bool = False
    chunk: int = -1
    chunks: int = 0
    written: bool = False


class PendingQueue:
    def __init__(self) -> None:
        self._pending: deque[Operation] = deque()
        self._unwritten: deque[Operation] = deque()

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def oldest(self) -> Operation | None:
        return self._pending[0] if self._pending else None

    def add(self, operation: Operation) -> None:
        self._pending.append(operation)
        self._unwritten.append(operation)

    def next_to_write(self) -> Operation | None:
        """It counts as written from here on."""
        if not self._unwritten:
            return None
        operation = self._unwritten.popleft()
        operation.written = True
        return operation

    def receipt(self, sequence_id: int) -> Operation | None:
        """The operation that the broker answered. None for one that is gone: it timed out, or was answered before.

        Raises `ProtocolError` where the answer to an older one was skipped: only a new connection brings it."""
        if not self._pending or sequence_id < self._pending[0].sequence_id:
            return None
        oldest = self._pending[0]
        if sequence_id > oldest.sequence_id or not oldest.written:
            raise ProtocolError(f"a receipt for sequence id {sequence_id} came before that for {oldest.sequence_id}")
        self._pending.popleft()
        return oldest

    def refused(self, sequence_id: int) -> Sequence[Outgoing]:
        """Those whose operation the broker refused. With a chunk its whole message fails: nobody will read the others, whatever
        the broker answers for them. Raises as `receipt`."""
        operation = self.receipt(sequence_id)
        if operation is None:
            return ()
        messages = operation.messages
        while operation.chunks and self._pending and self._pending[0].chunk > operation.chunk:
            other = self._pending[0]
            if other.sequence_id != sequence_id:
                break
            self._pending.popleft()
            if self._unwritten and self._unwritten[0] is other:
                self._unwritten.popleft()
            messages = other.messages
        return messages

    def connection_lost(self) -> None:
        """All of them are to be written again."""
        self._unwritten = deque(self._pending)

    def take_expired(self, before_s: float) -> list[Operation]:
        """Those that are older, oldest first. They are not written again, and a receipt that comes for them is ignored."""
        expired = []
        while self._pending and self._pending[0].since_s < before_s:
            operation = self._pending.popleft()
            if self._unwritten and self._unwritten[0] is operation:
                self._unwritten.popleft()
            expired.append(operation)
        return expired

    def take_all(self) -> list[Operation]:
        operations = list(self._pending)
        self._pending.clear()
        self._unwritten.clear()
        return operations
