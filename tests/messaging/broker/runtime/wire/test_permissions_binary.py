"""Every command of the binary protocol, by everybody, over a raw connection; and no hole between the protocol and the tables."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.broker.runtime.wire.commands import TABLE
from messaging.permissions.model import Action
from messaging.permissions.table import BINARY
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
TOPIC = "persistent://acme/orders/t"
CHANGE_EVENTS = "persistent://acme/orders/__change_events"
PEOPLE = ["stranger", "writer", "reader", "owner", "superuser", None]  # keys of conftest.py; None: nobody
PRODUCE, CONSUME = {"writer", "owner", "superuser"}, {"reader", "owner", "superuser"}
LOOKUP = PRODUCE | CONSUME

# What the broker alone says. A client that says it breaks the protocol.
BROKER_SAYS = {
    "CONNECTED", "SEND_RECEIPT", "SEND_ERROR", "MESSAGE", "SUCCESS", "ERROR", "PRODUCER_SUCCESS", "PARTITIONED_METADATA_RESPONSE",
    "LOOKUP_RESPONSE", "CONSUMER_STATS_RESPONSE", "REACHED_END_OF_TOPIC", "GET_LAST_MESSAGE_ID_RESPONSE", "ACTIVE_CONSUMER_CHANGE",
    "GET_TOPICS_OF_NAMESPACE_RESPONSE", "GET_SCHEMA_RESPONSE", "AUTH_CHALLENGE", "ACK_RESPONSE", "GET_OR_CREATE_SCHEMA_RESPONSE",
    "NEW_TXN_RESPONSE", "ADD_PARTITION_TO_TXN_RESPONSE", "ADD_SUBSCRIPTION_TO_TXN_RESPONSE", "END_TXN_RESPONSE",
    "END_TXN_ON_PARTITION_RESPONSE", "END_TXN_ON_SUBSCRIPTION_RESPONSE", "TC_CLIENT_CONNECT_RESPONSE", "WATCH_TOPIC_LIST_SUCCESS",
    "WATCH_TOPIC_UPDATE", "TOPIC_MIGRATED",
}  # fmt: skip
# What clients say and this broker does not serve: it is answered, and nothing happens.
UNSERVED = {
    "NEW_TXN", "ADD_PARTITION_TO_TXN", "ADD_SUBSCRIPTION_TO_TXN", "END_TXN", "END_TXN_ON_PARTITION", "END_TXN_ON_SUBSCRIPTION",
    "TC_CLIENT_CONNECT_REQUEST",
}  # fmt: skip
# Served outside the table of commands: by the handshake, and by the hot path.
ELSEWHERE = {"CONNECT", "AUTH_RESPONSE", "PING", "PONG", "SEND"}


def test_every_command_a_client_may_send_has_an_action_and_a_handler() -> None:
    every = set(C.Type.keys())
    served = {C.Type.Name(kind) for kind in TABLE}
    assert every - BROKER_SAYS - UNSERVED == set(BINARY)
    assert set(BINARY) - ELSEWHERE == served
    assert not served & BROKER_SAYS
    assert {name for name in BINARY if BINARY[name] is Action.HANDSHAKE} == ELSEWHERE - {"SEND"}


def test_the_field_of_every_handler_is_the_commands_own() -> None:
    for kind, row in TABLE.items():
        assert row.field == C.Type.Name(kind).lower()


# --- commands that name what they act on


NAMING: dict[str, tuple[C.Type, dict[str, Any], str, str, set[str]]] = {
    # command -> type, fields, answer where it is allowed, answer where it is not, who may
    "partitioned_metadata": (C.PARTITIONED_METADATA, {"topic": TOPIC}, "PARTITIONED_METADATA_RESPONSE", "typed", LOOKUP),
    "lookup": (C.LOOKUP, {"topic": TOPIC}, "LOOKUP_RESPONSE", "typed", LOOKUP),
    "topics_of_namespace": (
        C.GET_TOPICS_OF_NAMESPACE,
        {"namespace": "acme/orders"},
        "GET_TOPICS_OF_NAMESPACE_RESPONSE",
        "ERROR",
        LOOKUP,
    ),
    "watch_topic_list": (
        C.WATCH_TOPIC_LIST,
        {"namespace": "acme/orders", "watcher_id": 1, "topics_pattern": "acme/orders/.*"},
        "WATCH_TOPIC_LIST_SUCCESS",
        "ERROR",
        LOOKUP,
    ),
    "get_schema": (C.GET_SCHEMA, {"topic": TOPIC}, "GET_SCHEMA_RESPONSE", "typed", LOOKUP),
    "get_or_create_schema": (
        C.GET_OR_CREATE_SCHEMA,
        {"topic": TOPIC, "schema": pb.Schema(name="s", schema_data=b"", type=1)},
        "GET_OR_CREATE_SCHEMA_RESPONSE",
        "typed",
        PRODUCE,
    ),
    "producer": (C.PRODUCER, {"topic": TOPIC, "producer_id": 1}, "PRODUCER_SUCCESS", "ERROR", PRODUCE),
    "producer_of_change_events": (
        C.PRODUCER,
        {"topic": CHANGE_EVENTS, "producer_id": 1},
        "PRODUCER_SUCCESS",
        "ERROR",
        {"superuser"},
    ),
    "reader_of_change_events": (
        C.SUBSCRIBE,
        {"topic": CHANGE_EVENTS, "subscription": "r", "sub_type": pb.Subscribe.Exclusive, "consumer_id": 1, "durable": False},
        "SUCCESS",
        "ERROR",
        CONSUME,
    ),
    "producer_with_subscription": (
        C.PRODUCER,
        {"topic": TOPIC, "producer_id": 1, "initial_subscription_name": "s"},
        "PRODUCER_SUCCESS",
        "ERROR",
        PRODUCE & CONSUME,
    ),
    "subscribe": (
        C.SUBSCRIBE,
        {"topic": TOPIC, "subscription": "s", "sub_type": pb.Subscribe.Shared, "consumer_id": 1},
        "SUCCESS",
        "ERROR",
        CONSUME,
    ),
    "reader": (
        C.SUBSCRIBE,
        {"topic": TOPIC, "subscription": "r", "sub_type": pb.Subscribe.Exclusive, "consumer_id": 1, "durable": False},
        "SUCCESS",
        "ERROR",
        CONSUME,
    ),
}


def code_of(body: Any) -> int:
    return int(body.error_code if "error_code" in body.DESCRIPTOR.fields_by_name else body.error)


@pytest.mark.parametrize("who", PEOPLE)
@pytest.mark.parametrize("command", NAMING)
async def test_who_may_name_what(world: BrokerWorld, command: str, who: str | None) -> None:
    kind, fields, yes, no, may = NAMING[command]
    client = await world.connected(who)
    request_id = client.say(kind, **fields)
    answer = await client.next()
    assert answer.body.request_id == request_id
    if who in may:
        assert answer.name == yes
        assert command == "get_schema" or not ("error" in answer.body.DESCRIPTOR.fields_by_name and answer.body.HasField("error"))
        return
    assert answer.name == (yes if no == "typed" else no)
    assert code_of(answer.body) == pb.AuthorizationError
    message = answer.body.error_message if hasattr(answer.body, "error_message") else answer.body.message
    assert "ask an administrator" in message
    assert await client.quiet() == []
    # Refused means that nothing came of it.
    name = fields.get("topic", TOPIC)
    topic = world.service.topics.loaded.get(name)
    assert topic is None or not (len(topic.producers) or any(one.consumers for one in topic.subscriptions.table.values()))
    if command != "producer_with_subscription":
        assert await world.meta.get_topic(name) is None
    assert await world.meta.subscriptions(name) == []


@pytest.mark.parametrize("who", PEOPLE)
async def test_nobody_learns_whether_a_foreign_topic_exists(world: BrokerWorld, who: str | None) -> None:
    """A refusal reads the same for what is there and for what is not."""
    await (await world.connected("owner")).producer(TOPIC)
    client = await world.connected(who)
    answers = []
    for topic in (TOPIC, "persistent://acme/orders/u", "persistent://acme/absent/t", "persistent://absent/absent/t"):
        client.say(C.PARTITIONED_METADATA, topic=topic)
        body = (await client.next()).body
        answers.append((body.error if body.HasField("error") else None, body.message.replace(topic, "")))
    if who in ("stranger", None):
        assert len(set(answers)) == 1
        assert answers[0][0] == pb.AuthorizationError
    elif who == "superuser":
        assert [code for code, _ in answers] == [None, None, pb.TopicNotFound, pb.TopicNotFound]


@pytest.mark.parametrize("subscription", ["audit", "other"])
async def test_a_subscription_kept_for_others(world: BrokerWorld, subscription: str) -> None:
    await world.feed(
        ("namespace", "acme/orders", {"grants": {"reader@acme": ["consume"]}, "subscription_roles": {"audit": ["auditor@acme"]}})
    )
    client = await world.connected("reader")
    client.say(C.SUBSCRIBE, topic=TOPIC, subscription=subscription, sub_type=pb.Subscribe.Shared, consumer_id=1)
    assert (await client.next()).name == ("ERROR" if subscription == "audit" else "SUCCESS")


# --- commands of a session: they reach only what this connection opened under its own check


async def opened(world: BrokerWorld) -> RawClient:
    """A connection of the owner with producer 1 and consumer 1, and one message on the way."""
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, permits=100)
    client.write(send_frame(0, b"private"))
    await client.expect("SEND_RECEIPT")
    await client.messages(1)
    return client


SESSION: dict[str, tuple[C.Type, dict[str, Any], str | None]] = {
    # command -> type, fields, what the broker answers to somebody who has no such producer or consumer
    "ack": (C.ACK, {"consumer_id": 1, "ack_type": pb.Ack.Individual, "message_id": [pb.MessageId(ledger_id=2, entry_id=0)]}, None),
    "ack_answered": (
        C.ACK,
        {
            "consumer_id": 1,
            "ack_type": pb.Ack.Cumulative,
            "message_id": [pb.MessageId(ledger_id=2, entry_id=0)],
            "request_id": 5,
        },
        "ACK_RESPONSE",
    ),
    "flow": (C.FLOW, {"consumer_id": 1, "message_permits": 100}, None),
    "redeliver": (C.REDELIVER_UNACKNOWLEDGED_MESSAGES, {"consumer_id": 1}, None),
    "unsubscribe": (C.UNSUBSCRIBE, {"consumer_id": 1}, "ERROR"),
    "seek": (C.SEEK, {"consumer_id": 1, "message_publish_time": 1}, "ERROR"),
    "last_message_id": (C.GET_LAST_MESSAGE_ID, {"consumer_id": 1}, "ERROR"),
    "consumer_stats": (C.CONSUMER_STATS, {"consumer_id": 1}, "CONSUMER_STATS_RESPONSE"),
    "close_consumer": (C.CLOSE_CONSUMER, {"consumer_id": 1}, "SUCCESS"),
    "close_producer": (C.CLOSE_PRODUCER, {"producer_id": 1}, "SUCCESS"),
    "close_watch": (C.WATCH_TOPIC_LIST_CLOSE, {"watcher_id": 1}, "SUCCESS"),
}


def test_every_session_command_is_tried() -> None:
    tried = {C.Type.Name(kind) for kind, _, _ in SESSION.values()}
    assert tried == {name for name, action in BINARY.items() if action is Action.SESSION} - {"SEND"}
    named = {C.Type.Name(row[0]) for row in NAMING.values()}
    assert named == {name for name, action in BINARY.items() if action not in (Action.SESSION, Action.HANDSHAKE)}


@pytest.mark.parametrize("who", PEOPLE)
@pytest.mark.parametrize("command", SESSION)
async def test_a_session_command_reaches_only_what_its_connection_opened(world: BrokerWorld, command: str, who: str | None) -> None:
    owner = await opened(world)
    subscription = world.service.topics.loaded[TOPIC].subscriptions.table["s"]
    before = (subscription.backlog_entries, len(subscription.consumers), next(iter(subscription.consumers)).permits)
    client = await world.connected(who)
    kind, fields, answer = SESSION[command]
    request_id = client.say(kind, **fields)
    if answer is None:
        assert await client.quiet() == []
    else:
        one = await client.next()
        assert one.name == answer
        assert one.body.request_id == request_id
        if answer == "ERROR":
            assert one.body.error == pb.MetadataError
        if answer == "CONSUMER_STATS_RESPONSE":
            assert one.body.error_code == pb.ConsumerNotFound
        if answer == "ACK_RESPONSE":
            assert one.body.error == pb.ServiceNotReady
    assert (subscription.backlog_entries, len(subscription.consumers), next(iter(subscription.consumers)).permits) == before
    assert await owner.quiet() == []
    owner.write(send_frame(1, b"still open"))
    await owner.expect("SEND_RECEIPT")


@pytest.mark.parametrize("who", PEOPLE)
async def test_a_message_for_a_producer_that_is_not_open_ends_the_connection(world: BrokerWorld, who: str | None) -> None:
    await opened(world)
    client = await world.connected(who)
    client.write(send_frame(0, b"smuggled"))
    assert await client.gone() == []
    assert world.service.topics.loaded[TOPIC].ledger_list.entries == 1


# --- what is not served, and what only brokers say


@pytest.mark.parametrize("who", PEOPLE)
@pytest.mark.parametrize("name", sorted(UNSERVED))
async def test_what_is_not_served_is_answered(world: BrokerWorld, name: str, who: str | None) -> None:
    client = await world.connected(who)
    request_id = client.say(getattr(C, name))
    error = await client.expect("ERROR")
    assert (error.request_id, error.error) == (request_id, pb.NotAllowedError)
    assert await client.quiet() == []


@pytest.mark.parametrize("name", sorted(BROKER_SAYS))
async def test_what_only_brokers_say_ends_the_connection(world: BrokerWorld, name: str) -> None:
    client = await world.connected("superuser")
    body = pb.Command(type=name).SerializeToString()
    client.write((len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body)
    assert await client.gone() == []


@pytest.mark.parametrize("name", sorted(BINARY.keys() - {"PING", "PONG"}))
async def test_a_command_without_its_body_harms_nobody(world: BrokerWorld, name: str) -> None:
    """The type alone: an empty body is read, with the values that fields have when they are not there."""
    client, other = await world.connected("superuser"), await world.connected("superuser")
    body = pb.Command(type=name).SerializeToString()
    client.write((len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body, frames.PING)
    one = None
    try:
        one = await client.next()
    except Exception as error:
        assert type(error).__name__ == "Closed"
    assert one is None or one.name in ("PONG", "ERROR", "SUCCESS") or one.name.endswith("_RESPONSE")
    assert await other.quiet() == []
