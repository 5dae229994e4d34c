"""The in-memory state of each ledger: a few numbers, and its index in segments whose footer is not durable yet.

For all other segments, the footers tell where blocks are (see `read/index.py`).

Threads: whoever has the log's turn (`log_thread.py`) owns the index (`extents`, `last_segment` and the segments of records); the
event loop owns the rest. Other threads may read the index at any time if they read `extents` before `last_segment`: they may then
see a segment twice, but never miss one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from messaging.storage.local.append_state import AppendState
from messaging.storage.local.format import records
from messaging.storage.local.format.extents import Extents


class Phase(IntEnum):
    """The loop sets all phases but the last. Whoever has the log's turn sets that one, when the record of the deletion is durable:
    only then may the ledger's blocks be reclaimed, however late the loop learns of it."""

    OPEN = 0
    SEALED = 1
    DELETING = 2
    DELETED = 3


class LedgerState:
    """About 110 bytes plus a few numbers: there may be hundreds of thousands. Its size does not depend on what is stored."""

    __slots__ = (
        "created_segment",
        "extents",
        "last_entry",
        "last_segment",
        "ledger_id",
        "length_bytes",
        "phase",
        "properties",
        "sealed_segment",
        "writer",
    )
    block_flags: ClassVar[int] = 0  # of the records that its writer appends

    def __init__(
        self, ledger_id: int, properties: dict[str, str], created_segment: int = 0, last_entry: int = -1, length_bytes: int = 0
    ) -> None:
        self.ledger_id = ledger_id
        self.properties = properties  # shared between ledgers: never modify
        self.last_entry = last_entry  # confirmed: in the log and readable
        self.length_bytes = length_bytes
        self.phase = Phase.OPEN
        self.created_segment = created_segment  # the segment of its CREATED record
        self.sealed_segment = 0  # the segment of its SEALED record, 0: none
        self.last_segment = 0  # the newest segment with a durable footer that lists blocks of it, 0: none
        self.writer: AppendState | None = None
        self.extents: Extents | None = None  # in the newest segment that holds blocks of it and has no durable footer yet

    @property
    def owner(self) -> str:
        return self.properties.get("tenant", "")

    @property
    def reserved(self) -> bool:
        return "reserved" in self.properties

    @property
    def sealed(self) -> bool:
        return self.phase is Phase.SEALED

    @property
    def deleted(self) -> bool:
        return self.phase >= Phase.DELETING

    def extents_in(self, segment: int) -> Extents:
        """Call with the log's turn. The extents in the active segment, created if necessary."""
        extents = self.extents
        if extents is None:
            fresh = Extents(self.ledger_id, segment, self.last_entry, self.length_bytes, self.last_segment, None)
        elif extents.segment == segment:
            return extents
        else:
            fresh = Extents(self.ledger_id, segment, extents.last_entry, extents.length_bytes, extents.segment, extents)
        self.extents = fresh
        return fresh

    def written(self) -> tuple[int, int]:
        """(last entry, length) including commits that are laid out but not yet confirmed."""
        extents = self.extents
        return (self.last_entry, self.length_bytes) if extents is None else (extents.last_entry, extents.length_bytes)

    def release_index(self, extents: Extents) -> None:
        """For the log thread: the footer of `extents.segment`, the oldest segment in memory, is durable; drops its extents."""
        self.last_segment = extents.segment  # set before the extents are dropped: readers look at those first
        newer = self.extents
        if newer is extents:
            self.extents = None
            return
        while newer is not None and newer.older is not extents:
            newer = newer.older
        if newer is not None:
            newer.older = None

    def extents_in_memory(self) -> list[Extents]:
        """Newest first. For any thread that reads `last_segment` only afterwards."""
        newest_first = []
        extents = self.extents
        while extents is not None:
            newest_first.append(extents)
            extents = extents.older
        return newest_first


class SparseLedgerState(LedgerState):
    """While this process writes to it; what was written says itself which ids were left out."""

    __slots__ = ()
    block_flags = records.SPARSE
