"""Unloading, deleting and terminating topics under clients, and what a stop of the broker leaves."""

from __future__ import annotations

import asyncio

import pytest

from messaging.adminrpc.topics import TopicDelete, TopicRef
from messaging.errors import PreconditionFailed
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import Fence, Unavailable
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
TOPIC = "persistent://acme/orders/t"
NAME = parse_topic(TOPIC)


async def busy(world: BrokerWorld) -> RawClient:
    client = await world.connected("owner")
    await client.producer(TOPIC, producer_name="p")
    await client.subscribe(TOPIC, permits=100)
    client.write(send_frame(0, b"zero"))
    await client.expect("SEND_RECEIPT")
    await client.messages(1)
    return client


async def closed(client: RawClient) -> None:
    found = {one.name: one.body for one in [await client.next(), await client.next()]}
    assert set(found) == {"CLOSE_PRODUCER", "CLOSE_CONSUMER"}
    assert {body.request_id for body in found.values()} == {frames.UNSOLICITED}


async def test_unloading_closes_and_the_next_use_goes_on(world: BrokerWorld) -> None:
    client = await busy(world)
    await world.admin.topics.unload(TopicRef(topic=TOPIC))
    await closed(client)
    client.write(send_frame(1, b"on its way"))  # passed over: its producer was closed from our side
    assert await client.quiet() == []
    await client.producer(TOPIC, producer_name="p", epoch=1)
    client.write(send_frame(1, b"one"))
    await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, permits=100)
    assert [one.text for one in await client.messages(2)] == [b"zero", b"one"]


async def test_acknowledgements_survive_unloading(world: BrokerWorld) -> None:
    client = await busy(world)
    for index in (1, 2, 3):
        client.write(send_frame(index, b"%d" % index))
    answers = [await client.next() for _ in range(6)]
    found = [one for one in answers if one.name == "MESSAGE"]
    ack = pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=[found[1].body.message_id])
    client.write(frames.command(C.ACK, ack=ack))
    await client.quiet()
    await world.service.topics.unload(NAME)
    await closed(client)
    await client.subscribe(TOPIC, permits=100)
    assert [one.text for one in await client.messages(3)] == [b"zero", b"1", b"3"]


async def test_a_topic_in_use_is_not_deleted_without_force(world: BrokerWorld) -> None:
    client = await busy(world)
    with pytest.raises(PreconditionFailed):
        await world.admin.topics.delete(TopicDelete(topic=TOPIC))
    assert await client.quiet() == []
    client.say(C.CLOSE_CONSUMER, consumer_id=1)
    client.say(C.CLOSE_PRODUCER, producer_id=1)
    await client.expect("SUCCESS")
    await client.expect("SUCCESS")
    await world.admin.topics.delete(TopicDelete(topic=TOPIC))  # its subscription goes with it
    assert await world.meta.get_topic(TOPIC) is None
    assert await world.meta.subscriptions(TOPIC) == []


async def test_deleting_by_force_closes_and_removes_everything(world: BrokerWorld) -> None:
    client = await busy(world)
    await world.admin.topics.delete(TopicDelete(topic=TOPIC, force=True))
    await closed(client)
    assert await world.meta.get_topic(TOPIC) is None
    assert await world.meta.subscriptions(TOPIC) == []
    assert all("reserved" in info.properties for info in await world.ledgers.ledgers())  # the log of cursors only


async def test_the_last_id_of_a_topic_whose_messages_are_gone_names_its_ledger(world: BrokerWorld) -> None:
    client = await busy(world)
    written = (await world.admin.topics.last_message_id(TopicRef(topic=TOPIC))).ledger_id
    await world.admin.topics.truncate(TopicRef(topic=TOPIC))
    last = await world.admin.topics.last_message_id(TopicRef(topic=TOPIC))
    assert (last.entry_id, last.batch_index) == (-1, -1) and last.ledger_id > written
    client.say(C.GET_LAST_MESSAGE_ID, consumer_id=1)
    found = (await client.expect("GET_LAST_MESSAGE_ID_RESPONSE")).last_message_id
    assert (found.ledger_id, found.entry_id) == (frames.NO_ID, frames.NO_ID)


async def test_a_topic_that_is_not_loaded_is_deleted_with_its_subscriptions(world: BrokerWorld) -> None:
    client = await busy(world)
    await world.service.topics.unload(NAME)
    await closed(client)
    await world.admin.topics.delete(TopicDelete(topic=TOPIC))
    assert await world.meta.get_topic(TOPIC) is None
    assert await world.meta.subscriptions(TOPIC) == []


async def test_a_client_that_comes_back_at_once_finds_a_new_topic(world: BrokerWorld) -> None:
    """Clients connect again within a millisecond. The topic being deleted was opened again for them, and its ledgers and its record
    were then taken away from under it."""
    client = await busy(world)
    go_on, delete = asyncio.Event(), world.meta.delete_topic

    async def slow(fence: Fence, name: str, **options: object) -> None:
        await go_on.wait()
        await delete(fence, name)

    world.meta.delete_topic = slow  # type: ignore[method-assign]
    deleting = asyncio.ensure_future(world.admin.topics.delete(TopicDelete(topic=TOPIC, force=True)))
    await closed(client)
    for attempt in range(1, 4):
        client.say(C.PRODUCER, topic=TOPIC, producer_id=attempt + 10, producer_name=f"p{attempt}")
    assert await client.quiet() == []
    go_on.set()
    answers = [(await client.next()).name for _ in range(3)]
    assert answers == ["PRODUCER_SUCCESS"] * 3
    await deleting
    client.write(send_frame(0, b"new", 11))
    await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC, permits=100)
    assert [one.text for one in await client.messages(1)] == [b"new"]
    record = await world.meta.get_topic(TOPIC)
    assert record is not None
    known = {ledger.ledger_id for ledger in record.ledgers}
    stored = {info.ledger_id for info in await world.ledgers.ledgers() if "reserved" not in info.properties}
    assert stored == known
    await world.service.topics.unload(NAME)


async def test_a_client_without_the_right_to_create_is_told_that_it_is_gone(world: BrokerWorld) -> None:
    strict = "persistent://acme/strict/t"
    await world.service.topics.create(parse_topic(strict), {})
    client = await world.connected("owner")
    await client.producer(strict)
    deleting = asyncio.ensure_future(world.admin.topics.delete(TopicDelete(topic=strict, force=True)))
    await client.expect("CLOSE_PRODUCER")
    client.say(C.PRODUCER, topic=strict, producer_id=2)
    assert (await client.expect("ERROR")).error == pb.TopicNotFound
    await deleting


async def test_what_was_durable_while_unloading_is_metered(world: BrokerWorld) -> None:
    """Messages that became durable during the close counted for nobody."""
    client = await busy(world)
    seen: list[int] = []
    world.service.topics.on_unloaded.append(lambda topic: seen.append(topic.totals[0]))
    world.ledgers.hold()
    client.write(send_frame(1, b"one"))
    await eventually(lambda: world.ledgers.kept_back > 0)
    unloading = asyncio.ensure_future(world.service.topics.unload(NAME))
    await closed(client)
    world.ledgers.release()
    await unloading
    assert seen == [2]


async def test_a_terminated_topic_takes_no_more(world: BrokerWorld) -> None:
    client = await busy(world)
    last = await world.admin.topics.terminate(TopicRef(topic=TOPIC))
    assert last.entry_id == 0
    await client.expect("CLOSE_PRODUCER")
    client.say(C.PRODUCER, topic=TOPIC, producer_id=2)
    assert (await client.expect("ERROR")).error == pb.TopicTerminatedError
    # This client is not Java: it must not be told of the end with a command that it does not know.
    ack = pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=[pb.MessageId(ledger_id=last.ledger_id, entry_id=0)])
    client.write(frames.command(C.ACK, ack=ack))
    assert await client.quiet() == []


async def test_java_is_told_of_the_end(world: BrokerWorld) -> None:
    client = await world.client()
    await client.connect(world.token("owner"), version="Pulsar-Java-v4.0.0")
    await client.producer(TOPIC)
    await client.subscribe(TOPIC, permits=10)
    client.write(send_frame(0, b"x"))
    await client.expect("SEND_RECEIPT")
    (message,) = await client.messages(1)
    await world.admin.topics.terminate(TopicRef(topic=TOPIC))
    await client.expect("CLOSE_PRODUCER")
    ack = pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, message_id=[message.body.message_id])
    client.write(frames.command(C.ACK, ack=ack))
    assert (await client.expect("REACHED_END_OF_TOPIC")).consumer_id == 1


async def test_a_stop_sends_everybody_away(world: BrokerWorld) -> None:
    client = await busy(world)
    await world.service.stop()
    assert {one.name for one in await client.gone()} <= {"CLOSE_PRODUCER", "CLOSE_CONSUMER"}
    assert list(world.service.topics) == []


async def test_lookups(world: BrokerWorld) -> None:
    client = await world.connected("superuser")
    client.say(C.LOOKUP, topic=TOPIC)
    answer = await client.expect("LOOKUP_RESPONSE")
    assert answer.response == pb.LookupResponse.Connect
    assert answer.authoritative
    assert answer.broker_service_url == world.service.addresses.broker_url
    assert await world.meta.list_all_topics() == []  # a look-up creates nothing
    client.say(C.LOOKUP, topic=TOPIC, advertised_listener_name="outside")
    answer = await client.expect("LOOKUP_RESPONSE")
    assert (answer.response, answer.error) == (pb.LookupResponse.Failed, pb.ServiceNotReady)
    assert "the broker do not have outside listener" in answer.message  # the C++ client looks for these words
    client.say(C.LOOKUP, topic="persistent://absent/ns/t")
    assert (await client.expect("LOOKUP_RESPONSE")).error == pb.TopicNotFound
    client.say(C.LOOKUP, topic="a/b/c/d/e")
    assert (await client.expect("LOOKUP_RESPONSE")).error == pb.InvalidTopicName


async def test_partition_counts(world: BrokerWorld) -> None:
    await world.service.topics.partitioned.create(parse_topic("persistent://acme/orders/p"), 3, {})
    client = await world.connected("superuser")

    async def ask(topic: str, **fields: bool) -> tuple[int, int | None]:
        client.say(C.PARTITIONED_METADATA, topic=topic, **fields)
        answer = await client.expect("PARTITIONED_METADATA_RESPONSE")
        assert (answer.response == pb.PartitionedMetadataResponse.Failed) == answer.HasField("error")
        return answer.partitions, answer.error if answer.HasField("error") else None

    assert await ask("persistent://acme/orders/p") == (3, None)
    assert await ask("persistent://acme/orders/p-partition-1") == (0, None)
    assert await ask("persistent://acme/orders/p-partition-3") == (0, pb.TopicNotFound)
    assert await ask("persistent://acme/orders/new") == (0, None)
    assert await ask("persistent://acme/orders/new", metadata_auto_creation_enabled=False) == (0, pb.TopicNotFound)
    assert await ask("persistent://acme/strict/new") == (0, pb.TopicNotFound)
    assert await ask("persistent://pulsar/system/transaction_coordinator_assign") == (0, pb.TopicNotFound)


async def test_topics_of_a_namespace(world: BrokerWorld) -> None:
    for local in ("b", "a"):
        await world.service.topics.create(parse_topic(f"acme/orders/{local}"), {})
    client = await world.connected("reader")
    client.say(C.GET_TOPICS_OF_NAMESPACE, namespace="acme/orders")
    answer = await client.expect("GET_TOPICS_OF_NAMESPACE_RESPONSE")
    assert list(answer.topics) == ["persistent://acme/orders/a", "persistent://acme/orders/b"]
    assert (answer.changed, answer.filtered, answer.topics_hash) == (True, False, frames.topics_hash(list(answer.topics)))
    client.say(C.GET_TOPICS_OF_NAMESPACE, namespace="acme/orders", topics_hash=answer.topics_hash)
    again = await client.expect("GET_TOPICS_OF_NAMESPACE_RESPONSE")
    assert (again.changed, list(again.topics)) == (False, [])
    client.say(C.GET_TOPICS_OF_NAMESPACE, namespace="acme/orders", mode=pb.GetTopicsOfNamespace.NON_PERSISTENT)
    assert list((await client.expect("GET_TOPICS_OF_NAMESPACE_RESPONSE")).topics) == []


async def test_schemas_that_are_not_there(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    client.say(C.GET_SCHEMA, topic=TOPIC)
    assert (await client.expect("GET_SCHEMA_RESPONSE")).error_code == pb.TopicNotFound


async def test_the_health_check_goes_through_the_whole_path(world: BrokerWorld) -> None:
    await world.sessions.round_trip()


async def test_acknowledgements_survive_an_unloading_that_could_not_save_them(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await busy(world)
    ack = pb.Ack(consumer_id=1, ack_type=pb.Ack.Individual, request_id=9)
    topic = await world.service.topics.get(NAME, create=False)
    ack.message_id.add(ledger_id=topic.ledger_list.last.ledger_id, entry_id=topic.ledger_list.last.entry_id)
    client.write(frames.command(C.ACK, ack=ack))
    await client.expect("ACK_RESPONSE")

    async def refuse(states: list[object]) -> None:
        raise Unavailable("the disk of the metadata is full")

    with monkeypatch.context() as patch:
        patch.setattr(world.service.storage.meta, "save_cursors", refuse)
        await world.admin.topics.unload(TopicRef(topic=TOPIC))
    again = await world.service.topics.get(NAME, create=False)
    assert again is not topic
    assert [one.backlog_entries for one in again.subscriptions.table.values()] == [0]
    await world.service.cursors.checkpoint()
    stored = await world.service.storage.meta.subscriptions(TOPIC)
    assert [one.mark_delete for one in stored] == [again.ledger_list.last]
