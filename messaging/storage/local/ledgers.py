"""The ledgers of an open log: existing ones, and what deleted ones leave until nothing of them is on the disk."""

from __future__ import annotations

from collections.abc import Container

from messaging.storage.local.ledger_state import LedgerState, Phase
from messaging.storage.local.segments import SegmentTable

INTERNED_MAX = 10_000


class LedgerTable:
    """Only the event loop adds to and removes from `states`. The others change only with the log's turn, see `log_thread.py`."""

    def __init__(self, segments: SegmentTable) -> None:
        self.states: dict[int, LedgerState] = {}
        # Deleted ledgers whose CREATED record is still in a segment (the first): their DELETED record (in the second) must stay.
        self.tombstones: dict[int, tuple[int, int]] = {}
        # Deleted ledgers whose blocks still count as live: the segments of the newest of them and of the CREATED record.
        self.deletions_pending: dict[int, tuple[int, int]] = {}
        self._segments = segments
        self._properties: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}

    def intern(self, properties: dict[str, str]) -> dict[str, str]:
        """Returns the one dictionary that all ledgers with these properties share; never modify it."""
        if len(self._properties) >= INTERNED_MAX:
            self._properties.clear()
        return self._properties.setdefault(tuple(sorted(properties.items())), dict(properties))

    def alive(self, ledger_id: int) -> bool:
        """Whether its blocks and records must be kept. Thread-safe."""
        state = self.states.get(ledger_id)
        return state is not None and state.phase != Phase.DELETED

    def mark_deleted(self, state: LedgerState, deleted_segment: int) -> None:
        """The DELETED record of `state` is durable in the given segment."""
        state.phase = Phase.DELETED
        if state.last_segment:
            self.deletions_pending[state.ledger_id] = (state.last_segment, state.created_segment)
        self.tombstones[state.ledger_id] = (state.created_segment, deleted_segment)
        for extents in state.extents_in_memory():
            segment = self._segments.get(extents.segment)
            if segment is not None:
                segment.live_bytes -= extents.record_bytes
        self._segments.count_events(state.created_segment, -1)
        self._segments.count_events(state.sealed_segment, -1)
        self._segments.count_events(deleted_segment, 1)

    def drop_tombstones(self, segment_number: int, kept: Container[int] = ()) -> None:
        """Segment rewritten: of its CREATED records only those of `kept` remain, so the DELETED records of the others may go."""
        for ledger_id, (created, deleted) in list(self.tombstones.items()):
            if created == segment_number and ledger_id not in kept:
                del self.tombstones[ledger_id]
                self._segments.count_events(deleted, -1)
