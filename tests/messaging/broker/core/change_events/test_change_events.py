"""Events of topic policies, compared with what Pulsar 4.0.8 wrote into `__change_events` for each request (change_events.json)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from messaging.broker.core.change_events.avro_schema import EVENT, SCHEMA
from messaging.broker.core.change_events.avro_writer import encoded as written_by_us
from messaging.broker.core.change_events.record import encoded_event
from messaging.policies.pulsar_topics import SUBSCRIPTION_DISPATCH_RATE, TOPIC_PATHS
from messaging.protocol.names import parse_topic
from tests.support.policy_examples import EXAMPLES, OF_TOPICS

RECORDED = json.loads((Path(__file__).parent / "change_events.json").read_text())
CLUSTER: str = RECORDED["cluster"]
_QUOTAS = {
    "destination_storage": ("backlog_quota_bytes", "limitSize", "backlog_quota_bytes_policy"),
    "message_age": ("backlog_quota_age_s", "limitTime", "backlog_quota_age_policy"),
}


class Held:
    """What is set on a topic and on its subscriptions."""

    def __init__(self) -> None:
        self.policies: dict[str, Any] = {}
        self.subscriptions: dict[str, dict[str, Any]] = {}

    def take(self, method: str, path: str, value: Any) -> None:
        of, _, kind = path.partition("?backlogQuotaType=")
        if of == "backlogQuota":
            name, field, action = _QUOTAS[kind]
            self.policies |= {name: value[field], action: value["policy"]}
        elif "/" in path:
            self.subscriptions[path.partition("/")[0]] = SUBSCRIPTION_DISPATCH_RATE.changes(value)
        else:
            row = TOPIC_PATHS[path]
            changes = dict.fromkeys(policy.name for policy in row.policies) if method == "DELETE" else row.changes(value)
            merged = {**self.policies, **changes}
            self.policies = {name: value for name, value in merged.items() if value is not None}


def read(encoded: bytes) -> dict[str, Any]:
    event = schemaless_reader(io.BytesIO(encoded), parse_schema(EVENT), None)
    assert isinstance(event, dict)
    return event


def without_replication(encoded: bytes) -> bytes:
    """Policies of replication are refused here, so they are null."""
    event = read(encoded)
    event["topicPoliciesEvent"]["policies"]["replicatorDispatchRate"] = None
    written = io.BytesIO()
    schemaless_writer(written, parse_schema(EVENT), event)
    return written.getvalue()


def test_the_schema_is_what_pulsar_registers() -> None:
    assert SCHEMA.data.decode() == RECORDED["schema"]
    assert SCHEMA.properties == RECORDED["schema_properties"]


def test_each_change_is_encoded_as_pulsar_encodes_it() -> None:
    topics: dict[str, Held] = {}
    compared = 0
    for method, topic, path, value, encoded in RECORDED["events"]:
        kept = topics.setdefault(topic, Held())
        if not encoded:  # all policies are removed, or the topic is deleted: a message of the key without a value
            topics[topic] = Held()
            continue
        kept.take(method, path, value)
        name = parse_topic(f"{RECORDED['namespace']}/{topic}")
        ours = encoded_event(name, kept.policies, kept.subscriptions, CLUSTER)
        assert ours == without_replication(bytes.fromhex(encoded)), (method, topic, path, read(ours))
        compared += 1
    assert compared == 34


@pytest.mark.parametrize("path", [path for path, row in TOPIC_PATHS.items() if row.policies and row.policies[0].enforced])
def test_every_policy_of_a_topic_has_its_field(path: str) -> None:
    row, examples = TOPIC_PATHS[path], {**EXAMPLES, **OF_TOPICS}
    changes = {name: value for name, value in row.changes(examples[row.of or path][0]).items() if value is not None}
    event = read(encoded_event(parse_topic("non-persistent://t/n/x"), changes, {}, CLUSTER))["topicPoliciesEvent"]
    assert (event["domain"], event["tenant"], event["namespace"], event["topic"]) == ("non-persistent", "t", "n", "x")
    unset = read(encoded_event(parse_topic("non-persistent://t/n/x"), {}, {}, CLUSTER))["topicPoliciesEvent"]["policies"]
    assert event["policies"] != unset


def test_values_that_pulsar_cannot_hold_are_written_as_near_as_possible() -> None:
    policies: dict[str, Any] = {"max_producers_per_topic": 2**40, "retention_time_min": 5}  # the size alone is not set
    policies["schema_compatibility"] = "OF_A_LATER_RELEASE"
    event = read(encoded_event(parse_topic("t/n/x"), policies, {"s": {"max_unacked_per_consumer": 1}}, CLUSTER))
    fields = event["topicPoliciesEvent"]["policies"]
    assert fields["maxProducerPerTopic"] == 2**31 - 1
    assert fields["retentionPolicies"]["retentionTimeInMinutes"] == 5
    assert fields["schemaCompatibilityStrategy"] is None and fields["subscriptionPolicies"] == {}


@pytest.mark.parametrize("number", [0, -1, 1, 63, 64, -64, -65, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)])
def test_numbers_are_read_as_they_were_written(number: int) -> None:
    assert schemaless_reader(io.BytesIO(written_by_us("long", number)), parse_schema("long"), None) == number


def test_texts_of_any_length_are_read_as_they_were_written() -> None:
    kind = {"type": "map", "values": "string"}
    value = {"": "", "é": "x" * 70, "k" * 200: "ü" * 10_000}
    assert schemaless_reader(io.BytesIO(written_by_us(kind, value)), parse_schema(kind), None) == value


def test_a_named_type_is_known_after_a_field_that_is_null() -> None:
    """The rate of the topic, in which the type is written out, is not set, and that of its subscriptions is."""
    policies = {"subscription_dispatch_rate_messages": 5, "subscription_dispatch_rate_bytes": 6}
    fields = read(encoded_event(parse_topic("t/n/x"), policies, {}, CLUSTER))["topicPoliciesEvent"]["policies"]
    assert fields["dispatchRate"] is None and fields["subscriptionDispatchRate"]["dispatchThrottlingRateInByte"] == 6
