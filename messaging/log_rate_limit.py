"""Limits how often one event is logged, because clients can cause some events without end and disks are finite.

Each event has a burst and then a rate. Suppressed lines are counted, and the next line of the event says how many there were.
Critical events are never suppressed.
"""

from __future__ import annotations

from collections import OrderedDict

BURST = 100
A_SECOND = 5.0
EVENTS_MAX = 1000  # names that are remembered; those of libraries may vary


class LogRateLimit:
    def __init__(self) -> None:
        self.events: OrderedDict[str, tuple[float, float, int]] = OrderedDict()  # available lines, as of when, and suppressed lines

    def suppressed(self, event: str, now_s: float) -> int | None:
        """How many lines of this event were suppressed before this one; None: this line is suppressed too."""
        lines, then_s, missed = self.events.pop(event, (float(BURST), now_s, 0))
        lines = min(float(BURST), lines + (now_s - then_s) * A_SECOND)
        written = lines >= 1
        self.events[event] = (lines - 1, now_s, 0) if written else (lines, now_s, missed + 1)
        if len(self.events) > EVENTS_MAX:
            del self.events[next(iter(self.events))]
        return missed if written else None
