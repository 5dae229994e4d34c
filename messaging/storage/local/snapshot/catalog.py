"""The catalogue of ledgers, computed by applying the footers of the log in segment order.

Opening a log and writing a snapshot of its index are the same computation; a snapshot only lets it start later in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from messaging.storage.local.format.segment import Segment
from messaging.storage.local.format.summary import Events, SegmentSummary
from messaging.storage.local.ledger_state import LedgerState, Phase
from messaging.storage.local.pausing import CHUNK, Pause
from messaging.storage.local.snapshot.snapshot import Content, restore_ledgers


class Catalog:
    """`intern` shares equal properties; `pause` is called every few thousand ledgers. `lost`: segments that are wholly or partly
    lost. A ledger created in one of them is recreated where its blocks continue; this may bring back deleted ledgers, which no
    record names."""

    def __init__(
        self,
        states: dict[int, LedgerState],
        intern: Callable[[dict[str, str]], dict[str, str]],
        pause: Pause = lambda: None,
        *,
        lost: Collection[int] = (),
    ) -> None:
        self.lost = lost
        self.states = states
        self.tombstones: dict[int, tuple[int, int]] = {}  # for both see `LedgerTable`
        self.deletions_pending: dict[int, tuple[int, int]] = {}
        self._intern = intern
        self._pause = pause

    def restore(self, content: Content, segments: Iterable[int] = ()) -> None:
        """Starts from a snapshot. `segments`: the numbers of existing segments."""
        restore_ledgers(content, self.states, segments, self._pause)
        self.tombstones.update(content.tombstones)
        self.deletions_pending.update(content.deletions_pending)

    def apply(self, number: int, summary: SegmentSummary) -> int:
        """Applies the footer of segment `number`, the next in order. Returns the bytes of its live blocks."""
        states = self.states
        for ledger_id, properties in summary.events.created.items():
            states[ledger_id] = LedgerState(ledger_id, self._intern(properties), number)
        live_bytes = 0
        for start in range(0, len(summary.ledgers), CHUNK):
            stop = start + CHUNK
            for ledger_id, last_entry, length_bytes, record_bytes in zip(
                summary.ledgers[start:stop],
                summary.last_entries[start:stop],
                summary.length_bytes[start:stop],
                summary.record_bytes[start:stop],
                strict=True,
            ):
                state = states.get(ledger_id) or self._found_again(ledger_id, number)
                if state is not None:
                    state.last_entry = last_entry
                    state.length_bytes = length_bytes
                    state.last_segment = number
                    live_bytes += record_bytes
            self._pause()
        self._end(number, summary.events)
        return live_bytes

    def _end(self, number: int, events: Events) -> None:
        for ledger_id, (last_entry, length_bytes) in events.sealed.items():
            state = self.states.get(ledger_id) or self._found_again(ledger_id, number)
            if state is not None:
                state.phase = Phase.SEALED
                state.sealed_segment = number
                state.last_entry, state.length_bytes = last_entry, length_bytes
        for ledger_id in events.deleted:
            state = self.states.pop(ledger_id, None)
            if state is not None:
                state.phase = Phase.DELETED
                self.tombstones[ledger_id] = (state.created_segment, number)
                if state.last_segment:
                    self.deletions_pending[ledger_id] = (state.last_segment, state.created_segment)

    def _found_again(self, ledger_id: int, number: int) -> LedgerState | None:
        if not self.lost or ledger_id in self.tombstones:
            return None
        state = self.states[ledger_id] = LedgerState(ledger_id, self._intern({}), number)
        return state

    def count_events(self, segments: Mapping[int, Segment]) -> None:
        """Sets `live_events` of `segments`: the number of ledger records that must be kept."""
        counts = dict.fromkeys(segments, 0)
        for state in self.states.values():
            if state.created_segment in counts:
                counts[state.created_segment] += 1
            if state.sealed_segment in counts:
                counts[state.sealed_segment] += 1
        for _, deleted in self.tombstones.values():
            if deleted in counts:
                counts[deleted] += 1
        for number, count in counts.items():
            segments[number].live_events = count
