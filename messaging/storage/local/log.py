"""The parts of an open log. Each has one owner and knows only the parts above it here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from messaging.storage.local.background import BackgroundThreads
from messaging.storage.local.device.aio import AioContext
from messaging.storage.local.environment import LogEnvironment
from messaging.storage.local.format.checkpoint_pointer import CheckpointPointer
from messaging.storage.local.format.manifest import ManifestFile
from messaging.storage.local.ledgers import LedgerTable
from messaging.storage.local.log_thread import LogFailure, LogThread
from messaging.storage.local.reclaim.reclaimer import Reclaimer
from messaging.storage.local.segments import SegmentTable
from messaging.storage.local.snapshot.snapshot_writer import SnapshotWriter
from messaging.storage.local.write.active import ActiveSegment
from messaging.storage.local.write.allocator import SegmentAllocator
from messaging.storage.local.write.queue import Committed
from messaging.storage.local.write.sealer import SegmentSealer
from messaging.storage.local.write.writer import LogWriter


@dataclass(frozen=True, slots=True)
class Log:
    environment: LogEnvironment
    failure: LogFailure
    thread: LogThread
    background: BackgroundThreads
    segments: SegmentTable
    ledgers: LedgerTable
    manifest: ManifestFile
    checkpoint_pointer: CheckpointPointer
    allocator: SegmentAllocator
    snapshots: SnapshotWriter
    reclaimer: Reclaimer
    sealer: SegmentSealer

    @classmethod
    def of(cls, environment: LogEnvironment) -> Log:
        """Creates the parts. Reads nothing and starts no thread: see `Recovery`."""
        failure = LogFailure(environment)
        thread, background = LogThread(failure), BackgroundThreads()
        segments = SegmentTable(environment.disk, environment.config.files_open_max)
        ledgers = LedgerTable(segments)
        allocator = SegmentAllocator(environment, segments, thread, background)
        snapshots = SnapshotWriter(environment, segments, ledgers, thread, background)
        manifest = ManifestFile(environment.directory, environment.disk)
        reclaimer = Reclaimer(environment, manifest, segments, ledgers, thread, background, allocator, snapshots)
        return cls(
            environment,
            failure,
            thread,
            background,
            segments,
            ledgers,
            manifest,
            CheckpointPointer(environment.directory, environment.disk),
            allocator,
            snapshots,
            reclaimer,
            SegmentSealer(thread, background, ledgers, snapshots, manifest, reclaimer.start_if_due),
        )

    def writer(
        self,
        active: ActiveSegment,
        aio: AioContext | None,
        deliver: Callable[[Committed], None],
        committed: Callable[[Committed], None],
    ) -> LogWriter:
        """The writer that continues at `active`."""
        return LogWriter(
            self.environment,
            self.failure,
            self.thread,
            self.allocator,
            self.sealer,
            self.checkpoint_pointer,
            self.reclaimer.deleted,
            active,
            aio,
            deliver,
            committed,
        )

    def close(self) -> None:
        """Call after the threads have ended."""
        self.checkpoint_pointer.close()
        self.segments.files.close()
