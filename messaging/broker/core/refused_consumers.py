"""Consumers that a subscription refused lately, for whoever asks why: clients alone are told otherwise. Pure.

Kept with the subscription, in the same room however many there are, and gone with it.
"""

from __future__ import annotations

from typing import NamedTuple

KEPT_MS = 600_000  # after the last one
WHY_LENGTH_MAX = 500


class RefusedConsumers(NamedTuple):
    """So many times in a row, with less than `KEPT_MS` between two. `why`: of the last one."""

    times: int = 0
    first_ms: int = 0
    last_ms: int = 0
    why: str = ""

    def and_one(self, why: str, now_ms: int) -> RefusedConsumers:
        before = self if self.is_recent(now_ms) else RefusedConsumers(first_ms=now_ms)
        return RefusedConsumers(before.times + 1, before.first_ms, now_ms, why[:WHY_LENGTH_MAX])

    def is_recent(self, now_ms: int) -> bool:
        return self.times > 0 and now_ms - self.last_ms < KEPT_MS


NONE_REFUSED = RefusedConsumers()
