"""How many refusals are recorded one by one, so that nobody fills the disk by being refused. Pure: it receives the time as an
argument.

In a minute, `EACH` of one address and role, `OF_ADDRESS` of one address, and `ALL` in all, are recorded as they come. The rest are
counted, by address and role for the first `KEYS` of those (`KEYS_OF_ADDRESS` of one address, its others together), together for the
rest; the counts are recorded when the minute is over. So a minute leaves at most ``ALL + KEYS + 1`` records, whatever comes, no
refusal is lost from the counts, and nobody hides what is refused to others by being refused under many names.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import NamedTuple

EACH, OF_ADDRESS, ALL = 5, 20, 60
KEYS_OF_ADDRESS, KEYS = 5, 20
MINUTE_S = 60


class Refused(NamedTuple):
    """Who was refused, as far as that is known."""

    address: str
    role: str


EVERYBODY_ELSE = Refused("", "")


class Uncounted(NamedTuple):
    """So many refusals of `who` in the minute that began at `since_s` were not recorded one by one."""

    who: Refused
    refusals: int
    since_s: int


class Denials:
    """Thread-safe. Never blocks for long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._minute = 0
        self._recorded: Counter[Refused] = Counter()
        self._recorded_of: Counter[str] = Counter()  # by address
        self._total = 0
        self._more: Counter[Refused] = Counter()

    def one(self, who: Refused) -> bool:
        """Counts a refusal. True: it is to be recorded by itself. Call `due` before."""
        with self._lock:
            if self._total < ALL and self._recorded[who] < EACH and self._recorded_of[who.address] < OF_ADDRESS:
                self._recorded[who] += 1
                self._recorded_of[who.address] += 1
                self._total += 1
                return True
            self._more[self._counted_as(who)] += 1
            return False

    def _counted_as(self, who: Refused) -> Refused:
        if who not in self._more and sum(refused.address == who.address for refused in self._more) >= KEYS_OF_ADDRESS - 1:
            who = Refused(who.address, "")
        return who if who in self._more or len(self._more) < KEYS else EVERYBODY_ELSE

    def due(self, now_s: float) -> list[Uncounted]:
        """What is to be recorded of a minute that is over; empty while it runs."""
        minute = int(now_s // MINUTE_S)
        if minute == self._minute:
            return []
        with self._lock:
            if minute == self._minute:
                return []
            uncounted = [Uncounted(who, count, self._minute * MINUTE_S) for who, count in self._more.items()]
            self._minute = minute
            self._recorded.clear()
            self._recorded_of.clear()
            self._more.clear()
            self._total = 0
            return uncounted
