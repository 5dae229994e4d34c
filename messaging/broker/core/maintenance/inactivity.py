"""Topics and subscriptions that nobody uses: since when, and when policies delete them. Pure.

Times are milliseconds since 1970 by the clock that governs deletion (`messaging/clock.py`). A topic is used while it has a producer
or a consumer, a subscription while it has a consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

NEVER = 1 << 62
TOPIC = ""  # in the stored times: no subscription has this name
CAUGHT_UP = "delete_when_subscriptions_caught_up"
NON_PERSISTENT_MS = 60_000  # by default; Pulsar's default of the policy


class InactivityPolicies(NamedTuple):
    """How long the unused is kept, in milliseconds; `NEVER`: forever."""

    topic_ms: int
    caught_up: bool  # a topic is kept by a backlog of its subscriptions only, not by subscriptions as such
    subscription_ms: int

    @property
    def in_force(self) -> bool:
        return self.topic_ms != NEVER or self.subscription_ms != NEVER

    def keeps(self, subscriptions: int, backlog: bool) -> bool:
        """Whether a topic that nobody uses is kept by its subscriptions, so many, or by the backlog of one."""
        return backlog if self.caught_up else subscriptions > 0


def inactivity_policies(value: Callable[[str], Any]) -> InactivityPolicies:
    """`value`: the policy of this name that is in force for a topic. Retention by time keeps the topic as well, as in Pulsar."""
    retention_min, expiration_min = int(value("retention_time_min")), int(value("subscription_expiration_min"))
    topic_ms = NEVER
    if value("inactive_topic_delete") and retention_min >= 0 and not value("deletion_protected"):
        topic_ms = max(int(value("inactive_topic_after_s")) * 1_000, retention_min * 60_000)
    return InactivityPolicies(
        topic_ms=topic_ms,
        caught_up=value("inactive_topic_mode") == CAUGHT_UP,
        subscription_ms=expiration_min * 60_000 or NEVER,
    )


def inactive_after_ms(value: Callable[[str], Any]) -> int:
    """How long a non-persistent topic that nobody uses is kept by the policies; `NEVER`: they do not say."""
    deleted = value("inactive_topic_delete") and not value("deletion_protected")
    return int(value("inactive_topic_after_s")) * 1_000 if deleted else NEVER


def non_persistent_kept_ms(value: Callable[[str], Any]) -> int:
    """How long it is kept in memory, which is all there is of it unless it is a partition."""
    after_ms = inactive_after_ms(value)
    return NON_PERSISTENT_MS if after_ms == NEVER else after_ms


class IdleTimes:
    """Since when a loaded topic and its durable subscriptions were not used; it means nothing of those that are in use."""

    __slots__ = ("_known_since_ms", "_subscriptions", "topic_ms")

    def __init__(self, stored: Mapping[str, int], known_since_ms: int) -> None:
        """`stored`: by `to_store`, when the topic was unloaded; before `known_since_ms`, what is not stored was not used."""
        self._known_since_ms = known_since_ms
        self.topic_ms = stored.get(TOPIC, known_since_ms)
        self._subscriptions: dict[str, int] | None = {name: at_ms for name, at_ms in stored.items() if name != TOPIC} or None

    def restored(self, subscription: str, created_ms: int) -> None:
        """A stored subscription; it may have been created while the topic was not loaded."""
        if created_ms > self.subscription_ms(subscription):
            self._set(subscription, created_ms)

    def left(self, subscription: str, now_ms: int) -> None:
        """The last consumer of a subscription left, or the subscription was created."""
        self.topic_ms = now_ms
        self._set(subscription, now_ms)

    def forget(self, subscription: str, now_ms: int) -> None:
        """A subscription was deleted."""
        self.topic_ms = now_ms
        if self._subscriptions is not None:
            self._subscriptions.pop(subscription, None)

    def subscription_ms(self, subscription: str) -> int:
        return self._subscriptions.get(subscription, self._known_since_ms) if self._subscriptions else self._known_since_ms

    def to_store(self, subscriptions: Iterable[str]) -> dict[str, int]:
        return {TOPIC: self.topic_ms} | {name: self.subscription_ms(name) for name in subscriptions}

    def _set(self, subscription: str, at_ms: int) -> None:
        if self._subscriptions is None:
            self._subscriptions = {}
        self._subscriptions[subscription] = at_ms
