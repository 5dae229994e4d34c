"""What time it is, for those who delete by it.

A wall clock jumps: it is set by hand, by NTP after a start at 1970, or wrong for a moment. Messages must not be lost by that.
What is *stored* is stamped with the wall clock, but no earlier than what was stored before (`Appends.stamp`): at worst it is kept
too long. What is *deleted*, because it is older than some time, is measured by the wall clock or by the time that passed since
that was last believed, whichever says less: `safe_expiry_ms`. A jump that stands for `BELIEVED_AFTER_MS` is believed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

logger = logging.getLogger(__name__)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME_MS_MAX = 253_402_300_799_999  # the last millisecond of the year 9999
JUMP_MS = 2_000  # a larger difference is no slewing
SLEW = 1_000  # NTP corrects at most one part in 2,000; one in so many of the time passed is allowed beside
BELIEVED_AFTER_MS = 300_000


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def boottime_ms() -> int:
    """Time passed since some moment, a sleep of the machine included where the system tells."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return time.monotonic_ns() // 1_000_000


class ExpiryClock:
    """Milliseconds since 1970, never ahead of the wall clock, nor of the time passed since it was last believed."""

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
            logger.warning("the clock jumped by %d ms; for %d ms nothing is deleted by the new time", jump_ms, BELIEVED_AFTER_MS)
        elif passed - self._jumped_at >= BELIEVED_AFTER_MS:
            self._believe(wall, passed)
            return wall
        return min(wall, steady)

    def _believe(self, wall: int, passed: int) -> None:
        self._believed_ms, self._believed_at, self._jumped_at = wall, passed, None


def time_text(at_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds, as Pulsar writes times. Producers' clocks may say anything: a time that no calendar has
    is shown as the nearest one that it has."""
    moment = EPOCH + timedelta(milliseconds=min(max(at_ms, 0), TIME_MS_MAX))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
