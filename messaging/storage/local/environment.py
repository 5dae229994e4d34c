"""What every part of an open log knows and none changes: where it is, what it was told, which opening this is."""

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
    """Where the log of the process says enough."""


@dataclass(frozen=True, slots=True)
class LogEnvironment:
    """`epoch` counts how often the log was opened. `on_report` is called, in any thread, with what `report` logs."""

    directory: Path
    disk: Disk
    config: LocalConfig
    store_id: int
    epoch: int
    on_report: Report = _nobody

    def report(self, kind: str, text: str) -> None:
        """Something an operator must know. `kind`: failed, torn, corrupt, full."""
        logger.error("ledger log: %s", text, extra={"action": f"ledger_log_{kind}"})
        self.on_report(kind, text)
