"""Subscribe rates: how often consumers subscribed in the current period. Pure: the caller passes the time."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

CONSUMERS_MAX = 20_000  # remembered, of all topics; those that came first are forgotten first


class ConsumerIdentity(NamedTuple):
    """What Pulsar knows a consumer by when it comes again: the address of its client, its name, its number on the connection."""

    host: str
    name: str
    consumer_id: int


class SubscribeRates:
    """Counts within periods, each of which begins with the first time that a consumer subscribes."""

    __slots__ = ("_periods",)

    def __init__(self) -> None:
        # The end of the period, and how often in it.
        self._periods: OrderedDict[tuple[str, ConsumerIdentity], tuple[int, int]] = OrderedDict()

    def take(self, topic: str, consumer: ConsumerIdentity, limit: int, period_s: int, now_ms: int) -> int:
        """Counts once more and returns 0. Where that is above `limit`: returns in how many milliseconds it may subscribe again."""
        end_ms, count = self._periods.pop((topic, consumer), (0, 0))
        if not now_ms < end_ms <= now_ms + period_s * 1000:
            end_ms, count = now_ms + period_s * 1000, 0
        allowed = count < limit
        self._periods[topic, consumer] = (end_ms, count + allowed)
        if len(self._periods) > CONSUMERS_MAX:
            del self._periods[next(iter(self._periods))]
        return 0 if allowed else end_ms - now_ms
