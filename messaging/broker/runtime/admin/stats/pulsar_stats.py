"""The rest of Pulsar's fields in the stats of a topic: derived from ours, or Pulsar's value for what there is not here.

Pure. Nothing is offloaded, filtered by plug-ins or part of a transaction here, so those fields have the value that they have in
Pulsar where nothing happened.
"""

from __future__ import annotations

from typing import Any

from messaging.times import time_text

Stats = dict[str, Any]

_TOPIC: Stats = {
    "abortedTxnCount": 0,
    "committedTxnCount": 0,
    "ongoingTxnCount": 0,
    "bytesOutInternalCounter": 0,
    "systemTopicBytesInCounter": 0,
    "lastOffloadFailureTimeStamp": 0,
    "lastOffloadLedgerId": 0,
    "lastOffloadSuccessTimeStamp": 0,
    "delayedMessageIndexSizeInBytes": 0,  # one index for all topics: its memory is in the metrics
    "compaction": {
        "lastCompactionDurationTimeInMills": 0,
        "lastCompactionFailedTimestamp": 0,
        "lastCompactionRemovedEventCount": 0,
        "lastCompactionSucceedTimestamp": 0,
    },
}
_SUBSCRIPTION: Stats = {
    "consumersAfterMarkDeletePosition": {},
    "delayedMessageIndexSizeInBytes": 0,
    "drainingHashesClearedTotal": 0,
    "drainingHashesCount": 0,
    "drainingHashesUnackedMessages": 0,
    "filterAcceptedMsgCount": 0,
    "filterProcessedMsgCount": 0,
    "filterRejectedMsgCount": 0,
    "filterRescheduledMsgCount": 0,
}
_CONSUMER: Stats = {"drainingHashesClearedTotal": 0, "drainingHashesCount": 0, "drainingHashesUnackedMessages": 0}
_LATEST = ("lastAckedTimestamp", "lastConsumedTimestamp")  # of the consumers that there are now
RANGE_BYTES = 8  # what a range of acknowledged entries takes in a stored cursor, about


def completed(stats: Stats, quota_bytes: int, quota_age_s: int) -> Stats:
    """`stats` as `stats.topic_stats` makes them, whose publishers and subscriptions are complete. The quotas are those in force;
    -1: unlimited."""
    ranges = stats["nonContiguousDeletedMessagesRanges"]
    return {
        **_TOPIC,
        **stats,
        "backlogQuotaLimitSize": quota_bytes,
        "backlogQuotaLimitTime": quota_age_s,
        "nonContiguousDeletedMessagesRangesSerializedSize": ranges * RANGE_BYTES,
    }


def completed_publisher(stats: Stats) -> Stats:
    return {"supportsPartialProducer": False, **stats}


def completed_subscription(stats: Stats) -> Stats:
    consumers = stats["consumers"]
    active = consumers[0]["consumerName"] if stats["type"] == "Exclusive" and consumers else stats["activeConsumerName"]
    return {
        **_SUBSCRIPTION,
        **stats,
        "type": stats["type"] or "None",
        "nonContiguousDeletedMessagesRangesSerializedSize": stats["nonContiguousDeletedMessagesRanges"] * RANGE_BYTES,
        **{key: max((consumer[key] for consumer in consumers), default=0) for key in _LATEST},
        "activeConsumerName": active,
    }


def completed_consumer(stats: Stats) -> Stats:
    return {
        **_CONSUMER,
        **stats,
        "lastConsumedTime": time_text(stats["lastConsumedTimestamp"]),
        "lastAckedTime": time_text(stats["lastAckedTimestamp"]),
    }
