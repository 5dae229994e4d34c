"""Space for the log: preallocates segments, and decides what to do when the disk is full."""

from __future__ import annotations

import logging

from messaging.storage.local.background import BackgroundThreads
from messaging.storage.local.device.disk import DiskFile
from messaging.storage.local.environment import LogEnvironment
from messaging.storage.local.format.segment import PAGE_BYTES, Segment
from messaging.storage.local.log_thread import LogThread
from messaging.storage.local.segments import SegmentTable
from messaging.storage.local.write.segment_files import (
    PREALLOCATED_PREFIX,
    NoSpace,
    PreallocatedSegment,
    make_segment,
    preallocate,
)

logger = logging.getLogger(__name__)

SHORT_SEGMENTS = 16  # with less room than for this many, reclaiming space is urgent


class SegmentAllocator:
    """Call with the log's turn, unless stated otherwise. `full`: the last attempt to preallocate a segment failed, for want of
    space, inodes, descriptors or memory."""

    def __init__(
        self, environment: LogEnvironment, segments: SegmentTable, thread: LogThread, background: BackgroundThreads
    ) -> None:
        self.full = False
        self.why_full = ""
        self._environment = environment
        self._segments = segments
        self._thread = thread
        self._background = background
        self._ready: list[PreallocatedSegment] = []
        self._last_name = 0
        self._preparing = False

    @property
    def ready_bytes(self) -> int:
        """Room for commits in the preallocated segments."""
        return sum(segment.size_bytes - PAGE_BYTES for segment in self._ready)

    def add(self, preallocated: PreallocatedSegment) -> None:
        self._ready.append(preallocated)

    def grow(self, need: int) -> bool:
        """Preallocates room for `need` bytes now, unless the last attempt failed. Returns whether ordinary appends may continue."""
        if self.full:
            return False
        try:
            self._grow(need)
        except NoSpace as error:
            self.full, self.why_full = True, str(error)
            self._environment.report("full", f"no more space for messages: {error}")
            return False
        return True

    def _grow(self, need: int) -> None:
        config = self._environment.config
        while self.ready_bytes < config.reserved_bytes + need:
            self._ready.append(self._preallocate(config.segment_bytes, config.reserved_bytes))

    def retry_space(self) -> bool:
        """Tries again after the disk was full."""
        if self.full:
            try:
                self._grow(0)
            except NoSpace:
                return False
            self.full = False
            logger.warning("ledger log: there is space again", extra={"action": "ledger_log_space"})
        return True

    def next_segment(self, need: int) -> tuple[Segment, DiskFile]:
        """Returns the next segment, with room for `need` bytes. Raises `NoSpace` and `OSError`."""
        size = need + PAGE_BYTES
        preallocated = next((segment for segment in self._ready if segment.size_bytes >= size), None)
        if preallocated is None:
            # This is what the reserved disk space is for: seals, deletes and cursors.
            preallocated = self._preallocate(max(size, self._environment.config.segment_bytes), 0)
        else:
            self._ready.remove(preallocated)
        segments = self._segments
        number = segments.newest_number + 1
        try:
            segment, file = make_segment(self._environment.disk, preallocated, self._environment.store_id, number)
        except NoSpace:
            self._ready.insert(0, preallocated)
            raise
        segments.newest_number = number
        segments.by_number[number] = segment
        self.prepare()
        return segment, file

    def prepare(self) -> None:
        """Preallocates a segment in the background if none is ready."""
        config = self._environment.config
        if self._preparing or self._background.stopping or self.full or self.ready_bytes >= max(1, config.reserved_bytes):
            return
        self._preparing = True

        def make() -> None:
            try:
                preallocated = self._preallocate(config.segment_bytes, config.reserved_bytes)
            except (NoSpace, OSError):
                self._thread.post(made)  # the log thread will get and report the error when it needs the space
                return
            self._thread.post(lambda: made(preallocated))

        def made(preallocated: PreallocatedSegment | None = None) -> None:
            self._preparing = False
            if preallocated is not None:
                self._ready.append(preallocated)
                self.prepare()

        self._background.seal(make)

    def _preallocate(self, size_bytes: int, keep_free_bytes: int) -> PreallocatedSegment:
        environment = self._environment
        self._last_name += 1
        path = environment.directory / f"{PREALLOCATED_PREFIX}{environment.epoch:06d}-{self._last_name:06d}.log"
        return preallocate(environment.disk, path, size_bytes, keep_free_bytes)

    def short_of_space(self) -> bool:
        """Thread-safe."""
        environment = self._environment
        return self.full or environment.disk.free_bytes(environment.directory) < SHORT_SEGMENTS * environment.config.segment_bytes
