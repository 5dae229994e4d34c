"""How often one event is written to the log: what a peer can bring about it can bring about without end, and the disk has one.

Each event has a burst and then a rate of its own. What is left out is counted, and the next line that is written says how many
lines that were. Levels of trouble of ours (critical) are never left out.
"""

from __future__ import annotations

BURST = 100
A_SECOND = 5.0
EVENTS_MAX = 1000  # names that are remembered: ours are constants, those of libraries may not be


class LogRateLimit:
    def __init__(self) -> None:
        self._events: dict[str, tuple[float, float, int]] = {}  # lines it may have, as of when, lines left out since the last one

    def suppressed(self, event: str, now_s: float) -> int | None:
        """How many lines of this event were left out before this one; None: this one is, too."""
        lines, then_s, missed = self._events.pop(event, (float(BURST), now_s, 0))
        lines = min(float(BURST), lines + (now_s - then_s) * A_SECOND)
        written = lines >= 1
        self._events[event] = (lines - 1, now_s, 0) if written else (lines, now_s, missed + 1)
        if len(self._events) > EVENTS_MAX:
            del self._events[next(iter(self._events))]
        return missed if written else None
