"""Seals segments in the background: makes the footer durable first, then releases the in-memory index."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from messaging.storage.local.background import BackgroundThreads
from messaging.storage.local.format.extents import Extents
from messaging.storage.local.format.manifest import ManifestFile
from messaging.storage.local.format.segment import PAGE_BYTES, LogPosition, Segment
from messaging.storage.local.ledgers import LedgerTable
from messaging.storage.local.log_thread import LogThread
from messaging.storage.local.snapshot.snapshot_writer import SnapshotWriter
from messaging.storage.local.write.active import ActiveSegment
from messaging.storage.local.write.seal import write_footer

logger = logging.getLogger(__name__)

RELEASE_LEDGERS = 1000  # index entries released between two commits


class SegmentSealer:
    """Call with the log's turn. A sealed segment may be part of the next snapshot and may be reclaimed: then `reclaimable` is
    called, with the log's turn too."""

    def __init__(
        self,
        thread: LogThread,
        background: BackgroundThreads,
        ledgers: LedgerTable,
        snapshots: SnapshotWriter,
        manifest: ManifestFile,
        reclaimable: Callable[[], None],
    ) -> None:
        self._manifest = manifest
        self._thread = thread
        self._background = background
        self._ledgers = ledgers
        self._snapshots = snapshots
        self._reclaimable = reclaimable
        self._releasing: deque[tuple[Segment, list[Extents]]] = deque()

    def seal_later(self, active: ActiveSegment) -> None:
        """Queues `active`, which gets no more commits."""
        active.segment.index_released = False

        def seal() -> None:
            try:
                write_footer(active)
            except OSError as error:
                failure = error
                self._thread.post(lambda: _raise(failure))  # a sync failed: the store no longer trusts this disk
                return
            self._thread.post(lambda: self._sealed(active))
            try:
                self._manifest.reach(LogPosition(active.segment.number + 1, PAGE_BYTES))  # the next one exists
            except OSError as error:  # a later one will say so
                logger.warning("ledger log: the manifest: %s", error, extra={"action": "ledger_log_manifest"})

        self._background.seal(seal)

    def _sealed(self, active: ActiveSegment) -> None:
        self._snapshots.listed(active.segment.number, len(active.touched))
        self._releasing.append((active.segment, active.touched))
        if len(self._releasing) == 1:
            self._release_index(0)

    def _release_index(self, start: int) -> None:
        """Segments are released in order, so what remains in memory of a ledger is always its newest part."""
        segment, touched = self._releasing[0]
        for extents in touched[start : start + RELEASE_LEDGERS]:
            state = self._ledgers.states.get(extents.ledger_id)
            if state is not None:
                state.release_index(extents)
        if start + RELEASE_LEDGERS < len(touched):
            self._thread.post(lambda: self._release_index(start + RELEASE_LEDGERS))
            return
        segment.index_released = True
        self._releasing.popleft()
        self._snapshots.write_if_due()
        self._reclaimable()
        if self._releasing:
            self._thread.post(lambda: self._release_index(0))


def _raise(error: OSError) -> None:
    raise error
