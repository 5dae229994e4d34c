"""The topic of change events over time: its newest events outlive what is set on its namespace, and compaction keeps them."""

from __future__ import annotations

import asyncio

import pytest

from messaging.adminrpc.feed import TopicState
from messaging.adminrpc.methods import POLICIES_APPEND_EVENTS, TOPICS_COMPACT
from messaging.adminrpc.policies import ChangeEventsAppend, PolicyChange
from messaging.adminrpc.topics import TopicRef
from messaging.broker.runtime.change_events import LOOKED_AT_MAX
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.protocol.frames import as_text
from tests.support.brokers.worker_broker import Clock, WorkerBroker
from tests.support.change_events import stored_events
from tests.support.compacting import read_all
from tests.support.waiting import eventually
from workers.environment import Environment
from workers.tasks.compaction import compact_topics
from workers.tasks.expiry import expire_messages

pytestmark = pytest.mark.django_db

EVENTS = "persistent://acme/orders/__change_events"
DAY_S = 86_400


def append(broker: WorkerBroker, *changes: tuple[int, str, int | None]) -> str:
    """Sequence, topic, and how many producers it may have; why not, or ""."""
    told = [change(*arguments) for arguments in changes]
    return broker.call(POLICIES_APPEND_EVENTS, ChangeEventsAppend(namespace="acme/orders", changes=told)).refused


def change(sequence: int, topic: str, number: int | None) -> PolicyChange:
    state = None if number is None else TopicState(policies={"max_producers_per_topic": number})
    return PolicyChange(sequence=sequence, topic=f"persistent://acme/orders/{topic}", state=state)


def stored(broker: WorkerBroker) -> list[tuple[int, str]]:
    events = stored_events(broker.real, EVENTS)
    return [
        (metadata.sequence_id, as_text(metadata.partition_key).rpartition("/")[2])
        for metadata, _ in events
        if metadata.HasField("partition_key")
    ]


def expire(environment: Environment) -> None:
    assert expire_messages(environment, "run", lambda: None)["failures"] == 0


def test_events_outlive_the_policies_of_their_namespace(environment: Environment, broker: WorkerBroker, clock: Clock) -> None:
    """Messages of the namespace live for a minute and are not retained; its topics are deleted when nobody uses them."""
    inactive = {"inactive_topic_delete": True, "inactive_topic_after_s": 1}
    broker.real.tell(2, broker.real.state | {("namespace", "acme/orders"): {"policies": {"message_ttl_s": 60, **inactive}}})
    assert append(broker, (1, "a", 1), (2, "b", 1), (3, "a", 2)) == ""
    broker.real.roll(EVENTS)
    clock.advance(30 * DAY_S)
    expire(environment)
    assert stored(broker) == [(1, "a"), (2, "b"), (3, "a")], "nothing has compacted it"
    with broker.real.called_by("web"):
        broker.call(TOPICS_COMPACT, TopicRef(topic=EVENTS))
    assert compact_topics(environment, "run", lambda: None)["removed_messages"] == 1
    assert append(broker, (4, "b", None), (5, "c", 1)) == ""
    expire(environment)
    assert stored(broker) == [(4, "b"), (5, "c")], "the rest is a month old, and in the compacted ledger"
    seen = broker.real.run(read_all(broker.real.service, topic=EVENTS))
    keys = [(message.key or "").rpartition("/")[2] for message in seen]
    assert keys == ["b", "a", "b", "c"] and seen[2].value == b""


def test_much_is_compacted_without_being_asked(environment: Environment, broker: WorkerBroker) -> None:
    subscriptions = {"s" * 200 + str(number): {"subscription_dispatch_rate_messages": 1} for number in range(1_000)}
    large = TopicState(policies={}, subscriptions=subscriptions)
    for sequence in range(1, 6):
        told = PolicyChange(sequence=sequence, topic="persistent://acme/orders/a", state=large)
        asked = ChangeEventsAppend(namespace="acme/orders", changes=[told])
        assert broker.call(POLICIES_APPEND_EVENTS, asked).refused == ""
    assert compact_topics(environment, "run", lambda: None)["removed_messages"] == 4


def test_changes_that_are_stored_are_known_behind_messages_of_others(environment: Environment, broker: WorkerBroker) -> None:
    assert append(broker, (1, "a", 1), (2, "b", 1)) == ""
    broker.real.publish_messages(EVENTS, *(OutgoingMessage(b"of a superuser") for _ in range(LOOKED_AT_MAX - 2)))
    broker.real.restart()
    assert append(broker, (1, "a", 1), (2, "b", 1), (3, "a", 2)) == ""
    assert stored(broker) == [(1, "a"), (2, "b"), (3, "a")]


def test_of_a_namespace_that_is_gone_nothing_is_made(environment: Environment, broker: WorkerBroker) -> None:
    broker.real.tell(2, {key: state for key, state in broker.real.state.items() if key != ("namespace", "acme/orders")})
    assert "acme/orders" in append(broker, (1, "a", 1))
    assert broker.real.topics == {}


def test_a_change_of_which_it_is_not_known_whether_it_is_stored_is_not_repeated(broker: WorkerBroker) -> None:
    assert append(broker, (1, "a", 1)) == ""
    broker.real.ledgers.lose_outcomes()
    assert append(broker, (2, "a", 2)) != ""
    broker.real.ledgers.heal()
    assert append(broker, (2, "a", 2), (3, "a", 3)) == ""
    assert stored(broker) == [(1, "a"), (2, "a"), (3, "a")]


def test_a_call_that_was_given_up_while_the_log_writes(broker: WorkerBroker) -> None:
    """Its changes are stored afterwards; a call meanwhile is refused, and a later one waits for them."""
    assert append(broker, (1, "a", 1)) == ""
    broker.real.run(_given_up(broker))
    assert append(broker, (2, "a", 2), (3, "a", 3)) == ""
    assert stored(broker) == [(1, "a"), (2, "a"), (3, "a")]


async def _given_up(broker: WorkerBroker) -> None:
    ledgers, handler = broker.real.ledgers, broker.real.handlers.policy_events
    asked = ChangeEventsAppend(namespace="acme/orders", changes=[change(2, "a", 2)])
    ledgers.hold()
    call = asyncio.get_running_loop().create_task(handler.append(asked))
    await eventually(lambda: ledgers.kept_back == 1)
    assert "are being appended" in (await handler.append(asked)).refused
    call.cancel()
    await asyncio.wait([call])
    later = asyncio.get_running_loop().create_task(handler.append(asked))
    ledgers.release()
    assert (await later).refused == ""
