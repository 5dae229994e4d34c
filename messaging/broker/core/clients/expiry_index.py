"""What ends next: keys whose end came closer while they are in use (one that is being replaced ends before the tokens made for
it), and namespaces with grants for a time."""

from __future__ import annotations

import heapq


class ExpiryIndex:
    """One entry for each name that was noted and has an end."""

    def __init__(self) -> None:
        self._ends_ms: dict[str, int] = {}  # name -> when
        self._next: list[tuple[int, str]] = []  # a heap; entries that `_ends_ms` does not confirm are out of date

    def note(self, name: str, end_ms: int) -> None:
        """It changed. `end_ms` 0: it has no end, or is gone."""
        if not end_ms:
            self._ends_ms.pop(name, None)
        elif self._ends_ms.get(name) != end_ms:
            self._ends_ms[name] = end_ms
            heapq.heappush(self._next, (end_ms, name))

    def due(self, now_ms: int) -> set[str]:
        """Those that have ended, each once."""
        ended: set[str] = set()
        while self._next and self._next[0][0] <= now_ms:
            end_ms, name = heapq.heappop(self._next)
            if self._ends_ms.get(name) == end_ms:
                del self._ends_ms[name]
                ended.add(name)
        return ended
