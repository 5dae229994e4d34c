"""One writer's ledger, as a machine: what happened goes in, what is to be done comes out.

An append is confirmed when `ack_quorum` bookies *of the ensemble that is in the metadata* stored it, and all before it are
confirmed. If a bookie fails, its slot gets another bookie from the first unconfirmed entry on: the metadata is changed first, and
nothing is confirmed until that is done; then everything unconfirmed of the slot is sent to the new bookie. Without another bookie
the slot stays empty, as long as every entry can still reach its ack quorum; `degraded` says so, and a new ledger is the remedy.
Where entries could not, bookies that were late or lost their connections are asked once more, in their slots: a machine that stood
still for a moment, this one perhaps, is late with all of them at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from dataclasses import dataclass, replace
from enum import Enum

from messaging.bookkeeper.core.actions import (
    ChooseReplacements,
    Confirmed,
    Failed,
    Finished,
    SendAdd,
    WriteMetadata,
    WriterAction,
)
from messaging.bookkeeper.core.entries import NO_ENTRY, Body, Buffer, Digest
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata, LedgerState, Segment
from messaging.bookkeeper.core.packets import Status
from messaging.bookkeeper.errors import (
    BookkeeperError,
    Fenced,
    LedgerClosed,
    NoSuchLedger,
    NotEnoughBookies,
    ProtocolViolation,
    WrongPassword,
)

# Says nothing about what it would answer next.
_PASSING = frozenset({Status.TIMED_OUT, Status.CONNECTION_LOST, Status.OVERLOADED, Status.TOO_MANY_REQUESTS})


class WriterState(Enum):
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    FAILED = "failed"


@dataclass(slots=True)
class _Pending:
    """`acks` has bit `i` set if the bookie that is in slot i now stored it."""

    entry_id: int
    length: int
    size: int
    body: Body
    acks: int = 0


class Writer:
    """`metadata` was stored before: a bookie deletes what it has of ledgers without metadata."""

    def __init__(self, metadata: LedgerMetadata, digest: Digest, choose: ChooseReplacements) -> None:
        self.metadata = metadata
        self.state = WriterState.OPEN
        self.error: BookkeeperError | None = None
        self.last_confirmed = NO_ENTRY
        self.confirmed_length = 0
        self.pending_bytes = 0
        self._digest = digest
        self._choose = choose
        self._ensemble = metadata.last_segment.ensemble
        self._pending: deque[_Pending] = deque()
        self._length = 0
        self._next_entry_id = 0
        self._failed_slots: set[int] = set()
        self._asked_again: set[int] = set()  # slots whose bookies did not answer since
        self._attempts = [0] * metadata.ensemble_size
        self._failed_bookies: dict[str, Status] = {}  # and how each failed last
        self._writing: LedgerMetadata | None = None
        self._ack_quorum = metadata.ack_quorum
        self._write_sets = [metadata.write_set(first) for first in range(metadata.ensemble_size)]

    @property
    def degraded(self) -> bool:
        """A slot has no bookie: what is appended has fewer copies than it should. Better go on in a new ledger."""
        return bool(self._failed_slots)

    @property
    def writes_no_metadata(self) -> bool:
        """No slot is being given a bookie."""
        return self._writing is None

    @property
    def pending_entries(self) -> int:
        return len(self._pending)

    # --- what the user does ------------------------------------------------------------------------------------------------------

    def append(self, *payload: Buffer) -> tuple[int, list[WriterAction]]:
        """The entry's id, and what to do; `payload` may be in parts, which are not changed from now on. Raises what ended the
        writer, or `LedgerClosed`."""
        if self.state is not WriterState.OPEN:
            raise self.error or LedgerClosed(f"ledger {self.metadata.ledger_id} was closed by this writer", self.metadata.ledger_id)
        entry_id = self._next_entry_id
        self._next_entry_id += 1
        size = sum(map(len, payload))
        self._length += size
        body = self._digest.pack(self.metadata.ledger_id, entry_id, self.last_confirmed, self._length, *payload)
        self._pending.append(_Pending(entry_id, self._length, size, body))
        self.pending_bytes += size
        write_set = self._write_sets[entry_id % len(self._ensemble)]
        return entry_id, [
            SendAdd(slot, self._ensemble[slot], entry_id, body, self._attempts[slot])
            for slot in write_set
            if slot not in self._failed_slots
        ]

    def close(self) -> list[WriterAction]:
        """Ends the ledger behind the last confirmed entry. Appends that are not confirmed yet fail, and are not in the ledger."""
        if self.state is not WriterState.OPEN:
            return []
        self.state = WriterState.CLOSING
        return [] if self._writing else self._write_closed()

    def abandon(self) -> list[WriterAction]:
        """Ends the writer and leaves the ledger open, as if its process had died: it is to be recovered."""
        if self.state in (WriterState.CLOSED, WriterState.FAILED):
            return []
        ledger_id = self.metadata.ledger_id
        return self._fail(LedgerClosed(f"the writer of ledger {ledger_id} was abandoned; recover the ledger", ledger_id))

    # --- what bookies answer -----------------------------------------------------------------------------------------------------

    def added(self, slot: int, bookie: str, entry_id: int, status: Status, attempt: int = 0) -> list[WriterAction]:
        """`attempt`: that of the `SendAdd` which this answers."""
        if self.state is not WriterState.OPEN or self._ensemble[slot] != bookie:
            return []  # of a bookie that was replaced: what it stored does not count any more
        if status is Status.OK:
            self._asked_again.discard(slot)
            if not self._pending or (index := entry_id - self._pending[0].entry_id) < 0:
                return []  # a replica beyond the quorum
            self._pending[index].acks |= 1 << slot
            return self._confirm() if index == 0 else []
        if status is Status.FENCED:
            return self._fail(self._fenced("a bookie refused an entry, because somebody else recovers the ledger"))
        if status is Status.UNAUTHORIZED:
            problem = f"bookie {bookie} refused the password of ledger {self.metadata.ledger_id}, or this client"
            return self._fail(WrongPassword(problem, self.metadata.ledger_id))
        if status in (Status.BAD_REQUEST, Status.BAD_VERSION):
            problem = f"bookie {bookie} answered {status.name} to an append; client and bookie do not speak the same protocol"
            return self._fail(ProtocolViolation(problem, self.metadata.ledger_id))
        if attempt != self._attempts[slot]:
            return []  # it was asked again since
        return self._bookie_failed(slot, status)

    def bookies_changed(self) -> list[WriterAction]:
        """There may be bookies for slots without one; where there are none, those that were in them may be back."""
        if not self._failed_slots or self.state is not WriterState.OPEN or self._writing:
            return []
        self._asked_again -= self._failed_slots
        return self._change_ensemble() or self._ask_again()

    # --- what the metadata store answers -----------------------------------------------------------------------------------------

    def metadata_written(self, metadata: LedgerMetadata) -> list[WriterAction]:
        if not self._writing or not _newer(metadata, self.metadata):
            return []
        self._writing = None
        if metadata.is_closed:
            return self._closed(metadata)
        return self._adopt_ensemble(metadata)

    def metadata_present(self, metadata: LedgerMetadata) -> list[WriterAction]:
        """What is stored now: read after a write of ours that failed, or because it was changed."""
        if self.state in (WriterState.CLOSED, WriterState.FAILED):
            return []
        if self._writing and metadata.same_content(self._writing):
            return self.metadata_written(metadata)  # its answer was lost
        if not _newer(metadata, self.metadata):
            return [WriteMetadata(self._writing)] if self._writing and metadata.version == self.metadata.version else []
        if metadata.state is LedgerState.OPEN and metadata.last_segment == self.metadata.last_segment:
            # Repair copied an earlier segment to other bookies.
            self.metadata = metadata
            return self._write_again() if self._writing else []
        closes_as_we = metadata.last_entry_id == self.last_confirmed and metadata.length == self.confirmed_length
        if self.state is WriterState.CLOSING and metadata.is_closed and closes_as_we:
            return self._closed(metadata)
        return self._fail(self._fenced(f"somebody else changed its metadata: it is {metadata.state.name}"))

    def metadata_failed(self, error: BookkeeperError) -> list[WriterAction]:
        """A write of ours came to nothing that is known, or the ledger was deleted."""
        if self._writing is None and not isinstance(error, NoSuchLedger):
            return []
        return self._fail(error)

    # --- inside ------------------------------------------------------------------------------------------------------------------

    def _confirm(self) -> list[WriterAction]:
        # While the ensemble changes, an ack may be of a bookie that the metadata is about to name no more.
        if self._writing or self.state is not WriterState.OPEN:
            return []
        confirmed = None
        while self._pending and self._pending[0].acks.bit_count() >= self._ack_quorum:
            confirmed = self._pending.popleft()
            self.pending_bytes -= confirmed.size
        if confirmed is None:
            return []
        self.last_confirmed, self.confirmed_length = confirmed.entry_id, confirmed.length
        return [Confirmed(confirmed.entry_id)]

    def _bookie_failed(self, slot: int, status: Status) -> list[WriterAction]:
        self._failed_bookies[self._ensemble[slot]] = status
        if slot in self._failed_slots:
            return []
        self._failed_slots.add(slot)
        return [] if self._writing else self._change_ensemble()

    def _change_ensemble(self) -> list[WriterAction]:
        chosen = self._choose(self._ensemble, self._failed_slots, self._failed_bookies.keys())
        if not chosen:
            return self._go_on_without()
        ensemble = tuple(chosen.get(slot, bookie) for slot, bookie in enumerate(self._ensemble))
        return self._write(self.metadata.with_segment(Segment(self.last_confirmed + 1, ensemble)))

    def _go_on_without(self) -> list[WriterAction]:
        actions = [] if self._reachable(self._failed_slots | self._asked_again) else self._ask_again()
        if self._reachable(self._failed_slots):
            return actions
        ledger_id, alive = self.metadata.ledger_id, min(map(len, self._alive(self._failed_slots)))
        failed = ", ".join(f"{bookie} ({status.name})" for bookie, status in sorted(self._failed_bookies.items()))
        problem = (
            f"ledger {ledger_id} needs {self._ack_quorum} bookies for an entry and has {alive}; failed: {failed}, and there is no "
            "other one"
        )
        return self._fail(NotEnoughBookies(problem, ledger_id))

    def _send(self, slot: int, pending: _Pending) -> SendAdd:
        return SendAdd(slot, self._ensemble[slot], pending.entry_id, pending.body, self._attempts[slot])

    def _alive(self, without: Set[int]) -> list[list[int]]:
        """The slots of each write set that are not among these."""
        return [[slot for slot in write_set if slot not in without] for write_set in self._write_sets]

    def _reachable(self, without: Set[int]) -> bool:
        """Whether every entry can have its ack quorum."""
        return all(len(alive) >= self._ack_quorum for alive in self._alive(without))

    def _ask_again(self) -> list[WriterAction]:
        """The bookies of failed slots, once until they answer. What one stored counts: it is of the ensemble still."""
        again = {slot for slot in self._failed_slots if self._failed_bookies[self._ensemble[slot]] in _PASSING} - self._asked_again
        self._failed_slots -= again
        self._asked_again |= again
        for slot in again:
            self._attempts[slot] += 1
        return [
            self._send(slot, pending)
            for pending in self._pending
            for slot in self._write_sets[pending.entry_id % len(self._ensemble)]
            if slot in again and not pending.acks & 1 << slot
        ]

    def _adopt_ensemble(self, metadata: LedgerMetadata) -> list[WriterAction]:
        ensemble = metadata.last_segment.ensemble
        changed = {slot for slot, bookie in enumerate(ensemble) if bookie != self._ensemble[slot]}
        self.metadata, self._ensemble = metadata, ensemble
        for slot in changed:
            self._failed_bookies.pop(ensemble[slot], None)
        self._failed_slots -= changed
        self._asked_again -= changed
        if self.state is WriterState.CLOSING:
            return self._write_closed()
        actions: list[WriterAction] = []
        for pending in self._pending:
            for slot in self._write_sets[pending.entry_id % len(ensemble)]:
                if slot in changed:
                    pending.acks &= ~(1 << slot)
                    actions.append(self._send(slot, pending))
        actions += self._confirm()
        if self._failed_slots:
            actions += self._change_ensemble()
        return actions

    def _write(self, metadata: LedgerMetadata) -> list[WriterAction]:
        self._writing = replace(metadata, version=self.metadata.version)
        return [WriteMetadata(self._writing)]

    def _write_again(self) -> list[WriterAction]:
        """The same change, of metadata that somebody else changed where it does not matter to us."""
        assert self._writing is not None
        if self.state is WriterState.CLOSING and self._writing.is_closed:
            return self._write_closed()
        return self._write(self.metadata.with_segment(self._writing.last_segment))

    def _write_closed(self) -> list[WriterAction]:
        return self._write(self.metadata.closed_at(self.last_confirmed, self.confirmed_length))

    def _closed(self, metadata: LedgerMetadata) -> list[WriterAction]:
        self.metadata, self.state, self._writing = metadata, WriterState.CLOSED, None
        actions: list[WriterAction] = []
        if self._pending:
            first = self._pending[0].entry_id
            problem = (
                f"ledger {metadata.ledger_id} was closed at entry {metadata.last_entry_id}; appends from {first} on are not in it"
            )
            actions = [Failed(LedgerClosed(problem, metadata.ledger_id))]
        self._forget()
        return [*actions, Finished(metadata)]

    def _fail(self, error: BookkeeperError) -> list[WriterAction]:
        self.state, self.error, self._writing = WriterState.FAILED, error, None
        self._forget()
        return [Failed(error)]

    def _forget(self) -> None:
        self._pending.clear()
        self.pending_bytes = 0

    def _fenced(self, why: str) -> Fenced:
        return Fenced(f"this writer lost ledger {self.metadata.ledger_id}: {why}", self.metadata.ledger_id)


def _newer(metadata: LedgerMetadata, than: LedgerMetadata) -> bool:
    return (metadata.version or 0) > (than.version or 0)
