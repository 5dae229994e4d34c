"""Several brokers find at once that one is gone. Each that recovers it fences the one that does so already, so that none might come
to an end; here a broker remembers for how long it leaves that to another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

RIVAL_S, RIVAL_S_MAX = 2.0, 60.0  # for so long; doubled each time that it was not enough


class _Rival(NamedTuple):
    session: int
    until_s: float
    patience_s: float


class Rivals:
    """By the session that is recovered. `now_s` never goes back."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._rivals: dict[str, _Rival] = {}  # by broker, the last session of it

    def known(self, broker_id: str, session: int) -> bool:
        """Whether another broker was ever left to recover it."""
        rival = self._rivals.get(broker_id)
        return rival is not None and rival.session == session

    def at_work(self, broker_id: str, session: int) -> bool:
        return self.known(broker_id, session) and self._now_s() < self._rivals[broker_id].until_s

    def leave(self, broker_id: str, session: int) -> None:
        """For longer each time, so that somebody has the time that it takes, however long that is."""
        patience_s = RIVAL_S
        if self.known(broker_id, session):
            patience_s = min(2 * self._rivals[broker_id].patience_s, RIVAL_S_MAX)
        self._rivals[broker_id] = _Rival(session, self._now_s() + patience_s, patience_s)
