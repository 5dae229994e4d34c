"""Where time and chance come from; tests hand in their own."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Timing:
    """`sleep` is what a retry waits by."""

    now_s: Callable[[], float] = time.monotonic
    wall_ms: Callable[[], int] = _wall_ms
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random
