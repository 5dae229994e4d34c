"""Latencies, of which one stands for all messages of a read."""

from __future__ import annotations


class Latencies:
    """Latencies in seconds, each for a number of messages."""

    def __init__(self) -> None:
        self._found: list[tuple[float, int]] = []

    def add(self, latency_s: float, messages: int) -> None:
        self._found.append((latency_s, messages))

    def quantile_ms(self, share: float) -> float:
        left = sum(messages for _, messages in self._found) * share
        for latency_s, messages in sorted(self._found):
            left -= messages
            if left <= 0:
                return latency_s * 1000
        return 0.0

    @property
    def worst_s(self) -> float:
        return max((latency_s for latency_s, _ in self._found), default=0.0)
