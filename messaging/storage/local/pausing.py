"""Pauses in long computations that run beside the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable

CHUNK = 4096  # ledgers processed between two pauses
PAUSE_S = 0.0005

Pause = Callable[[], object]


def let_others_run() -> None:
    """For CPU-bound threads beside the event loop: a sleep, however short, hands the GIL to a waiting thread."""
    time.sleep(PAUSE_S)
