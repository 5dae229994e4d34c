"""Reading one entry, as a machine: one bookie after the other, the next one early if an answer takes long."""

from __future__ import annotations

from collections.abc import Sequence

from messaging.bookkeeper.core.actions import Arrived, Failed, ReadAction, SendRead
from messaging.bookkeeper.core.entries import Digest, DigestMismatch
from messaging.bookkeeper.core.ledger_metadata import LedgerMetadata
from messaging.bookkeeper.core.packets import Status
from messaging.bookkeeper.errors import BookkeeperError, CorruptEntry, Unavailable, WrongPassword


class EntryRead:
    """`avoid` are bookies that are asked last. Which entries may be read is the caller's business."""

    def __init__(self, metadata: LedgerMetadata, digest: Digest, entry_id: int, avoid: frozenset[str] = frozenset()) -> None:
        self._metadata = metadata
        self._digest = digest
        self._entry_id = entry_id
        ensemble = metadata.segment_of(entry_id).ensemble
        slots = metadata.read_set(entry_id)
        self._untried: list[tuple[int, str]] = sorted(((slot, ensemble[slot]) for slot in slots), key=lambda item: item[1] in avoid)
        self._asked: set[int] = set()
        self._reasons: list[str] = []
        self._transient = False
        self._refused = ""  # by whom; the others may be of another mind
        self._done = False

    def start(self) -> Sequence[ReadAction]:
        return self._ask_next()

    def slow(self) -> Sequence[ReadAction]:
        """No answer for a while: ask another one as well; whoever answers first counts."""
        return [] if self._done else self._ask_next()

    def answered(self, slot: int, bookie: str, status: Status, body: bytes) -> Sequence[ReadAction]:
        if self._done or slot not in self._asked:
            return []
        self._asked.discard(slot)
        if status is Status.OK:
            try:
                entry = self._digest.unpack(self._metadata.ledger_id, self._entry_id, body)
            except DigestMismatch as error:
                self._reasons.append(f"{bookie}: {error}")
            else:
                self._done = True
                return [Arrived(entry, bookie)]
        elif status is Status.UNAUTHORIZED:
            self._refused = bookie
            self._reasons.append(f"{bookie}: {status.name}")
        else:
            self._reasons.append(f"{bookie}: {status.name}")
            self._transient = self._transient or status not in (Status.NO_ENTRY, Status.NO_LEDGER)
        actions = self._ask_next()
        if actions or self._asked:
            return actions
        described = f"entry {self._metadata.ledger_id}:{self._entry_id} could not be read ({'; '.join(self._reasons)})"
        if self._refused:
            return self._fail(WrongPassword(f"bookie {self._refused} refused this client; {described}", self._metadata.ledger_id))
        if self._transient:
            return self._fail(Unavailable(described, self._metadata.ledger_id))
        return self._fail(CorruptEntry(f"{described}; no bookie that should have it has it undamaged", self._metadata.ledger_id))

    def _ask_next(self) -> list[ReadAction]:
        if not self._untried:
            return []
        slot, bookie = self._untried.pop(0)
        self._asked.add(slot)
        return [SendRead(slot, bookie, self._entry_id)]

    def _fail(self, error: BookkeeperError) -> list[ReadAction]:
        self._done = True
        return [Failed(error)]
