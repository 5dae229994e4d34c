"""Encodes what is set on a topic as one event. A policy that Pulsar's topics do not have is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from messaging.broker.core.change_events.avro_schema import EVENT
from messaging.broker.core.change_events.avro_writer import encoded
from messaging.policies.pulsar import backlog_quotas
from messaging.policies.pulsar_topics import SUBSCRIPTION_DISPATCH_RATE, TOPIC_PATHS
from messaging.policies.validation import JsonPolicies
from messaging.protocol.names import TopicName

Value = Any  # of JSON

# Pulsar's path below a topic -> the field of an event, where the two differ.
_FIELDS = {
    "autoSubscriptionCreation": "autoSubscriptionCreationOverride",
    "deduplicationSnapshotInterval": "deduplicationSnapshotIntervalSeconds",
    "maxConsumers": "maxConsumerPerTopic",
    "maxProducers": "maxProducerPerTopic",
    "messageTTL": "messageTTLInSeconds",
    "retention": "retentionPolicies",
}
_DELAYED_FIELDS = {
    "active": "delayedDeliveryEnabled",
    "tickTime": "delayedDeliveryTickTimeMillis",
    "maxDeliveryDelayInMillis": "delayedDeliveryMaxDelayInMillis",
}


def encoded_event(topic: TopicName, policies: JsonPolicies, subscriptions: Mapping[str, JsonPolicies], cluster: str) -> bytes:
    """The event that says what is set on the topic, and on its subscriptions, from now on. `cluster`: the only one that it is for,
    as nothing here is replicated."""
    event = {
        "actionType": "UPDATE",
        "eventType": "TOPIC_POLICY",
        "replicateTo": [cluster],
        "topicPoliciesEvent": {
            "domain": topic.domain,
            "tenant": topic.tenant,
            "namespace": topic.namespace_local,
            "topic": topic.local,
            "policies": pulsar_policies(policies, subscriptions),
        },
    }
    return encoded(EVENT, event)


def pulsar_policies(policies: JsonPolicies, subscriptions: Mapping[str, JsonPolicies]) -> dict[str, Value]:
    """By the fields of an event; only what is set, but for what Pulsar never leaves null."""
    fields: dict[str, Value] = {"isGlobal": False, "backLogQuotaMap": backlog_quotas(policies), "subscriptionTypesEnabled": []}
    for path, row in TOPIC_PATHS.items():
        if not any(policy.name in policies for policy in row.policies):
            continue
        value = row.read(policies)
        if path == "delayedDelivery":
            fields |= {_DELAYED_FIELDS[field]: part for field, part in value.items()}
        else:
            fields[_FIELDS.get(path, path)] = value
    rates = {name: SUBSCRIPTION_DISPATCH_RATE.read(levels) for name, levels in subscriptions.items()}
    fields["subscriptionPolicies"] = {name: {"dispatchRate": rate} for name, rate in rates.items() if rate is not None}
    return fields
