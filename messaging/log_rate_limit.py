"""Limits how often one event is logged, because clients can cause some events without end and disks are finite.

Each event has a burst and then a rate. Suppressed lines are counted, and the next line of the event says how many there were.
Critical events are never suppressed.
"""

from __future__ import annotations

from collections import OrderedDict

from messaging.token_bucket import TokenBucket

BURST = 100
A_SECOND = 5.0
EVENTS_MAX = 1000  # names that are remembered; those of libraries may vary


class LogRateLimit:
    def __init__(self) -> None:
        self.events: OrderedDict[str, tuple[TokenBucket, int]] = OrderedDict()  # of lines; and how many were suppressed

    def suppressed(self, event: str, now_s: float) -> int | None:
        """How many lines of this event were suppressed before this one; None: this line is suppressed too."""
        lines, missed = self.events.pop(event) if event in self.events else (TokenBucket(A_SECOND, BURST, now_s), 0)
        written = not lines.take(now_s)
        self.events[event] = (lines, 0 if written else missed + 1)
        if len(self.events) > EVENTS_MAX:
            del self.events[next(iter(self.events))]
        return missed if written else None
