"""Clocks, and the time to use for deleting data.

A wall clock can jump: it is set by hand, corrected by NTP after a start at 1970, or briefly wrong. No messages may be lost by
that. Stored data is stamped with the wall clock, but never earlier than the data before it, so at worst it is kept too long.
Whether data is old enough to be deleted is decided by `safe_expiry_ms`: the wall clock, or the time that has passed since it was
last trusted, whichever is earlier. A jump is trusted after `BELIEVED_AFTER_MS`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

JUMP_MS = 2_000  # a larger difference is a jump, not slewing
SLEW = 1_000  # NTP slews by at most 1/2,000; a deviation of 1/1,000 is tolerated
BELIEVED_AFTER_MS = 300_000
OFF_MS_MAX = 20_000  # between machines: a service token of another one has at least half a minute to live


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def boottime_ms() -> int:
    """Milliseconds since some fixed moment, including time during which the machine slept if the system reports it."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return time.monotonic_ns() // 1_000_000


def passed_s() -> float:
    """The same in seconds."""
    return boottime_ms() / 1000


def ahead_ms(begun_ms: int, theirs_ms: int, ended_ms: int) -> int:
    """How far their clock is ahead of ours at least; negative: behind. They looked at it between two looks at ours, whatever the
    call took."""
    return min(theirs_ms - begun_ms, 0) + max(theirs_ms - ended_ms, 0)


def off_text(ahead: int, whose: str) -> str:
    """`ahead`: of `ahead_ms`, not 0."""
    return f"the clock of this machine is {abs(ahead) // 1000} s {'behind' if ahead > 0 else 'ahead of'} that of {whose}"


class ExpiryClock:
    """Milliseconds since 1970, never ahead of the wall clock or of the time that has passed since it was last trusted."""

    def __init__(self, wall: Callable[[], int] = wall_ms, passed: Callable[[], int] = boottime_ms) -> None:
        self._wall = wall
        self._passed = passed
        self._believed_ms = wall()
        self._believed_at = passed()
        self._jumped_at: int | None = None

    def safe_expiry_ms(self) -> int:
        wall, passed = self._wall(), self._passed()
        since = passed - self._believed_at
        steady = self._believed_ms + since
        if abs(wall - steady) <= JUMP_MS + since // SLEW:
            self._believe(wall, passed)
            return min(wall, steady)
        if self._jumped_at is None:
            self._jumped_at = passed
            jump_ms = wall - steady
            logger.warning(
                "the clock jumped by %d ms; for %d ms nothing is deleted according to the new time", jump_ms, BELIEVED_AFTER_MS
            )
        elif passed - self._jumped_at >= BELIEVED_AFTER_MS:
            self._believe(wall, passed)
            return wall
        return min(wall, steady)

    def _believe(self, wall: int, passed: int) -> None:
        self._believed_ms, self._believed_at, self._jumped_at = wall, passed, None
