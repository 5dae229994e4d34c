"""The background threads of a log, for work that commits must not wait for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress

logger = logging.getLogger(__name__)

Job = Callable[[], None]


class BackgroundThreads:
    """Two threads, each running one job after another: footers and preallocated segments must not wait behind the copying of a
    segment."""

    def __init__(self) -> None:
        self.stopping = False
        self._lock = threading.Lock()
        self._timers: set[threading.Timer] = set()
        self._sealing = ThreadPoolExecutor(1, thread_name_prefix="ledger-sealing")
        self._maintenance = ThreadPoolExecutor(1, thread_name_prefix="ledger-maintenance")

    def seal(self, job: Job) -> None:
        """Queues work that the next segment waits for: footers, preallocated files. Not run once the log is being stopped."""
        self._submit(self._sealing, job)

    def maintain(self, job: Job) -> None:
        """Queues work that nobody waits for: reclaiming space, snapshots. Not run once the log is being stopped."""
        self._submit(self._maintenance, job)

    def maintain_later(self, delay_s: float, job: Job) -> None:
        """`maintain`, after a while. Not run once the log is being stopped. Thread-safe."""

        def due() -> None:
            self._timers.discard(timer)
            self.maintain(job)

        timer = threading.Timer(delay_s, due)
        timer.daemon = True
        with self._lock:
            if not self.stopping:
                self._timers.add(timer)
                timer.start()

    def _submit(self, executor: Executor, job: Job) -> None:
        with suppress(RuntimeError):  # it was shut down meanwhile
            if not self.stopping:
                executor.submit(self._guarded, job)

    def _guarded(self, job: Job) -> None:
        try:
            job()
        except Exception as error:
            text = f"maintenance of the log failed and will be done at the next start: {error!r}"
            logger.error("ledger log: %s", text, extra={"action": "ledger_log_maintenance"})

    def stop(self) -> None:
        """Waits for jobs in progress. Blocks."""
        with self._lock:
            self.stopping = True
        for timer in list(self._timers):
            timer.cancel()
        self._sealing.shutdown(wait=True)
        self._maintenance.shutdown(wait=True)
