"""How many live feeds may be open, and how many of them one person may have. Pure.

Each holds a connection of the web server for as long as a page is open. Together they have half of its connections, so that pages
and REST are served whatever feeds are open; one person has a share that is ample for windows and leaves feeds for everybody else.
"""

from __future__ import annotations

from collections import Counter

PERSON_MAX = 20  # windows


class Watchers:
    """Each peer that arrives leaves, once; leaving twice is harmless."""

    def __init__(self, watchers_max: int, person_max: int = PERSON_MAX) -> None:
        self._watchers_max = watchers_max
        self._person_max = person_max
        self._of: dict[object, object] = {}  # peer -> person, None while that is not known
        self._by_person: Counter[object] = Counter()

    @property
    def count(self) -> int:
        return len(self._of)

    def arrive(self, peer: object) -> bool:
        """Whether there is a place for `peer`, which has it then."""
        if len(self._of) >= self._watchers_max:
            return False
        self._of[peer] = None
        return True

    def sign_in(self, peer: object, person: object) -> bool:
        """Whether the person may have another one. `peer` keeps its place either way until it leaves."""
        if self._by_person[person] >= self._person_max:
            return False
        self._of[peer] = person
        self._by_person[person] += 1
        return True

    def leave(self, peer: object) -> None:
        person = self._of.pop(peer, None)
        if person is not None:
            self._by_person[person] -= 1
            if not self._by_person[person]:
                del self._by_person[person]
