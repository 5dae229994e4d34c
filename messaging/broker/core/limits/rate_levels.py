"""The levels of rate limits, and amounts of messages and bytes. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

UNLIMITED = math.inf


class RateLevel(StrEnum):
    SUBSCRIPTION = "subscription"
    TOPIC = "topic"
    NAMESPACE = "namespace"
    TENANT = "tenant"
    BROKER = "broker"


class RateLimit(NamedTuple):
    """Per second; 0: unlimited."""

    messages: float = 0.0
    size_bytes: float = 0.0

    @property
    def unlimited(self) -> bool:
        return not self.messages and not self.size_bytes

    @classmethod
    def per_period(cls, messages: int, size_bytes: int, period_s: int = 1) -> RateLimit:
        """As policies have it: amounts of 0 and less mean unlimited, and a period of 0 a second."""
        return cls(max(0, messages) / (period_s or 1), max(0, size_bytes) / (period_s or 1))

    def part(self, share: float) -> RateLimit:
        return RateLimit(self.messages * share, self.size_bytes * share)


NO_LIMIT = RateLimit()
Waits = Mapping[tuple[RateLevel, bool], int]  # how often somebody had to wait at a level, for bytes (True) or for messages
NO_WAITS: Waits = {}


class Allowance(NamedTuple):
    """How much may be sent now: whole messages as long as both are above 0."""

    messages: float = UNLIMITED
    size_bytes: float = UNLIMITED

    def __bool__(self) -> bool:
        return self.messages > 0 and self.size_bytes > 0

    def least(self, other: Allowance) -> Allowance:
        return Allowance(min(self.messages, other.messages), min(self.size_bytes, other.size_bytes))


NOTHING_ALLOWED = Allowance(0, 0)
