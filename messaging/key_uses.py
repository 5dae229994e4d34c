"""When keys were used last, to the minute: gathered where clients sign in and calls come in, and taken from there by the minute.

A use is a sign-in, a call, or a connection that is open: one look at all connections at the beginning of each minute, and a note at
each sign-in, see every connection in every minute in which it was open. Nothing is done for a message. Pure but for a lock: it
receives the time as an argument.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

MINUTE_MS = 60_000
BATCH_MAX = 1_000  # keys


class UsesBatch(NamedTuple):
    """`uses`: key id -> the beginning of its last minute in use, in ms since 1970. `waiting`: how many other keys there are."""

    number: int
    uses: dict[str, int]
    waiting: int


class KeyUses:
    """Thread-safe. One entry for each key that was used since its use was taken; callers note keys that exist."""

    def __init__(self, started_ms: int) -> None:
        self._lock = threading.Lock()
        self._minutes: dict[str, int] = {}
        self._looked_minute = 0
        self._taken: dict[str, int] = {}
        self._number = started_ms  # another run of the process does not take the numbers of this one for its own

    def note(self, key_id: str, now_ms: int) -> None:
        with self._lock:
            self._minutes[key_id] = now_ms // MINUTE_MS

    def look(self, now_ms: int, connected: Callable[[], Iterable[str]]) -> None:
        """Call it once a second or so: `connected` is asked for the keys of all connections once a minute."""
        minute = now_ms // MINUTE_MS
        if minute != self._looked_minute:
            self._looked_minute = minute
            keys = set(connected())
            with self._lock:
                self._minutes.update(dict.fromkeys(keys, minute))

    def take(self, acknowledged: int = 0) -> UsesBatch:
        """The next batch. `acknowledged`: the number of the one before, once its uses are stored; without it they come again."""
        with self._lock:
            if acknowledged == self._number:
                for key_id, minute in self._taken.items():
                    if self._minutes.get(key_id) == minute:
                        del self._minutes[key_id]
            self._number += 1
            self._taken = dict(islice(self._minutes.items(), BATCH_MAX))
            uses = {key_id: minute * MINUTE_MS for key_id, minute in self._taken.items()}
            return UsesBatch(self._number, uses, len(self._minutes) - len(uses))
