"""Encodes what is set on a topic as one event. A policy that Pulsar's topics do not have is left out."""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import cache
from typing import Any

from fastavro import parse_schema, schemaless_writer

from messaging.broker.core.change_events.avro_schema import EVENT
from messaging.policies.pulsar import backlog_quotas
from messaging.policies.pulsar_topics import SUBSCRIPTION_DISPATCH_RATE, TOPIC_PATHS
from messaging.policies.validation import JsonPolicies
from messaging.protocol.names import TopicName

Value = Any  # of JSON
_RANGES = {"int": 2**31, "long": 2**63}

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
    written = io.BytesIO()
    schemaless_writer(written, _parsed(), _fitted(EVENT, event))
    return written.getvalue()


def pulsar_policies(policies: JsonPolicies, subscriptions: Mapping[str, JsonPolicies]) -> dict[str, Value]:
    """By the fields of an event; only what is set, but for what Pulsar never leaves null."""
    found: dict[str, Value] = {"isGlobal": False, "backLogQuotaMap": backlog_quotas(policies), "subscriptionTypesEnabled": []}
    for path, row in TOPIC_PATHS.items():
        if not any(policy.name in policies for policy in row.policies):
            continue
        value = row.read(policies)
        if path == "delayedDelivery":
            found |= {_DELAYED_FIELDS[field]: one for field, one in value.items()}
        else:
            found[_FIELDS.get(path, path)] = value
    rates = {name: SUBSCRIPTION_DISPATCH_RATE.read(held) for name, held in subscriptions.items()}
    found["subscriptionPolicies"] = {name: {"dispatchRate": rate} for name, rate in rates.items() if rate is not None}
    return found


@cache
def _parsed() -> Any:
    return parse_schema(EVENT)


@cache
def _named() -> dict[str, Any]:
    """The types that are referred to by their full names."""
    policies = next(field for field in EVENT["fields"] if field["name"] == "topicPoliciesEvent")["type"][1]["fields"]
    held = next(field for field in policies if field["name"] == "policies")["type"][1]["fields"]
    rate = next(field for field in held if field["name"] == "dispatchRate")["type"][1]
    return {f"{rate['namespace']}.{rate['name']}": rate}


def _fitted(kind: Any, value: Value) -> Value:
    """`value` as a value of the Avro type `kind`, so that writing it cannot fail: what is too large becomes the largest, and a
    number that a type requires and that is not set is -1, which Pulsar takes for "no limit"."""
    if isinstance(kind, list):
        return None if value is None else _fitted(kind[1], value)
    if isinstance(kind, str):
        return _plain(kind, value) if kind not in _named() else _fitted(_named()[kind], value)
    match kind["type"]:
        case "record":
            return {field["name"]: _fitted(field["type"], value.get(field["name"])) for field in kind["fields"]}
        case "map":
            return {str(key): _fitted(kind["values"], one) for key, one in value.items()}
        case "array":
            items = kind["items"]
            known = [one for one in items["symbols"] if one in value] if isinstance(items, dict) else value
            return [_fitted(items, one) for one in known]
    return value  # an enum


def _plain(kind: str, value: Value) -> Value:
    if kind == "double":
        return float(-1 if value is None else value)
    if kind in _RANGES:
        end = _RANGES[kind]
        return max(-end, min(int(-1 if value is None else value), end - 1))
    return bool(value) if kind == "boolean" else str(value)
