"""Whether a broker that cannot renew its session lets its clients go, by what it hears from the others.

An outage of the metadata must not disturb clients, and a broker that alone is cut off must not keep them. The two differ by what
others say, or by that nothing is heard of them.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from math import inf
from typing import NamedTuple

from messaging.storage.ownership import BrokerSession

GAP_S, GAP_S_MAX = 1.0, 60.0  # between two times that clients are let go because nothing is heard


class Heard(Enum):
    """What is heard of another broker."""

    OVER = "over"  # it says that the session of this one is over
    LIVES = "lives"  # it says that it is not
    LISTENS = "listens"  # it says nothing, and something listens where it was
    NOTHING = "nothing"


class Go(NamedTuple):
    """Clients are to go to `taker`; None: to wherever they find another broker."""

    taker: BrokerSession | None


class LettingGo:
    """As long as the metadata do not answer."""

    def __init__(self) -> None:
        self._not_before_s = -inf
        self._gap_s = GAP_S

    def decide(self, heard: Collection[tuple[BrokerSession, Heard]], now_s: float) -> Go | None:
        """By what is heard of all other brokers. None: clients stay. `now_s` never goes back.

        Once another one says that the session is over, clients go each time, since they come back that do not know it yet. If
        nothing is heard of any, it may be this broker that is cut off: clients may reach others. Those who come back are let go
        again after a gap that doubles. A broker that closed its session, or was ended, is expected to be silent, and what listens
        in its place may be anything: it counts if it answers.
        """
        for other, answer in heard:
            if answer is Heard.OVER:
                return Go(other)
        answered = any(answer is Heard.LIVES for _, answer in heard)
        missing = {answer for other, answer in heard if not other.closed} == {Heard.NOTHING}
        if answered or not missing or now_s < self._not_before_s:
            return None
        self._not_before_s = now_s + self._gap_s
        self._gap_s = min(2 * self._gap_s, GAP_S_MAX)
        return Go(None)
