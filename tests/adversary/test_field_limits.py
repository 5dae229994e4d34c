"""Fields that were taken at any size: each is refused by name, on the request it came in, and nobody else notices."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from messaging.adminrpc.topics import TopicRef
from messaging.limits.sizes import NAME_BYTES_MAX, PERMITS_MAX
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.storage.ledger_store import EARLIEST
from tests.support.clients.commands import client_bodies, empty, kind_of, limit_at, paths, put, sized
from tests.support.clients.raw_client import RawClient, batch_frame, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TOPIC = "persistent://acme/orders/t"
MINUS_ONE = 2**64 - 1
REFUSALS = {"ERROR", "ACK_RESPONSE", "LOOKUP_RESPONSE", "PARTITIONED_METADATA_RESPONSE"}
REFUSALS |= {"GET_SCHEMA_RESPONSE", "GET_OR_CREATE_SCHEMA_RESPONSE", "CONSUMER_STATS_RESPONSE"}


async def refused(client: RawClient) -> str:
    """The text of the refusal that comes next."""
    answer = await client.next()
    assert answer.name in REFUSALS, answer.command
    body = answer.body
    return str(getattr(body, "error_message", "") or getattr(body, "message", ""))


async def test_five_megabytes_of_subscription_properties_are_refused(world: BrokerWorld) -> None:
    """They were kept in memory and written to the metadata store. A command of that size ends its connection; one of a megabyte,
    which a schema may need, is answered."""
    for size in (5 << 20, 1 << 20):
        client = await world.connected("owner")
        client.say(
            pb.Command.SUBSCRIBE,
            topic=TOPIC,
            subscription="s",
            sub_type=pb.Subscribe.Shared,
            consumer_id=1,
            subscription_properties=[pb.KeyValue(key="k", value="v" * size)],
        )
        if size > 1 << 20:
            assert await client.gone() == []
        else:
            assert (
                await refused(client) == f"subscription_properties[0].value has {size} bytes; at most 8192 are allowed: shorten it"
            )
        assert TOPIC not in world.service.topics.loaded
    await client.subscribe(TOPIC)


async def test_a_third_of_a_million_pairs_of_producer_metadata_are_refused(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    client.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=1, metadata=[pb.KeyValue(key="k", value="v")] * 330_000)
    assert await client.gone() == []
    client = await world.connected("owner")
    client.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=1, metadata=[pb.KeyValue(key="k", value="v")] * 100_000)
    assert await refused(client) == "metadata has 100000 elements; at most 256 are allowed: send fewer"
    await client.producer(TOPIC)


@pytest.mark.parametrize("size", [NAME_BYTES_MAX + 1, 70_000, 1 << 20])
async def test_a_producer_name_that_no_snapshot_can_hold_is_refused(make_world: MakeWorld, size: int) -> None:
    """70,000 bytes on a deduplicated topic broke every later snapshot: unloading answered 500, and trimming stopped for all topics
    after it."""
    world = await make_world(deduplication=True)
    client = await world.connected("owner")
    client.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=1, producer_name="n" * size)
    assert (await refused(client)).startswith(f"producer_name has {size} bytes; at most {NAME_BYTES_MAX} are allowed")
    await client.producer(TOPIC, producer_name="n" * NAME_BYTES_MAX)
    client.write(send_frame(0, b"x"))
    await client.expect("SEND_RECEIPT")
    await world.admin.topics.unload(TopicRef(topic=TOPIC))
    await client.expect("CLOSE_PRODUCER")
    answer = await client.producer(TOPIC, producer_name="n" * NAME_BYTES_MAX)
    assert answer.last_sequence_id == 0, "the longest name was in the snapshot"


async def test_an_ack_set_of_a_million_messages_for_an_entry_of_one_is_refused(world: BrokerWorld) -> None:
    """15,625 words were kept, durably, for an entry of one message."""
    client = await subscribed(world, send_frame(0, b"x"))
    message_id = (await client.messages(1))[0].body.message_id
    for words, text in (
        ([-1] * 15_625, "message_id[0].ack_set has 15625 elements; at most 2048 are allowed: send fewer"),
        ([-1] * 2048, f"the ack set of entry {message_id.ledger_id}:0 has 2048 words; its batch has 1 messages"),
        ([2], f"the ack set of entry {message_id.ledger_id}:0 has 1 words; its batch has 1 messages"),
    ):
        named = pb.MessageId(ledger_id=message_id.ledger_id, entry_id=0, ack_set=words)
        client.say(pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=[named], request_id=7)
        assert await refused(client) == text
    cursor = world.service.topics.loaded[TOPIC].subscriptions.table["s"].cursor
    assert not cursor.batches


async def subscribed(world: BrokerWorld, *messages: bytes, **fields: Any) -> RawClient:
    """A client with a consumer that is sent these."""
    client = await world.connected("owner")
    await client.producer(TOPIC)
    for message in messages:
        client.write(message)
        await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, permits=1000, **fields)
    return client


def acknowledged(world: BrokerWorld) -> int:
    topic = world.service.topics.loaded[TOPIC]
    return topic.ledger_list.entries - topic.subscriptions.table["s"].backlog_entries


NOWHERE = {
    "-1:-1": (MINUS_ONE, MINUS_ONE),
    "a ledger that is not there": (1 << 40, 0),
    "an entry that is not there": (0, 1 << 40),
    "the last entry there could be": (0, 2**63 - 1),
    "latest": (2**63 - 1, 2**63 - 1),
}


@pytest.mark.parametrize("name", NOWHERE)
@pytest.mark.parametrize("kind", [pb.Ack.Individual, pb.Ack.Cumulative])
async def test_an_acknowledgement_of_what_cannot_be_acknowledges_nothing(world: BrokerWorld, kind: Any, name: str) -> None:
    """A cumulative one of entry 2^64-1 moved the mark-delete position beyond the topic, and no cursor could be saved any more."""
    client = await subscribed(world, send_frame(0, b"x"), send_frame(1, b"y"), sub_type=pb.Subscribe.Exclusive)
    ledger_id = (await client.messages(2))[0].body.message_id.ledger_id
    ledger, entry = NOWHERE[name]
    named = pb.MessageId(ledger_id=ledger or ledger_id, entry_id=entry)
    client.say(pb.Command.ACK, consumer_id=1, ack_type=kind, message_id=[named], request_id=7)
    assert "does not exist" in await refused(client)
    client.say(pb.Command.ACK, consumer_id=1, ack_type=kind, message_id=[named])
    assert await client.quiet() == []
    assert acknowledged(world) == 0
    await world.admin.topics.unload(TopicRef(topic=TOPIC))


async def test_all_before_the_first_entry_of_a_ledger_is_not_all_of_it(world: BrokerWorld) -> None:
    """Stock clients that acknowledge cumulatively within the first batch of a ledger name entry -1 of it: all was acknowledged."""
    client = await subscribed(world, batch_frame(0, [b"a", b"b"]), send_frame(2, b"c"), sub_type=pb.Subscribe.Exclusive)
    ledger_id = (await client.messages(2))[0].body.message_id.ledger_id
    named = pb.MessageId(ledger_id=ledger_id, entry_id=MINUS_ONE)
    client.say(pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Cumulative, message_id=[named], request_id=7)
    assert not (await client.expect("ACK_RESPONSE")).HasField("error")
    assert acknowledged(world) == 0


async def test_of_several_ids_only_those_that_cannot_be_are_refused(world: BrokerWorld) -> None:
    client = await subscribed(world, send_frame(0, b"x"), send_frame(1, b"y"))
    ledger_id = (await client.messages(2))[0].body.message_id.ledger_id
    ids = [pb.MessageId(ledger_id=ledger_id, entry_id=entry) for entry in (0, 5)]
    client.say(pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=ids, request_id=7)
    assert await refused(client) == f"entry {ledger_id}:5 does not exist: the topic ends at {ledger_id}:1"
    assert acknowledged(world) == 1


@pytest.mark.parametrize("kind", [pb.Subscribe.Exclusive, pb.Subscribe.Shared])
async def test_the_batch_of_an_entry_that_nobody_has_in_memory_is_read(world: BrokerWorld, kind: Any) -> None:
    """The size of a batch is with its entry. Of one that was sent before a restart it is in storage alone."""
    client = await subscribed(world, batch_frame(0, [b"a", b"b", b"c"]))
    ledger_id = (await client.messages(1))[0].body.message_id.ledger_id
    await world.admin.topics.unload(TopicRef(topic=TOPIC))
    client = await world.connected("owner")
    await client.subscribe(TOPIC, sub_type=kind)  # and takes no messages
    for words, error in (([0b1011], True), ([0b101], False)):
        named = pb.MessageId(ledger_id=ledger_id, entry_id=0, ack_set=words)
        client.say(pb.Command.ACK, consumer_id=1, ack_type=pb.Ack.Individual, message_id=[named], request_id=7)
        assert (await client.expect("ACK_RESPONSE")).HasField("error") is error
    cursor = world.service.topics.loaded[TOPIC].subscriptions.table["s"].cursor
    assert [words for _, words in cursor.batches.items()] == [(0b101,)]


async def test_permits_add_up_to_a_bound(world: BrokerWorld) -> None:
    client = await subscribed(world)
    for _ in range(5):
        client.say(pb.Command.FLOW, consumer_id=1, message_permits=2**32 - 1)
    assert await client.quiet() == []
    assert next(iter(world.service.topics.loaded[TOPIC].subscriptions.table["s"].consumers)).permits == PERMITS_MAX


def test_frame_of_459_bytes_is_what_was_seen() -> None:
    assert 400 < len(impossible(800_000)) < 500


def impossible(count: int) -> bytes:
    metadata = pb.Metadata(producer_name="raw", sequence_id=0, publish_time=1, num_messages_in_batch=count)
    return frames.build_send(1, 0, metadata, bytes(400), count)


@pytest.mark.parametrize("count", [0, 131_073, 800_000, 2**31 - 1])
async def test_a_batch_that_claims_more_than_it_can_hold_gets_a_send_error(world: BrokerWorld, count: int) -> None:
    """459 bytes that claim 800,000 messages were taken, and counted as 800,000 wherever messages are counted."""
    client = await world.connected("owner")
    await client.producer(TOPIC)
    client.write(send_frame(0, b"before"), impossible(count), send_frame(1, b"after"))
    first, error, last = [await client.next() for _ in range(3)]
    assert [first.name, error.name, last.name] == ["SEND_RECEIPT", "SEND_ERROR", "SEND_RECEIPT"]
    assert error.body.error == pb.NotAllowedError and error.body.message.startswith(f"num_messages is {count}; ")
    assert world.service.topics.loaded[TOPIC].publisher.messages_in == 2


@pytest.mark.parametrize("body", client_bodies(), ids=lambda body: body.name)
async def test_each_kind_of_command_over_a_limit_is_answered_or_ends_its_connection(world: BrokerWorld, body: Any) -> None:
    """With its largest text or list one over the limit. Another connection publishes on."""
    good = await world.connected("owner")
    await good.producer(TOPIC)
    for path in paths(body.message_type):
        limit = limit_at(path)
        if body.name in ("send", "connect", "auth_response") or limit is None or limit.bytes_max is None or path[-1].is_repeated:
            continue
        client = await world.connected("owner")
        command = empty(body)
        put(getattr(command, body.name), path, sized(path[-1], limit.bytes_max + 1))
        client.write(frames.encode(command))
        if "request_id" in body.message_type.fields_by_name:
            assert f"has {limit.bytes_max + 1} bytes; at most" in await refused(client)
            assert await client.quiet() == []
        else:
            assert await client.gone() == []
            assert world.service.peers.refused["field over its limit"]
    good.write(send_frame(0, b"still here"))
    await good.expect("SEND_RECEIPT")
    assert kind_of(body)


async def test_too_many_ids_in_a_command_without_an_answer_end_the_connection_by_name(world: BrokerWorld) -> None:
    client = await subscribed(world)
    ids = [pb.MessageId(ledger_id=1, entry_id=1)] * 50_001
    client.say(pb.Command.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1, message_ids=ids)
    assert await client.gone() == []
    assert world.service.peers.refused["field over its limit"] == 1


async def test_a_long_client_version_is_refused_before_anything_is_made_of_it(world: BrokerWorld) -> None:
    client = await world.client()
    client.say(pb.Command.CONNECT, client_version="v" * 60_000)
    (answer,) = await client.gone()
    assert answer.body.message == "client_version has 60000 bytes; at most 255 are allowed: shorten it"
    await eventually(lambda: not world.service.peers.connections)


async def test_requests_that_never_began_are_not_missed_by_python(world: BrokerWorld, recwarn: pytest.WarningsRecorder) -> None:
    """Of a connection that is gone while its requests wait for each other: each left a coroutine that was never awaited."""
    client = await world.connected("owner")
    for _ in range(20):
        frame, _ = client.frame(pb.Command.SUBSCRIBE, topic=TOPIC, subscription="s", sub_type=pb.Subscribe.Shared, consumer_id=1)
        seek, _ = client.frame(pb.Command.SEEK, consumer_id=1, message_publish_time=0)
        close, _ = client.frame(pb.Command.CLOSE_CONSUMER, consumer_id=1)
        client.write(frame, seek, close)
    client.writer.transport.abort()
    await eventually(lambda: not world.service.peers.connections)
    gc.collect()
    assert [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)] == []


@pytest.mark.parametrize("kind", ["PARTITIONED_METADATA", "LOOKUP", "PRODUCER", "SUBSCRIBE", "GET_SCHEMA"])
async def test_a_topic_whose_name_is_no_text_is_refused(world: BrokerWorld, kind: str) -> None:
    """The hostile campaign found it after 1.5 million frames: protobuf hands on bytes, and the parser of names raised."""
    client = await world.connected("owner")
    body = next(body for body in client_bodies() if body.name == kind.lower())
    command = empty(body)
    getattr(command, body.name).topic = "topic"
    client.write(frames.encode(command).replace(b"topic", b"to\xfffc"))
    assert await refused(client) == "topic is not a text in UTF-8: b'to\\xfffc'"


@pytest.mark.parametrize("name", NOWHERE)
async def test_a_seek_to_what_cannot_be_lands_on_what_is(world: BrokerWorld, name: str) -> None:
    """At an end of the topic; the cursor can be saved, and the subscription goes on."""
    client = await subscribed(world, send_frame(0, b"x"), send_frame(1, b"y"), sub_type=pb.Subscribe.Exclusive)
    ledger_id = (await client.messages(2))[0].body.message_id.ledger_id
    ledger, entry = NOWHERE[name]
    client.say(pb.Command.SEEK, consumer_id=1, message_id=pb.MessageId(ledger_id=ledger or ledger_id, entry_id=entry))
    assert [(await client.next()).name for _ in range(2)] == ["CLOSE_CONSUMER", "SUCCESS"]
    topic = world.service.topics.loaded[TOPIC]
    mark_delete = topic.subscriptions.table["s"].cursor.mark_delete
    assert mark_delete == EARLIEST or topic.ledger_list.holds(mark_delete)
    await world.admin.topics.unload(TopicRef(topic=TOPIC))
    client = await world.connected("owner")
    reader = pb.MessageId(ledger_id=ledger or ledger_id, entry_id=entry)
    await client.subscribe(TOPIC, "r", durable=False, start_message_id=reader, sub_type=pb.Subscribe.Exclusive, permits=10)
    await client.producer(TOPIC)
    client.write(send_frame(9, b"z"))
    names = [(await client.next()).name for _ in range(2 if mark_delete != EARLIEST else 4)]
    assert sorted(set(names)) == ["MESSAGE", "SEND_RECEIPT"]
