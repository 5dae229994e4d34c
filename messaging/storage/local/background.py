"""The background threads of a log, for work that commits must not wait for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

logger = logging.getLogger(__name__)

Job = Callable[[], None]


class BackgroundThreads:
    """Two threads, each running one job after another: footers and preallocated segments must not wait behind the copying of a
    segment."""

    def __init__(self) -> None:
        self.stopping = False
        self._sealing = ThreadPoolExecutor(1, thread_name_prefix="ledger-sealing")
        self._maintenance = ThreadPoolExecutor(1, thread_name_prefix="ledger-maintenance")

    def seal(self, job: Job) -> None:
        """Queues work that the next segment waits for: footers, preallocated files. Not run once the log is being stopped."""
        self._submit(self._sealing, job)

    def maintain(self, job: Job) -> None:
        """Queues work that nobody waits for: reclaiming space, snapshots. Not run once the log is being stopped."""
        self._submit(self._maintenance, job)

    def _submit(self, executor: Executor, job: Job) -> None:
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
        self.stopping = True
        self._sealing.shutdown(wait=True)
        self._maintenance.shutdown(wait=True)
