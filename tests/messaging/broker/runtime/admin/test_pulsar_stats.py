"""Fields of Pulsar's stats that are derived from others."""

from __future__ import annotations

from typing import Any

from messaging.broker.runtime.admin.stats.pulsar_stats import (
    RANGE_BYTES,
    completed,
    completed_consumer,
    completed_publisher,
    completed_subscription,
)


def consumer(name: str, acked_ms: int, flow_ms: int) -> dict[str, Any]:
    times = {"lastAckedTimestamp": acked_ms, "lastConsumedTimestamp": 5_000 + acked_ms, "lastConsumedFlowTimestamp": flow_ms}
    return completed_consumer({"consumerName": name, **times})


def subscription(kind: str, *consumers: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": kind,
        "nonContiguousDeletedMessagesRanges": 2,
        "activeConsumerName": None,
        "consumers": list(consumers),
    }


def stats() -> dict[str, Any]:
    return {"nonContiguousDeletedMessagesRanges": 2}


def test_quotas_in_force_and_ranges() -> None:
    found = completed(stats(), 1000, -1)
    assert (found["backlogQuotaLimitSize"], found["backlogQuotaLimitTime"]) == (1000, -1)
    assert found["nonContiguousDeletedMessagesRangesSerializedSize"] == 2 * RANGE_BYTES
    assert completed_publisher({"producerName": "p"}) == {"producerName": "p", "supportsPartialProducer": False}


def test_a_subscription_without_a_type_has_the_type_none() -> None:
    assert completed_subscription(subscription(""))["type"] == "None"


def test_times_of_a_subscription_are_the_latest_of_its_consumers() -> None:
    found = completed_subscription(subscription("Shared", consumer("a", 1, 9), consumer("b", 3, 2)))
    assert (found["lastAckedTimestamp"], found["activeConsumerName"]) == (3, None)
    assert found["lastConsumedTimestamp"] == 5_003
    assert [one["lastConsumedTime"][:20] for one in found["consumers"]] == ["1970-01-01T00:00:05."] * 2


def test_a_subscription_without_consumers_tells_no_times_of_consumers() -> None:
    found = completed_subscription(subscription("Shared"))
    assert (found["lastAckedTimestamp"], found["lastConsumedTimestamp"]) == (0, 0)


def test_an_only_consumer_of_an_exclusive_subscription_is_the_active_one() -> None:
    found = completed_subscription(subscription("Exclusive", consumer("a", 1, 9)))
    assert found["activeConsumerName"] == "a"


def test_what_a_topic_counts_itself_stays() -> None:
    assert completed({**stats(), "compaction": {"lastCompactionSucceedTimestamp": 7}}, -1, -1)["compaction"] == {
        "lastCompactionSucceedTimestamp": 7
    }
