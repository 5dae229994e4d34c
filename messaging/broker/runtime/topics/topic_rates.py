"""The message rates of one topic, sampled while it is active."""

from __future__ import annotations

from dataclasses import dataclass, field

from messaging.broker.core.rates import Rate
from messaging.broker.runtime.topics.member_rates import MemberRates


class HistoryMark:
    """What was counted of a topic up to its last point of history, and since when on the next one is. `from_at`: by the clock that
    never jumps."""

    __slots__ = (
        "counted", "from_at", "from_ms", "further", "in_peak", "out_peak", "queued", "subscriptions", "throttled_ms",
        "throttled_subscriptions",
    )  # fmt: skip

    def __init__(self) -> None:
        self.subscriptions: dict[str, tuple[int, int, int]] = {}  # by key; those that are missing were at 0
        self.further = 0  # where the next subscriptions begin, of a topic with more of them than a point has room for
        self.queued = False

    def begin(self, now_ms: int, passed_ms: int, counted: tuple[int, ...]) -> None:
        self.from_ms, self.from_at, self.counted = now_ms, passed_ms, counted
        self.in_peak = self.out_peak = 0.0
        self.throttled_ms = 0
        self.throttled_subscriptions: dict[str, int] = {}


@dataclass(slots=True)
class TopicRates:
    messages_in: Rate = field(default_factory=Rate)
    bytes_in: Rate = field(default_factory=Rate)
    messages_out: Rate = field(default_factory=Rate)
    bytes_out: Rate = field(default_factory=Rate)
    members: MemberRates = field(default_factory=MemberRates)
    mark: HistoryMark | None = None  # None: it has no history

    def all(self) -> tuple[Rate, Rate, Rate, Rate]:
        return self.messages_in, self.bytes_in, self.messages_out, self.bytes_out

    @property
    def quiet(self) -> bool:
        """Whether nothing is published, dispatched or acknowledged: the owner may stop sampling."""
        return all(rate.quiet for rate in self.all()) and self.members.quiet


QUIET = TopicRates()  # the rates of an idle topic; never sampled
