"""What policies say of the delivery times of a topic's messages: given delays, the longest, and how many may wait.

How many messages of a tenant wait is counted when it matters: those that wait in its loaded topics, those that waited in topics
that were unloaded since the broker started, and those that are being stored. An entry counts as one message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from messaging.broker.core.control.effective_policies import EffectivePolicies
from messaging.broker.core.delayed.given_delays import NONE_GIVEN, GivenDelays
from messaging.broker.runtime.topics.limits.admission import Policy
from messaging.broker.runtime.topics.topic_context import TopicContext
from messaging.protocol.hot import SendFrame
from messaging.protocol.names import TopicName


class DelayLimits(NamedTuple):
    """Of one topic. 0: no limit."""

    given: GivenDelays
    longest_ms: int
    waiting_max: int
    waiting_level: str  # on which the limit is set

    @property
    def given_any(self) -> bool:
        """Whether messages that ask for no delivery time get one."""
        return self.given != NONE_GIVEN


def delay_limits(policies: EffectivePolicies, name: TopicName) -> DelayLimits | None:
    """None: there are none."""
    policy = policies.value
    waiting_max, level = policies.resolved("max_delayed_messages_per_tenant", name)
    limits = DelayLimits(given_delays(policy, name), int(policy("delayed_delivery_max_ms", name)), int(waiting_max), level)
    return limits if limits[:3] != (NONE_GIVEN, 0, 0) else None


def given_delays(policy: Policy, name: TopicName) -> GivenDelays:
    if not policy("delayed_delivery", name):
        return NONE_GIVEN
    return GivenDelays(int(policy("delayed_delivery_default_ms", name)), int(policy("delayed_delivery_fixed_ms", name)))


class DelayCheck:
    """Judges the messages of one block in their order. Each that may be stored is counted until it is stored, or is not."""

    def __init__(self, topic: TopicContext, limits: DelayLimits, now_ms: int) -> None:
        self._counts = topic.services.memory.delayed_counts
        self._tenant = topic.name.tenant
        self._limits = limits
        self._now_ms = now_ms
        self._waiting = self._counts.waiting(self._tenant) if limits.waiting_max else 0
        self.counted = 0

    def refusal(self, frame: SendFrame) -> str:
        """Why a message cannot be stored; "" for one that can, and is counted."""
        limits = self._limits
        at_ms = limits.given.deliver_at_ms(frame, self._now_ms)
        if limits.longest_ms and not limits.given.fixed_ms and at_ms > self._now_ms + limits.longest_ms:
            late_ms = at_ms - self._now_ms - limits.longest_ms
            return f"the delivery time is {late_ms} ms beyond delayed_delivery_max_ms of the namespace: ask for an earlier one"
        if not limits.waiting_max or at_ms <= self._now_ms:
            return ""
        if self._waiting >= limits.waiting_max:
            return (
                f"tenant {self._tenant} has {self._waiting} delayed messages, which is max_delayed_messages_per_tenant = "
                f"{limits.waiting_max}, set on the {limits.waiting_level}: wait until some are due, cancel some, or raise it there"
            )
        self._waiting += 1
        self.counted += 1
        return ""

    def hold(self, run_in_order: Callable[[Callable[[bool], None]], None]) -> None:
        """What was counted is being stored. `run_in_order`: calls back once it is, or is not."""
        if self.counted:
            count, self.counted = self.counted, 0
            self._counts.storing[self._tenant] += count
            run_in_order(partial(self._release, count))

    def _release(self, count: int, stored: bool) -> None:
        self._counts.storing[self._tenant] -= count
