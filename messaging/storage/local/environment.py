"""Facts about an open log that all its parts share and none changes: its directory, its settings, its epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from messaging.storage.local.config import LocalConfig
from messaging.storage.local.device.disk import Disk

logger = logging.getLogger(__name__)

Report = Callable[[str, str], None]


def _nobody(kind: str, text: str) -> None:
    """Used if the process log is enough."""


@dataclass(frozen=True, slots=True)
class LogEnvironment:
    """`epoch` counts how often the log was opened. `on_report` is called, in any thread, with every event that `report` logs."""

    directory: Path
    disk: Disk
    config: LocalConfig
    store_id: int
    epoch: int
    on_report: Report = _nobody

    def report(self, kind: str, text: str) -> None:
        """Reports an event that an operator must know about. `kind`: failed, torn, corrupt, full."""
        logger.error("ledger log: %s", text, extra={"action": f"ledger_log_{kind}"})
        self.on_report(kind, text)
