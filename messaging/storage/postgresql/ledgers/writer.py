"""The writer of a ledger in PostgreSQL: checks, counts, and puts each append into the queue of the commit thread."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from messaging.storage.answered_writer import AnsweredWriter, Seal
from messaging.storage.ledger_store import Buffer, Done, Fence, Fenced, LedgerClosed, StoreError

HEADER_BYTES_MAX = 1 << 20


@dataclass(frozen=True, eq=False, slots=True)
class Append:
    """`after`: the last entry before its first. `end_bytes`: of the ledger, with it."""

    writer: PostgresqlLedgerWriter
    first: int
    after: int
    end_bytes: int
    header: bytes
    data: Buffer
    end_offsets: array[int]
    done: Done

    @property
    def fence(self) -> Fence:
        return self.writer.fence

    @property
    def last(self) -> int:
        return self.first + len(self.end_offsets) - 1

    @property
    def size_bytes(self) -> int:
        return len(self.data) + len(self.header) + 4 * len(self.end_offsets)


class PostgresqlLedgerWriter(AnsweredWriter):
    """`failed` is the commit thread's: an append failed, so none of those behind it may succeed. The rest is of the event loop."""

    __slots__ = ("_entry_bytes_max", "_put", "failed")

    def __init__(
        self,
        ledger_id: int,
        fence: Fence,
        properties: dict[str, str],
        entry_bytes_max: int,
        put: Callable[[str, Append], None],
        seal: Seal,
    ) -> None:
        super().__init__(ledger_id, fence, properties, seal)
        self.failed = False
        self._entry_bytes_max = entry_bytes_max
        self._put = put

    @property
    def turn(self) -> str:
        """The tenant whose share of a commit its appends use."""
        return self.properties.get("tenant", "")

    def append(self, header: bytes, data: Buffer, end_offsets: array[int], done: Done) -> int:
        self.check(header, data, end_offsets, self._entry_bytes_max, HEADER_BYTES_MAX)
        first, after = self.next_entry, self._after
        self.count(len(end_offsets), len(data))
        self._put(self.turn, Append(self, first, after, self.length_bytes, header, data, end_offsets, done))
        return first

    def answer(self, append: Append, error: StoreError | None) -> None:
        """On the loop, in the order of appends."""
        if error is None:
            self.confirm(append.last, append.end_bytes)
        elif not isinstance(self._refusal, Fenced):
            self.end(LedgerClosed(f"ledger {self.ledger_id} accepts no more appends: {error}", self.ledger_id))
        self.tell(append.done, len(append.data), error)
