"""Changes of topic policies in the topic `__change_events` of their namespace: each once, in order, whatever fails between."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.conf import settings as django_settings
from fastavro import parse_schema, schemaless_reader

from messaging.adminrpc.methods import POLICIES_APPEND_EVENTS, SCHEMAS_GET
from messaging.adminrpc.schemas import SchemaGet
from messaging.broker.runtime.change_events import PRODUCER_NAME
from messaging.errors import NotReady
from messaging.protocol.frames import as_text
from tenants import actions, policy_events
from tenants.models import FeedHead, PolicyEvent
from tests.support.change_events import stored_events
from tests.tenants.topic_policies import NAME, TOPIC, put
from tests.tenants.world import Caller, World, status
from workers.environment import Environment
from workers.tasks.policy_events import write_policy_events

pytestmark = pytest.mark.django_db

EVENTS = "persistent://acme/orders/__change_events"
AT = "/admin/v2/persistent/acme/orders"


@pytest.fixture
def call(world: World) -> Caller:
    world.broker.add(TOPIC, "s")
    return Caller(world.superuser_token)


def write(world: World) -> dict[str, Any]:
    with world.broker.called_by("worker"):
        return write_policy_events(Environment(django_settings.MAGNETAR, world.line), "run-1", lambda: None)


def events(world: World) -> list[tuple[str, dict[str, Any] | None]]:
    """Of the topic of change events: the key, and what is set on the topic (None: a message without a value)."""
    schema = parse_schema(json.loads(world.broker.call(SCHEMAS_GET, SchemaGet(topic=EVENTS)).versions[-1].data))
    found: list[tuple[str, dict[str, Any] | None]] = []
    for metadata, payload in stored_events(world.broker, EVENTS):
        assert as_text(metadata.producer_name) == PRODUCER_NAME and metadata.schema_version == bytes(8)
        value = None
        if not metadata.null_value:
            event = schemaless_reader(io.BytesIO(payload), schema, None)
            assert isinstance(event, dict)
            policies = event["topicPoliciesEvent"]["policies"]
            value = {name: one for name, one in policies.items() if one not in (None, [], {}, False)}
        else:
            assert payload == b""
        found.append((as_text(metadata.partition_key), value))
    return found


def test_each_change_is_one_event_in_order(call: Caller, world: World) -> None:
    """As Pulsar, see tests/messaging/broker/core/change_events/change_events.json, but for changes that change nothing."""
    other = "persistent://acme/orders/other"
    world.broker.add(other)
    for path, value in (("maxProducers", 3), ("maxProducers", 3), ("messageTTL", 60)):
        assert status(put(call, path, value)) == 204
    assert status(call("POST", f"{AT}/other/maxConsumers", 5)) == 204
    assert status(put(call, "s/dispatchRate", {"dispatchThrottlingRateInMsg": 7, "dispatchThrottlingRateInByte": 8})) == 204
    assert EVENTS not in world.broker.topics, "only a worker makes it"
    assert write(world) == {"written": 4, "failures": 0, "failed": {}}
    assert not PolicyEvent.unscoped.exists()
    first, second, third, last = events(world)
    assert first == (TOPIC, {"maxProducerPerTopic": 3})
    assert second == (TOPIC, {"maxProducerPerTopic": 3, "messageTTLInSeconds": 60})
    assert third == (other, {"maxConsumerPerTopic": 5})
    assert last[1] is not None and last[1]["subscriptionPolicies"]["s"]["dispatchRate"]["dispatchThrottlingRateInMsg"] == 7
    assert write(world)["written"] == 0 and len(events(world)) == 4


def test_nothing_set_any_more_is_a_message_without_a_value(call: Caller, world: World) -> None:
    removals = [
        lambda: call("DELETE", f"{AT}/t/maxProducers"),  # the only one
        lambda: call("DELETE", f"{AT}/t/policies"),
        lambda: call("DELETE", f"{AT}/t?force=true"),
    ]
    for remove in removals:
        put(call, "maxProducers", 3)
        assert status(remove()) == 204
    assert write(world)["written"] == 6
    assert events(world) == [(TOPIC, {"maxProducerPerTopic": 3}), (TOPIC, None)] * 3
    assert actions.forget_topic_policies(NAME) is False
    assert write(world)["written"] == 0


def test_an_answer_that_is_lost_repeats_nothing(call: Caller, world: World) -> None:
    """The broker appends, and the worker never hears of it, over a restart of the broker too."""
    put(call, "maxProducers", 1)

    def lost(request: Any) -> Any:
        world.broker.call(POLICIES_APPEND_EVENTS, request)
        raise NotReady("the answer was lost")

    for number in (2, 3):
        world.line.divert(POLICIES_APPEND_EVENTS, lost)
        with pytest.raises(NotReady):
            write(world)
        world.line.mend()
        put(call, "maxProducers", number)
    assert PolicyEvent.unscoped.count() == 3
    world.broker.restart()
    assert write(world)["failures"] == 0
    assert [policies for _, policies in events(world)] == [{"maxProducerPerTopic": number} for number in (1, 2, 3)]


def test_a_worker_that_dies_before_it_asks_loses_nothing(call: Caller, world: World) -> None:
    put(call, "maxProducers", 1)
    world.line.cut()
    with pytest.raises(NotReady):
        write(world)
    world.line.mend()
    assert write(world)["written"] == 1 and len(events(world)) == 1


def test_a_log_that_takes_nothing_delays_no_change_of_a_policy(call: Caller, world: World) -> None:
    put(call, "maxProducers", 1)
    write(world)
    world.broker.ledgers.fail_appends()
    for number in (2, 3):
        assert status(put(call, "maxProducers", number)) == 204
        found = write(world)
        assert found["written"] == 0 and list(found["failed"]) == ["acme/orders"]
    world.broker.ledgers.heal()
    assert write(world)["failures"] == 0
    assert [policies for _, policies in events(world)] == [{"maxProducerPerTopic": number} for number in (1, 2, 3)]


def test_one_namespace_that_refuses_does_not_hold_up_another(call: Caller, world: World) -> None:
    put(call, "maxProducers", 1)
    write(world)
    assert status(call("POST", f"{AT}/__change_events/terminate")) == 200
    world.broker.add("persistent://other/things/t")
    put(call, "maxProducers", 2)
    assert status(call("POST", "/admin/v2/persistent/other/things/t/maxProducers", 4)) == 204
    found = write(world)
    assert found["written"] == 1 and list(found["failed"]) == ["acme/orders"]
    assert status(call("DELETE", f"{AT}/__change_events?force=true")) == 204
    assert write(world)["written"] == 1


def test_a_tenant_whose_namespaces_refuse_does_not_hold_up_another(
    call: Caller, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many of them: an administrator of a tenant may terminate every such topic."""
    monkeypatch.setattr("workers.tasks.policy_events.NAMESPACES_FAILED_MAX", 2)
    for local in ("n1", "n2", "n3"):
        assert status(call("PUT", f"/admin/v2/namespaces/acme/{local}")) == 204
        world.broker.add(f"persistent://acme/{local}/t")
        world.broker.add(f"persistent://acme/{local}/__change_events")
        assert status(call("POST", f"/admin/v2/persistent/acme/{local}/__change_events/terminate")) == 200
        assert status(call("POST", f"/admin/v2/persistent/acme/{local}/t/maxProducers", 1)) == 204
    world.broker.add("persistent://other/things/t")
    assert status(call("POST", "/admin/v2/persistent/other/things/t/maxProducers", 4)) == 204
    found = write(world)
    assert (found["written"], list(found["failed"])) == (1, ["acme/n1", "acme/n2"])


def test_what_waits_is_bounded(call: Caller, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_events, "OWED_MAX", 3)
    monkeypatch.setattr(policy_events, "OWED_TOPICS_MAX", 5)
    for number in range(1, 7):
        put(call, "maxProducers", number)
    assert [row.state and row.state["policies"] for row in PolicyEvent.unscoped.all()] == [
        {"max_producers_per_topic": one} for one in (4, 5, 6)
    ]
    for number in range(5):
        world.broker.add(f"persistent://acme/orders/x{number}")
        call("POST", f"{AT}/x{number}/maxProducers", 1)
    assert list(PolicyEvent.unscoped.values_list("topic", flat=True)) == [f"persistent://acme/orders/x{one}" for one in range(5)]


def test_few_changes_travel_at_once(call: Caller, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_events, "CHANGES_AT_ONCE", 2)
    for number in range(1, 6):
        put(call, "maxProducers", number)
    write(world)
    assert [len(request.changes) for request in world.line.called(POLICIES_APPEND_EVENTS)] == [2, 2, 1]
    assert [policies for _, policies in events(world)] == [{"maxProducerPerTopic": number} for number in range(1, 6)]


def test_sequences_rise_after_a_backup_was_restored(call: Caller, world: World) -> None:
    put(call, "maxProducers", 1)
    write(world)
    FeedHead.objects.update(event_sequence=0)
    put(call, "maxProducers", 2)
    write(world)
    assert len(events(world)) == 2


def test_the_topic_is_hidden_and_goes_with_its_namespace(call: Caller, world: World) -> None:
    put(call, "maxProducers", 1)
    write(world)
    assert call("GET", AT).json() == [TOPIC]
    assert sorted(call("GET", f"{AT}?includeSystemTopic=true").json()) == [EVENTS, TOPIC]
    assert status(call("DELETE", f"{AT}/t?force=true")) == 204
    assert PolicyEvent.unscoped.exists()
    assert status(call("DELETE", "/admin/v2/namespaces/acme/orders")) == 204
    assert not PolicyEvent.unscoped.exists() and world.broker.topics == {}
    assert write(world) == {"written": 0, "failures": 0, "failed": {}}


def test_no_policy_of_the_namespace_keeps_events_out(call: Caller, world: World) -> None:
    limits = {
        "encryption_required": True,
        "max_producers_per_topic": 1,
        "max_topics_per_namespace": 1,
        "auto_topic_creation": False,
        "schema_compatibility": "ALWAYS_INCOMPATIBLE",
        "backlog_quota_bytes": 0,
    }
    actions.set_policies(world.actor("olga"), "acme/orders", limits)
    put(call, "maxProducers", 1)
    given = {"type": "STRING", "schema": "", "properties": {}}
    assert status(call("POST", "/admin/v2/schemas/acme/orders/__change_events/schema", given)) == 200
    assert write(world)["failed"] == {}
    [(metadata, _)] = stored_events(world.broker, EVENTS)
    assert metadata.schema_version == (1).to_bytes(8, "big")


def test_workers_are_told_of_the_first_change_that_waits(call: Caller, world: World, told_workers: list[str]) -> None:
    for number in (1, 2):
        put(call, "maxProducers", number)
    assert told_workers == ["policy_events"]
    write(world)
    put(call, "maxProducers", 2)  # as before
    assert told_workers == ["policy_events"]
    put(call, "maxProducers", 3)
    assert told_workers == ["policy_events"] * 2


def test_policies_of_the_topic_itself_are_fixed(call: Caller, world: World) -> None:
    assert status(call("PUT", f"{AT}/__change_events/partitions", 2)) == 405
    assert EVENTS not in world.broker.topics and world.broker.partitions(EVENTS) == 0
    put(call, "maxProducers", 1)
    write(world)
    answer = call("POST", f"{AT}/__change_events/maxProducers", 1)
    assert answer.status_code == 405 and "belongs to the platform" in answer.json()["reason"]
    assert not PolicyEvent.unscoped.exists()
