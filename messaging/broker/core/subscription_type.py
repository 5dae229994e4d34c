"""Subscription types with Pulsar's numbers and names."""

from __future__ import annotations

from enum import IntEnum


class SubscriptionType(IntEnum):
    """By their numbers on the wire."""

    EXCLUSIVE = 0
    SHARED = 1
    FAILOVER = 2
    KEY_SHARED = 3


DELAYING = frozenset({SubscriptionType.SHARED, SubscriptionType.KEY_SHARED})  # the others deliver delayed messages at once

TYPE_NAMES = {
    SubscriptionType.EXCLUSIVE: "Exclusive",
    SubscriptionType.SHARED: "Shared",
    SubscriptionType.FAILOVER: "Failover",
    SubscriptionType.KEY_SHARED: "Key_Shared",
}
