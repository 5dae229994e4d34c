"""The Avro schema of events, field by field as readers of Pulsar 4.0 know it: fields by name, and all that may be absent is null.

Readers compare schemas by their text, so the order of the keys of a type counts, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from messaging.broker.core.schemas.model import Schema, SchemaType

AvroType = str | list[Any] | dict[str, Any]

_COMMON = "org.apache.pulsar.common"
_EVENTS, _DATA, _IMPL = f"{_COMMON}.events", f"{_COMMON}.policies.data", f"{_COMMON}.policies.data.impl"
_STRATEGIES = ("UNDEFINED", "ALWAYS_INCOMPATIBLE", "ALWAYS_COMPATIBLE", "BACKWARD", "FORWARD", "FULL")
_TRANSITIVE = ("BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE")
_OFFLOADED_STRINGS = ("Bucket", "Region", "ServiceEndpoint")


def _record(name: str, fields: Mapping[str, str | Sequence[Any] | dict[str, Any]], namespace: str = "") -> dict[str, Any]:
    """Fields of the plain types are required; `_optional` makes the others."""
    listed = [
        {"name": field, "type": kind, "default": None} if isinstance(kind, list) else {"name": field, "type": kind}
        for field, kind in sorted(fields.items())
    ]
    return {"type": "record", "name": name, **({"namespace": namespace} if namespace else {}), "fields": listed}


def _enum(name: str, symbols: tuple[str, ...], namespace: str = "") -> dict[str, Any]:
    return {"type": "enum", "name": name, **({"namespace": namespace} if namespace else {}), "symbols": list(symbols)}


def _optional(kind: AvroType) -> list[Any]:
    return ["null", kind]


def _array(items: AvroType, holder: str) -> dict[str, Any]:
    return {"type": "array", "items": items, "java-class": f"java.util.{holder}"}


def _map(values: AvroType) -> dict[str, Any]:
    return {"type": "map", "values": values}


def _optional_fields(kind: str, *names: str) -> dict[str, AvroType]:
    return {name: _optional(kind) for name in names}


def _offload() -> dict[str, Any]:
    """Nothing here offloads, so it is always null."""
    stores = [f"{store}ManagedLedgerOffload{part}" for store in ("gcs", "s3") for part in ("Bucket", "Region")]
    fields = _optional_fields(
        "string",
        "fileSystemProfilePath",
        "fileSystemURI",
        "gcsManagedLedgerOffloadServiceAccountKeyFile",
        "managedLedgerOffloadDriver",
        "offloadersDirectory",
        *stores,
        *(f"managedLedgerOffload{part}" for part in _OFFLOADED_STRINGS),
        *(f"s3ManagedLedgerOffload{part}" for part in ("CredentialId", "CredentialSecret", "Role", "RoleSessionName")),
        "s3ManagedLedgerOffloadServiceEndpoint",
    )
    fields |= _optional_fields(
        "int",
        *(f"{store}Offload{part}InBytes" for store in _LEDGERS for part in ("MaxBlockSize", "ReadBufferSize")),
        *(f"managedLedgerOffload{part}" for part in ("MaxThreads", "PrefetchRounds", "ReadThreads")),
    )
    fields |= _optional_fields(
        "long", *(f"managedLedgerOffload{part}" for part in ("DeletionLagInMillis", "ThresholdInBytes", "ThresholdInSeconds"))
    )
    fields["managedLedgerExtraConfigurations"] = _optional(_map("string"))
    priorities = _enum("OffloadedReadPriority", ("BOOKKEEPER_FIRST", "TIERED_STORAGE_FIRST"))
    fields["managedLedgerOffloadedReadPriority"] = _optional(priorities)
    return _record("OffloadPoliciesImpl", fields)


_LEDGERS = ("gcsManagedLedger", "managedLedger", "s3ManagedLedger")


def _policies() -> dict[str, Any]:
    """A named type is written out where it is used first."""
    rate = f"{_IMPL}.DispatchRateImpl"
    first_rate = _record(
        "DispatchRateImpl",
        {
            "dispatchThrottlingRateInByte": "long",
            "dispatchThrottlingRateInMsg": "int",
            "ratePeriodInSecond": "int",
            "relativeToPublishRate": "boolean",
        },
        _IMPL,
    )
    actions = ("producer_request_hold", "producer_exception", "consumer_backlog_eviction")
    quota = _record(
        "BacklogQuotaImpl",
        {
            "limit": "long",
            "limitSize": _optional("long"),
            "limitTime": "int",
            "policy": _optional(_enum("RetentionPolicy", actions, f"{_DATA}.BacklogQuota")),
        },
        _IMPL,
    )
    modes = ("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up")
    inactive = {
        "deleteWhileInactive": "boolean",
        "inactiveTopicDeleteMode": _optional(_enum("InactiveTopicDeleteMode", modes)),
        "maxInactiveDurationSeconds": "int",
    }
    quorums = {f"bookkeeper{of}": "int" for of in ("AckQuorum", "Ensemble", "WriteQuorum")}
    persistence = {
        **quorums,
        "managedLedgerMaxMarkDeleteRate": "double",
        "managedLedgerStorageClassName": _optional("string"),
    }
    types = _enum("SubType", ("Exclusive", "Shared", "Failover", "Key_Shared"), f"{_COMMON}.api.proto.CommandSubscribe")
    of_subscription = _record("SubscriptionPolicies", {"dispatchRate": _optional(rate)})
    fields: dict[str, AvroType] = {
        **_optional_fields(
            "int",
            "deduplicationSnapshotIntervalSeconds",
            "maxConsumerPerTopic",
            "maxConsumersPerSubscription",
            "maxMessageSize",
            "maxProducerPerTopic",
            "maxSubscriptionsPerTopic",
            "maxUnackedMessagesOnConsumer",
            "maxUnackedMessagesOnSubscription",
            "messageTTLInSeconds",
        ),
        **_optional_fields("long", "compactionThreshold", "delayedDeliveryMaxDelayInMillis", "delayedDeliveryTickTimeMillis"),
        **_optional_fields(
            "boolean",
            "deduplicationEnabled",
            "delayedDeliveryEnabled",
            "dispatcherPauseOnAckStatePersistentEnabled",
            "isGlobal",
            "schemaValidationEnforced",
        ),
        "autoSubscriptionCreationOverride": _optional(
            _record("AutoSubscriptionCreationOverrideImpl", {"allowAutoSubscriptionCreation": "boolean"}, _IMPL)
        ),
        "backLogQuotaMap": _optional(_map(quota)),
        "dispatchRate": _optional(first_rate),
        "entryFilters": _optional(_record("EntryFilters", {"entryFilterNames": _optional("string")})),
        "inactiveTopicPolicies": _optional(_record("InactiveTopicPolicies", inactive)),
        "offloadPolicies": _optional(_offload()),
        "persistence": _optional(_record("PersistencePolicies", persistence)),
        "publishRate": _optional(
            _record("PublishRate", {"publishThrottlingRateInByte": "long", "publishThrottlingRateInMsg": "int"})
        ),
        "replicationClusters": _optional(_array("string", "List")),
        "replicatorDispatchRate": _optional(rate),
        "retentionPolicies": _optional(
            _record("RetentionPolicies", {"retentionSizeInMB": "long", "retentionTimeInMinutes": "int"})
        ),
        "schemaCompatibilityStrategy": _optional(_enum("SchemaCompatibilityStrategy", _STRATEGIES + _TRANSITIVE)),
        "shadowTopics": _optional(_array("string", "List")),
        "subscribeRate": _optional(
            _record("SubscribeRate", {"ratePeriodInSecond": "int", "subscribeThrottlingRatePerConsumer": "int"})
        ),
        "subscriptionDispatchRate": _optional(rate),
        "subscriptionPolicies": _optional(_map(of_subscription)),
        "subscriptionTypesEnabled": _optional(_array(types, "List")),
    }
    return _record("TopicPolicies", fields, _DATA)


def _event() -> dict[str, Any]:
    about = {
        **_optional_fields("string", "domain", "namespace", "tenant", "topic"),
        "policies": _optional(_policies()),
    }
    snapshots = tuple(f"TRANSACTION_BUFFER_SNAPSHOT{of}" for of in ("", "_SEGMENTS", "_INDEXES"))
    fields: dict[str, AvroType] = {
        "actionType": _optional(_enum("ActionType", ("INSERT", "DELETE", "UPDATE", "NONE"))),
        "eventType": _optional(_enum("EventType", ("TOPIC_POLICY", *snapshots))),
        "replicateTo": _optional(_array("string", "HashSet")),
        "topicPoliciesEvent": _optional(_record("TopicPoliciesEvent", about)),
    }
    return _record("PulsarEvent", fields, _EVENTS)


EVENT: dict[str, Any] = _event()
SCHEMA = Schema(
    SchemaType.AVRO,
    json.dumps(EVENT, separators=(",", ":")).encode(),
    {"__alwaysAllowNull": "true", "__jsr310ConversionEnabled": "false"},
    "",
)
