"""Pauses in long computations beside the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable

CHUNK = 4096  # ledgers handled between two pauses
PAUSE_S = 0.0005

Pause = Callable[[], object]


def let_others_run() -> None:
    """For threads beside the event loop with much to compute: a sleep, however short, gives the interpreter to who waits for it."""
    time.sleep(PAUSE_S)
