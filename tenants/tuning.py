"""What is published to a topic now, for the advice to its producers."""

from __future__ import annotations

from typing import Any

from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.methods import (
    TOPICS_INTERNAL_STATS,
    TOPICS_PARTITIONED_INTERNAL_STATS,
    TOPICS_PARTITIONED_STATS,
    TOPICS_STATS,
)
from messaging.adminrpc.topics import StatsAsked, TopicRef
from messaging.errors import PreconditionFailed
from messaging.protocol.names import TopicName


def measured(rpc: TypedCalls, topic: TopicName, partitions: int) -> Any:
    """A `TopicTraffic` of `messaging.client.savings`. `partitions` 0: it has none. How messages are batched is what has been since
    the broker loaded the topic. Blocks. Raises `PreconditionFailed` where nothing is published, and the errors of the broker."""
    from messaging.client.savings import TopicTraffic  # the SDK is loaded only where it is asked for

    if not topic.persistent:
        raise PreconditionFailed(f"{topic} is not persistent: how its producers batch is not known; give their traffic instead")
    asked = StatsAsked(topic=str(topic))
    stats = rpc.call(TOPICS_PARTITIONED_STATS if partitions else TOPICS_STATS, asked).stats
    rate, bytes_per_s = float(stats["msgRateIn"]), float(stats["msgThroughputIn"])
    if not (rate > 0 and bytes_per_s > 0):
        raise PreconditionFailed(
            f"nothing is published to {topic} now: ask again while its producers are at work, or give their traffic instead"
        )
    entries = _entries(rpc, asked, partitions)
    return TopicTraffic(
        rate,
        bytes_per_s / rate,
        max(1.0, stats["msgInCounter"] / entries) if entries else None,
        max(1, partitions),
        max(1, len(stats["publishers"])),
    )


def _entries(rpc: TypedCalls, asked: TopicRef, partitions: int) -> int:
    """That were added since the broker loaded the topic."""
    if not partitions:
        return int(rpc.call(TOPICS_INTERNAL_STATS, asked).stats["entriesAddedCounter"])
    parts: dict[str, Any] = rpc.call(TOPICS_PARTITIONED_INTERNAL_STATS, asked).stats["partitions"]
    return sum(int(part["entriesAddedCounter"]) for part in parts.values())
