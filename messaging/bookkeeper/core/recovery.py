"""Taking a ledger over from its writer, as a machine: afterwards nobody appends to it, and its last entry is final.

1. The metadata says IN_RECOVERY, which a writer sees when it next changes it.
2. Each bookie of the last segment is told to refuse the writer (a read with the fence flag), until the bookies that are left are
   too few for any ack quorum.
3. Entries behind the last confirmed one are read from their write sets, with the fence flag as well, and written again to an ack
   quorum, in order. The first entry that so many bookies say they do not have that it cannot have been acknowledged is the end.
   Only an answer says that: a timeout, a lost connection, a damaged entry or a bookie that lost its state (507) is not knowing,
   and where that leaves it open the recovery fails and may be tried again.
4. The metadata says CLOSED, with the last entry, the length, and the bookies that replaced others in step 3.

It may be ended at any point, and may run several times at once: the first one to close the ledger decides, the others take that
over.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from messaging.bookkeeper.core.actions import ChooseReplacements, Failed, Finished, RecoveryAction, SendAdd, SendRead, WriteMetadata
from messaging.bookkeeper.core.entries import NO_ENTRY, Body, Digest, DigestMismatch, Entry
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata, LedgerState, Segment
from messaging.bookkeeper.core.packets import Status
from messaging.bookkeeper.errors import BookkeeperError, MalformedMetadata, Unavailable, WrongPassword

_NEGATIVE = (Status.NO_ENTRY, Status.NO_LEDGER)


class _Phase(Enum):
    MARK = "mark"
    FENCE = "fence"
    COPY = "copy"
    LENGTH = "length"
    CLOSE = "close"
    DONE = "done"


@dataclass(slots=True)
class _Replies:
    """About one entry: who has not answered, the entry if a bookie has it, who does not, and what is not known."""

    waiting: set[int]
    entry: Entry | None = None
    negative: set[int] = field(default_factory=set)
    unknown: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Copy:
    """The entry that is being written again."""

    entry: Entry
    body: Body
    waiting: set[int]
    acks: set[int] = field(default_factory=set)


class Recovery:
    """Answers carry the `generation` of the machine when it asked: those to what it asked before it began again are ignored."""

    def __init__(self, metadata: LedgerMetadata, digest: Digest, choose: ChooseReplacements, read_ahead: int = 16) -> None:
        self.metadata = metadata
        self.generation = 0
        self._digest = digest
        self._choose = choose
        self._read_ahead = read_ahead
        self._phase = _Phase.MARK
        self._writing: LedgerMetadata | None = None
        self._begin(metadata)

    def _begin(self, metadata: LedgerMetadata) -> None:
        self.generation += 1
        self.metadata = self._working = metadata
        self._fenced: set[int] = set()
        self._fence_waiting: set[int] = set()
        self._fence_unknown: list[str] = []
        self._last_confirmed = NO_ENTRY
        self._length: int | None = None
        self._replies: dict[int, _Replies] = {}
        self._copy: _Copy | None = None
        self._failed_slots: set[int] = set()
        self._failed_bookies: set[str] = set()

    def start(self) -> list[RecoveryAction]:
        if self.metadata.is_closed:
            return self._finish(self.metadata)
        if self.metadata.state is LedgerState.OPEN:
            return self._write(replace(self.metadata, state=LedgerState.IN_RECOVERY))
        return self._fence()

    # --- what the metadata store answers -----------------------------------------------------------------------------------------

    def metadata_written(self, metadata: LedgerMetadata) -> list[RecoveryAction]:
        if not self._writing:
            return []
        self._writing = None
        if metadata.is_closed:
            return self._finish(metadata)
        self._begin(metadata)
        return self._fence()

    def metadata_present(self, metadata: LedgerMetadata) -> list[RecoveryAction]:
        if not self._writing:
            return []
        if metadata.is_closed:
            return self._finish(metadata)  # by another recovery, or by the writer: that is final
        if metadata.same_content(self._writing):
            return self.metadata_written(metadata)
        if metadata.version == self.metadata.version:
            return [WriteMetadata(self._writing)]
        self._writing = None
        if metadata.state is LedgerState.OPEN and self._phase is not _Phase.MARK:
            problem = f"ledger {metadata.ledger_id} was in recovery and is open again; somebody wrote its metadata by other means"
            return self._fail(MalformedMetadata(problem, metadata.ledger_id))
        if self._phase is _Phase.CLOSE and metadata.segments == self.metadata.segments:
            self.metadata = metadata
            return self._write(replace(self._closing(), version=metadata.version))
        self._phase = _Phase.MARK
        self._begin(metadata)
        return self.start()

    def metadata_failed(self, error: BookkeeperError) -> list[RecoveryAction]:
        return self._fail(error) if self._writing else []

    # --- what bookies answer -----------------------------------------------------------------------------------------------------

    def answered(self, generation: int, slot: int, bookie: str, entry_id: int, status: Status, body: bytes) -> list[RecoveryAction]:
        if generation != self.generation or self._phase not in (_Phase.FENCE, _Phase.COPY, _Phase.LENGTH):
            return []
        if status is Status.UNAUTHORIZED:
            return self._refused(bookie)
        entry, why = None, f"{bookie}: {status.name}"
        if status is Status.OK:
            try:
                entry = self._digest.unpack(self.metadata.ledger_id, entry_id, body)
            except DigestMismatch as error:
                why = f"{bookie}: {error}"
        negative = status in _NEGATIVE
        if entry_id == NO_ENTRY:
            return self._answered_fence(slot, entry, negative, why)
        replies = self._replies.get(entry_id)
        if replies is None or slot not in replies.waiting:
            return []
        replies.waiting.discard(slot)
        if entry is not None:
            replies.entry = replies.entry or entry
        elif negative:
            replies.negative.add(slot)
        else:
            replies.unknown.append(why)
        return self._take_length() if self._phase is _Phase.LENGTH else self._advance()

    def added(self, generation: int, slot: int, bookie: str, entry_id: int, status: Status) -> list[RecoveryAction]:
        copy = self._copy
        if generation != self.generation or copy is None or copy.entry.entry_id != entry_id or slot not in copy.waiting:
            return []
        if self._working.last_segment.ensemble[slot] != bookie:
            return []
        if status is Status.UNAUTHORIZED:
            return self._refused(bookie)
        copy.waiting.discard(slot)
        if status is not Status.OK:
            return self._bookie_failed(slot, bookie, copy)
        copy.acks.add(slot)
        if len(copy.acks) < self.metadata.ack_quorum:
            return []
        self._last_confirmed, self._length, self._copy = entry_id, copy.entry.length, None
        del self._replies[entry_id]
        return self._advance()

    # --- inside ------------------------------------------------------------------------------------------------------------------

    def _fence(self) -> list[RecoveryAction]:
        self._phase = _Phase.FENCE
        ensemble = self.metadata.last_segment.ensemble
        self._fence_waiting = set(range(len(ensemble)))
        return [SendRead(slot, bookie, NO_ENTRY) for slot, bookie in enumerate(ensemble)]

    def _answered_fence(self, slot: int, entry: Entry | None, negative: bool, why: str) -> list[RecoveryAction]:
        if self._phase is not _Phase.FENCE or slot not in self._fence_waiting:
            return []
        self._fence_waiting.discard(slot)
        if entry is None and not negative:
            self._fence_unknown.append(why)
        else:
            self._fenced.add(slot)
            if entry is not None:
                self._last_confirmed = max(self._last_confirmed, entry.last_confirmed)
        if self._covered():
            return self._begin_copy()
        if self._fence_waiting:
            return []
        return self._unavailable(f"too few bookies could be told to refuse its writer ({'; '.join(self._fence_unknown)})")

    def _covered(self) -> bool:
        """In no write set are so many bookies left without the fence that they are an ack quorum."""
        for first in range(self.metadata.ensemble_size):
            unfenced = sum(slot not in self._fenced for slot in self.metadata.write_set(first))
            if unfenced >= self.metadata.ack_quorum:
                return False
        return True

    def _begin_copy(self) -> list[RecoveryAction]:
        self._phase = _Phase.COPY
        # Entries before the last segment are acknowledged, even if no bookie of the new ensemble has heard of that.
        self._last_confirmed = max(self._last_confirmed, self.metadata.last_segment.first_entry_id - 1)
        return self._advance()

    def _advance(self) -> list[RecoveryAction]:
        """Reads ahead, and decides about the next entry if enough is known of it."""
        if self._copy is not None:
            return []
        entry_id = self._last_confirmed + 1
        actions: list[RecoveryAction] = []
        for ahead in range(entry_id, entry_id + self._read_ahead):
            if ahead not in self._replies:
                actions += self._ask(ahead)
        replies = self._replies[entry_id]
        if replies.entry is not None:
            return actions + self._write_again(replies.entry)
        if len(replies.negative) > self.metadata.write_quorum - self.metadata.ack_quorum:
            return self._end()
        if not replies.waiting:
            return self._unavailable(f"nobody knows whether entry {entry_id} was acknowledged ({'; '.join(replies.unknown)})")
        return actions

    def _ask(self, entry_id: int) -> list[RecoveryAction]:
        ensemble = self.metadata.segment_of(entry_id).ensemble
        slots = self.metadata.write_set(entry_id)
        self._replies[entry_id] = _Replies(set(slots))
        return [SendRead(slot, ensemble[slot], entry_id) for slot in slots]

    def _write_again(self, entry: Entry) -> list[RecoveryAction]:
        ensemble = self._working.last_segment.ensemble
        body = self._digest.pack(entry.ledger_id, entry.entry_id, self._last_confirmed, entry.length, entry.payload)
        slots = [slot for slot in self.metadata.write_set(entry.entry_id) if slot not in self._failed_slots]
        self._copy = _Copy(entry, body, set(slots))
        if len(slots) < self.metadata.ack_quorum:
            return self._replace(self._copy)
        return [SendAdd(slot, ensemble[slot], entry.entry_id, body) for slot in slots]

    def _bookie_failed(self, slot: int, bookie: str, copy: _Copy) -> list[RecoveryAction]:
        self._failed_slots.add(slot)
        self._failed_bookies.add(bookie)
        return self._replace(copy)

    def _replace(self, copy: _Copy) -> list[RecoveryAction]:
        """Gives failed slots other bookies from this entry on; they are in the metadata once the ledger is closed."""
        entry_id = copy.entry.entry_id
        ensemble = self._working.last_segment.ensemble
        chosen = self._choose(ensemble, self._failed_slots, self._failed_bookies)
        if chosen:
            ensemble = tuple(chosen.get(slot, bookie) for slot, bookie in enumerate(ensemble))
            self._working = self._working.with_segment(Segment(entry_id, ensemble))
            self._failed_slots -= chosen.keys()
        slots = [slot for slot in self.metadata.write_set(entry_id) if slot in chosen]
        copy.waiting.update(slots)
        if len(copy.acks) + len(copy.waiting) < self.metadata.ack_quorum:
            return self._unavailable(
                f"entry {entry_id} cannot be written again: bookies failed ({', '.join(sorted(self._failed_bookies))})"
            )
        return [SendAdd(slot, ensemble[slot], entry_id, copy.body) for slot in slots]

    def _end(self) -> list[RecoveryAction]:
        self._replies.clear()
        if self._length is None and self._last_confirmed != NO_ENTRY:
            # Nothing was written again. The length is in the last entry, and only there.
            self._phase = _Phase.LENGTH
            return self._ask(self._last_confirmed)
        return self._close()

    def _take_length(self) -> list[RecoveryAction]:
        replies = self._replies[self._last_confirmed]
        if replies.entry is not None:
            self._length = replies.entry.length
            return self._close()
        if replies.waiting:
            return []
        unknown = "; ".join(replies.unknown) or "its bookies do not have it"
        return self._unavailable(f"its last entry {self._last_confirmed}, which was acknowledged, cannot be read ({unknown})")

    def _close(self) -> list[RecoveryAction]:
        self._phase = _Phase.CLOSE
        return self._write(self._closing())

    def _closing(self) -> LedgerMetadata:
        return self._working.closed_at(self._last_confirmed, self._length or 0)

    def _write(self, metadata: LedgerMetadata) -> list[RecoveryAction]:
        self._writing = metadata
        return [WriteMetadata(metadata)]

    def _refused(self, bookie: str) -> list[RecoveryAction]:
        problem = f"bookie {bookie} refused the password of ledger {self.metadata.ledger_id}, or this client"
        return self._fail(WrongPassword(problem, self.metadata.ledger_id))

    def _unavailable(self, why: str) -> list[RecoveryAction]:
        return self._fail(Unavailable(f"ledger {self.metadata.ledger_id} cannot be recovered now: {why}", self.metadata.ledger_id))

    def _finish(self, metadata: LedgerMetadata) -> list[RecoveryAction]:
        self._phase, self._writing, self.metadata = _Phase.DONE, None, metadata
        return [Finished(metadata)]

    def _fail(self, error: BookkeeperError) -> list[RecoveryAction]:
        self._phase, self._writing, self._copy = _Phase.DONE, None, None
        return [Failed(error)]
