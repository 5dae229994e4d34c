"""A value of each of Pulsar's paths of policies, as its tools send and read it."""

from __future__ import annotations

from typing import Any

from messaging.policies.pulsar import PATHS

LIMITS = {path: 7 for path in PATHS if path.startswith("max")}
# path -> (a value that says something, what GET answers when nothing is set; None: 204)
EXAMPLES: dict[str, tuple[Any, Any]] = {
    "retention": ({"retentionTimeInMinutes": 10, "retentionSizeInMB": -1}, None),
    "messageTTL": (3600, None),
    "deduplication": (True, None),
    "deduplicationSnapshotInterval": (100, None),
    "autoTopicCreation": (
        {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3},
        None,
    ),
    "autoSubscriptionCreation": ({"allowAutoSubscriptionCreation": False}, None),
    "subscriptionExpirationTime": (5, None),
    "delayedDelivery": ({"active": True, "tickTime": 500, "maxDeliveryDelayInMillis": 0}, None),
    "inactiveTopicPolicies": (
        {
            "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
            "maxInactiveDurationSeconds": 30,
            "deleteWhileInactive": False,
        },
        None,
    ),
    "persistence": (
        {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 1, "bookkeeperAckQuorum": 1, "managedLedgerMaxMarkDeleteRate": 0.5},
        None,
    ),
    "publishRate": ({"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": -1}, None),
    **{
        path: (
            {
                "dispatchThrottlingRateInMsg": 1,
                "dispatchThrottlingRateInByte": 2,
                "relativeToPublishRate": False,
                "ratePeriodInSecond": 3,
            },
            None,
        )
        for path in ("dispatchRate", "subscriptionDispatchRate", "replicatorDispatchRate")
    },
    "subscribeRate": ({"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": 30}, None),
    **{path: (value, None) for path, value in LIMITS.items()},
    "maxTopicsPerNamespace": (LIMITS["maxTopicsPerNamespace"], 0),
    "compactionThreshold": (1 << 40, None),
    "schemaCompatibilityStrategy": ("FORWARD", "UNDEFINED"),
    "isAllowAutoUpdateSchema": (False, True),
    "schemaValidationEnforced": (True, False),
    "encryptionRequired": (True, False),
    "subscriptionAuthMode": ("Prefix", "None"),
    "subscriptionTypesEnabled": (["Exclusive", "Shared"], []),
    "properties": ({"a": "b"}, {}),
}
OF_TOPICS: dict[str, tuple[Any, Any]] = {  # those that only topics have
    "maxMessageSize": (1024, None),
}
