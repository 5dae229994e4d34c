"""The limits on messages that consumers may hold unacknowledged, where several consumers take turns (Shared, Key_Shared). Pure.

A consumer at its limit, or a subscription at its own, is sent nothing more until at most half of the limit is left: Pulsar's rule.
What is held is counted where it changes, in `Consumer`; the flags follow from the counts alone, so they cannot stay behind.
"""

from __future__ import annotations

UNLIMITED = 1 << 62


def stays_blocked(unacked: int, limit: int) -> bool:
    """Whether a holder that reached its limit, and now has `held` messages, still gets no more."""
    return unacked > limit // 2


class UnackedMessages:
    """What all consumers of a subscription hold together, and the limits of each and of all."""

    __slots__ = ("blocked", "consumer_max", "messages", "subscription_max", "uncounted")

    def __init__(self, consumer_max: int = 0, subscription_max: int = 0) -> None:
        """0: no limit."""
        self.messages = 0
        self.uncounted = 0  # chunks among them that nobody can acknowledge yet: they do not count towards the limits
        self.blocked = False  # all consumers together hold too many
        self.consumer_max = consumer_max or UNLIMITED
        self.subscription_max = subscription_max or UNLIMITED

    @property
    def room(self) -> int:
        """Messages that may still be sent to all consumers together; at least one while not `blocked`."""
        return self.subscription_max - self.messages + self.uncounted

    def recount(self, messages: int, uncounted: int) -> None:
        """What all consumers hold was counted anew."""
        self.messages, self.uncounted = messages, uncounted
        if self.blocked:
            self.blocked = stays_blocked(self.messages - self.uncounted, self.subscription_max)

    def limit(self, consumer_max: int, subscription_max: int) -> None:
        """The limits changed; 0: none. The consumers' own flags are for the caller to follow up: `Consumer.follow_limit`."""
        self.consumer_max = consumer_max or UNLIMITED
        self.subscription_max = subscription_max or UNLIMITED
        self.blocked = self.messages - self.uncounted >= self.subscription_max
