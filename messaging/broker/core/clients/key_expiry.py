"""When keys end whose end came closer while they are in use: one that is being replaced ends before the tokens made for it."""

from __future__ import annotations

import heapq


class KeyExpiry:
    """One entry for each key that changed and has an end."""

    def __init__(self) -> None:
        self._ends_ms: dict[str, int] = {}  # key id -> when
        self._next: list[tuple[int, str]] = []  # a heap; entries that `_ends_ms` does not confirm are out of date

    def note(self, key_id: str, expires_ms: int) -> None:
        """The key changed. `expires_ms` 0: it has no end, or is gone."""
        if not expires_ms:
            self._ends_ms.pop(key_id, None)
        elif self._ends_ms.get(key_id) != expires_ms:
            self._ends_ms[key_id] = expires_ms
            heapq.heappush(self._next, (expires_ms, key_id))

    def due(self, now_ms: int) -> set[str]:
        """The keys that have ended, each once."""
        ended: set[str] = set()
        while self._next and self._next[0][0] <= now_ms:
            expires_ms, key_id = heapq.heappop(self._next)
            if self._ends_ms.get(key_id) == expires_ms:
                del self._ends_ms[key_id]
                ended.add(key_id)
        return ended
