"""What ends next: keys whose end came closer while they are in use (one that is being replaced ends before the tokens made for
it), and namespaces with grants for a time."""

from __future__ import annotations

import heapq

OUTDATED_MAX = 100  # entries that stay besides as many as are valid


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
            if len(self._next) > 2 * len(self._ends_ms) + OUTDATED_MAX:  # ends that are far away change again and again
                self._next = [(each_ms, each) for each, each_ms in self._ends_ms.items()]
                heapq.heapify(self._next)

    def __len__(self) -> int:
        """How many entries are kept, those included that are out of date."""
        return len(self._next)

    def due(self, now_ms: int) -> set[str]:
        """Those that have ended, each once."""
        ended: set[str] = set()
        while self._next and self._next[0][0] <= now_ms:
            end_ms, name = heapq.heappop(self._next)
            if self._ends_ms.get(name) == end_ms:
                del self._ends_ms[name]
                ended.add(name)
        return ended
