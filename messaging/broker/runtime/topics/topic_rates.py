"""The message rates of one topic, sampled while it is active."""

from __future__ import annotations

from dataclasses import dataclass, field

from messaging.broker.core.rates import Rate
from messaging.broker.runtime.topics.member_rates import MemberRates


@dataclass(slots=True)
class TopicRates:
    messages_in: Rate = field(default_factory=Rate)
    bytes_in: Rate = field(default_factory=Rate)
    messages_out: Rate = field(default_factory=Rate)
    bytes_out: Rate = field(default_factory=Rate)
    members: MemberRates = field(default_factory=MemberRates)

    def all(self) -> tuple[Rate, Rate, Rate, Rate]:
        return self.messages_in, self.bytes_in, self.messages_out, self.bytes_out

    @property
    def quiet(self) -> bool:
        """Whether nothing is published, dispatched or acknowledged: the owner may stop sampling."""
        return all(rate.quiet for rate in self.all()) and self.members.quiet


QUIET = TopicRates()  # the rates of an idle topic; never sampled
