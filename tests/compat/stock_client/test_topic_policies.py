"""Each policy of a topic, set as `pulsar-admin topicPolicies` does, as the stock Python client meets it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pulsar
import pytest
from pulsar.schema import Integer, JsonSchema, Record, String

from messaging.policies.pulsar_topics import TOPIC_PATHS
from tests.compat.stock import Stock, nothing_more, receive
from tests.compat.stock_client.topic_case import Case
from tests.support.brokers.standalone import Standalone
from tests.support.waiting import eventually_sync

pytestmark = [pytest.mark.xdist_group("standalone"), pytest.mark.standalone]

SHARED = pulsar.ConsumerType.Shared
# Policies of which a client sees nothing as long as the broker runs, and where their effect is tested.
UNSEEN = {
    "deduplicationSnapshotInterval": "messaging/broker/runtime/policies/test_policies_storage.py",
    "persistence": "messaging/broker/runtime/policies/test_policies_storage.py",
    "replicatorDispatchRate": "refused: nothing is replicated",
}


class Small(Record):  # type: ignore[misc]
    a = String()


class Other(Record):  # type: ignore[misc]
    b = Integer(required=True)


def max_producers(case: Case) -> None:
    case.set("maxProducers", 1)
    first = case.client.create_producer(case.topic)
    with pytest.raises(pulsar.ProducerBusy):
        case.client.create_producer(case.topic)
    first.close()
    case.client.create_producer(case.topic)


def max_consumers(case: Case) -> None:
    case.set("maxConsumers", 1)
    case.subscribe("one")
    with pytest.raises(pulsar.ConsumerBusy):
        case.subscribe("other")


def max_consumers_per_subscription(case: Case) -> None:
    case.set("maxConsumersPerSubscription", 1)
    case.subscribe()
    with pytest.raises(pulsar.ConsumerBusy):
        case.subscribe()
    case.subscribe("other")


def max_subscriptions(case: Case) -> None:
    case.set("maxSubscriptionsPerTopic", 1)
    case.subscribe("one")
    with pytest.raises(pulsar.NotAllowedError):
        case.subscribe("other")


def max_message_size(case: Case) -> None:
    """The client sends a refused message again on each new connection, with no end: it is stored once the limit is gone."""
    case.set("maxMessageSize", 1024)
    producer = case.client.create_producer(case.topic, batching_enabled=False)
    producer.send(b"x" * 500)
    stored: list[pulsar.Result] = []
    producer.send_async(b"x" * 2000, lambda result, message_id: stored.append(result))
    eventually_sync(lambda: 'magnetar_publish_errors_total{code="NotAllowedError"}' in case.metrics())
    assert (stored, case.stats()["msgInCounter"]) == ([], 1)
    case.set("maxMessageSize", None, "DELETE")
    eventually_sync(lambda: stored == [pulsar.Result.Ok])


def unacked_of_a_consumer(case: Case) -> None:
    consumer = case.subscribe()
    case.set("maxUnackedMessagesOnConsumer", 2)
    case.produce(b"1", b"2", b"3")
    messages = [consumer.receive(10_000) for _ in range(2)]
    assert nothing_more(consumer)
    for message in messages:
        consumer.acknowledge(message)
    receive(consumer, 1)


def unacked_of_a_subscription(case: Case) -> None:
    first, second = case.subscribe(), case.subscribe()
    case.set("maxUnackedMessagesOnSubscription", 2)
    case.produce(b"1", b"2", b"3", b"4")

    def held() -> int:
        return int(case.stats()["subscriptions"]["s"]["unackedMessages"])

    eventually_sync(lambda: held() == 2)
    came = 0
    for consumer in (first, second):
        with contextlib.suppress(pulsar.Timeout):
            while True:
                consumer.receive(700)
                came += 1
    assert came == 2


def subscription_types(case: Case) -> None:
    case.set("subscriptionTypesEnabled", ["Exclusive"])
    with pytest.raises(pulsar.NotAllowedError):
        case.subscribe()
    case.subscribe(consumer_type=pulsar.ConsumerType.Exclusive)


def auto_subscription_creation(case: Case) -> None:
    case.set("autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False})
    with pytest.raises(pulsar.Timeout):  # the client tries again, with Pulsar too: somebody may create it meanwhile
        case.another.subscribe(case.topic, "s")
    answer = case.standalone.http("PUT", f"{case.path}/subscription/s", token=case.standalone.admin_token)
    assert answer.status == 204, answer.text
    case.subscribe()


def ttl(case: Case) -> None:
    case.subscribe().close()
    case.produce(b"1", b"2")
    case.set("messageTTL", 1)
    eventually_sync(lambda: case.stats()["subscriptions"]["s"]["msgBacklog"] == 0, 30)
    assert nothing_more(case.subscribe())


def retention(case: Case) -> None:
    """It keeps what a ledger holds that is not written any more."""
    case.set("retention", {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    consumer = case.subscribe()
    case.produce(b"1", b"2", b"3")
    receive(consumer, 3)
    consumer.close()
    token = case.standalone.admin_token
    assert case.standalone.http("PUT", f"{case.path}/unload", token=token).status == 204

    def read() -> list[bytes]:
        reader, payloads = case.client.create_reader(case.topic, pulsar.MessageId.earliest), []
        while reader.has_message_available():
            payloads.append(reader.read_next(10_000).data())
        reader.close()
        return payloads

    for _ in range(3):
        assert read() == [b"1", b"2", b"3"]
    case.set("retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
    eventually_sync(lambda: read() == [], 30)


def backlog_quota(case: Case) -> None:
    case.subscribe().close()
    case.produce(b"1" * 100)
    case.set("backlogQuota", {"limitSize": 1, "policy": "producer_exception"})
    with pytest.raises(pulsar.ProducerBlockedQuotaExceededException):
        case.produce(b"2" * 100)


def deduplication(case: Case) -> None:
    consumer = case.subscribe()
    case.set("deduplicationEnabled", True)

    def twice(sequence_id: int) -> None:
        for _ in range(2):
            producer = case.client.create_producer(case.topic, "named", batching_enabled=False)
            producer.send(b"%d" % sequence_id, sequence_id=sequence_id)
            producer.close()

    twice(5)
    twice(6)
    assert [message.data() for message in receive(consumer, 2)] == [b"5", b"6"]
    assert nothing_more(consumer)


def delayed_delivery(case: Case) -> None:
    case.set("delayedDelivery", {"active": False, "tickTime": 1000})
    consumer = case.subscribe()
    producer = case.client.create_producer(case.topic, batching_enabled=False)
    producer.send(b"now", deliver_at=int(time.time() * 1000) + 3_600_000)
    assert [message.data() for message in receive(consumer, 1)] == [b"now"]


def inactive_topics(case: Case) -> None:
    mode = {"inactiveTopicDeleteMode": "delete_when_no_subscriptions", "maxInactiveDurationSeconds": 1}
    case.set("inactiveTopicPolicies", {**mode, "deleteWhileInactive": True})
    case.produce(b"1")

    def gone() -> bool:
        return case.standalone.http("GET", f"{case.path}/stats", token=case.standalone.admin_token).status == 404

    eventually_sync(gone, 30)


def publish_rate(case: Case) -> None:
    assert any(case.produce(*[b"x"] * 20) < 2 for _ in range(5)), "without a rate, on a machine that may be busy"
    case.set("publishRate", {"publishThrottlingRateInMsg": 10})
    assert case.produce(*[b"x"] * 25) > 1.5


def dispatch_rate(case: Case, path: str = "dispatchRate") -> None:
    case.produce(*[b"x"] * 25)
    case.set(path, {"dispatchThrottlingRateInMsg": 10, "ratePeriodInSecond": 1})
    begin = time.monotonic()
    receive(case.subscribe(), 25)
    assert time.monotonic() - begin > 1.5


def subscribe_rate(case: Case) -> None:
    case.set("subscribeRate", {"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": 60})
    case.client.subscribe(case.topic, "s", SHARED, consumer_name="c")
    with pytest.raises(pulsar.NotAllowedError):  # its number is the first of this client, too
        case.another.subscribe(case.topic, "s", SHARED, consumer_name="c")


def compaction_threshold(case: Case) -> None:
    producer = case.client.create_producer(case.topic, batching_enabled=False)
    for number in range(4):
        producer.send(b"%d" % number, partition_key="k")
    producer.close()
    case.set("compactionThreshold", 1)

    def read() -> list[bytes]:
        reader, payloads = case.client.create_reader(case.topic, pulsar.MessageId.earliest, is_read_compacted=True), []
        while reader.has_message_available():
            payloads.append(reader.read_next(10_000).data())
        reader.close()
        return payloads

    eventually_sync(lambda: read() == [b"3"], 60)


def schema_compatibility(case: Case) -> None:
    case.set("schemaCompatibilityStrategy", "ALWAYS_INCOMPATIBLE", "PUT")
    case.client.create_producer(case.topic, schema=JsonSchema(Small))
    with pytest.raises(pulsar.IncompatibleSchema):
        case.client.create_producer(case.topic, schema=JsonSchema(Other))


def schema_enforced(case: Case) -> None:
    case.client.create_producer(case.topic, schema=JsonSchema(Small)).close()
    case.client.create_producer(case.topic).close()
    case.set("schemaValidationEnforced", True)
    with pytest.raises(pulsar.IncompatibleSchema):
        case.client.create_producer(case.topic)


EFFECTS: dict[str, Callable[[Case], None]] = {
    "retention": retention,
    "messageTTL": ttl,
    "deduplicationEnabled": deduplication,
    "autoSubscriptionCreation": auto_subscription_creation,
    "delayedDelivery": delayed_delivery,
    "inactiveTopicPolicies": inactive_topics,
    "publishRate": publish_rate,
    "dispatchRate": dispatch_rate,
    "subscriptionDispatchRate": lambda case: dispatch_rate(case, "subscriptionDispatchRate"),
    "subscribeRate": subscribe_rate,
    "maxProducers": max_producers,
    "maxConsumers": max_consumers,
    "maxConsumersPerSubscription": max_consumers_per_subscription,
    "maxMessageSize": max_message_size,
    "maxSubscriptionsPerTopic": max_subscriptions,
    "maxUnackedMessagesOnConsumer": unacked_of_a_consumer,
    "maxUnackedMessagesOnSubscription": unacked_of_a_subscription,
    "compactionThreshold": compaction_threshold,
    "schemaCompatibilityStrategy": schema_compatibility,
    "schemaValidationEnforced": schema_enforced,
    "subscriptionTypesEnabled": subscription_types,
    "backlogQuota": backlog_quota,
}


def test_every_policy_of_topics_is_tried() -> None:
    assert EFFECTS.keys() | UNSEEN.keys() == {*TOPIC_PATHS, "backlogQuota"}


@pytest.mark.parametrize("effect", EFFECTS.values(), ids=EFFECTS)
def test_a_policy_of_a_topic_takes_effect(standalone: Standalone, stock: Stock, topic: str, effect: Callable[[Case], None]) -> None:
    created = standalone.http("PUT", f"/admin/v2/{topic.replace('://', '/')}", token=standalone.admin_token)
    assert created.status == 204, created.text
    effect(Case(standalone, stock.client(), stock.client(operation_timeout_seconds=3), topic))
