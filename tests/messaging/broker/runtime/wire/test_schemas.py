"""Schemas over the binary protocol: registered by producers, checked for consumers, and asked for."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from messaging.adminrpc.topics import StatsAsked
from messaging.broker.core.schemas.model import Schema, SchemaType, SchemaVersion
from messaging.broker.runtime.topic_schemas import COMPARISONS_AT_ONCE, Rests
from messaging.broker.runtime.topic_schemas import schema_of as schema_of_message
from messaging.broker.runtime.wire.connection import Connection
from messaging.errors import PreconditionFailed, TopicNotFound
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from messaging.storage.ledger_store import DiskFull
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld, MakeWorld

TOPIC = "persistent://acme/orders/t"
C = pb.Command

NAME = "s"  # what clients call their schemas


def avro(*fields: str, default: bool = False) -> pb.Schema:
    more = {"default": 0} if default else {}
    definition = {"type": "record", "name": "R", "fields": [{"name": name, "type": "int", **more} for name in fields]}
    return pb.Schema(name=NAME, schema_data=json.dumps(definition).encode(), type=4)


A, A_WITH_B, OTHER = avro("a", default=True), avro("a", "b", default=True), pb.Schema(name=NAME, schema_data=b"", type=1)


def number(version: int) -> bytes:
    return version.to_bytes(8, "big")


async def produce(client: RawClient, schema: pb.Schema | None, *, topic: str = TOPIC, producer_id: int = 1) -> Any:
    given = {} if schema is None else {"schema": schema}
    client.say(C.PRODUCER, topic=topic, producer_id=producer_id, **given)
    return (await client.next()).body


async def subscribe(client: RawClient, schema: pb.Schema | None, *, consumer_id: int = 1, topic: str = TOPIC) -> Any:
    given = {} if schema is None else {"schema": schema}
    name = f"s{consumer_id}"
    client.say(C.SUBSCRIBE, topic=topic, consumer_id=consumer_id, subscription=name, sub_type=0, **given)
    return (await client.next()).body


async def schema_of(client: RawClient, version: bytes | None = None, topic: str = TOPIC) -> pb.GetSchemaResponse:
    given = {} if version is None else {"schema_version": version}
    client.say(C.GET_SCHEMA, topic=topic, **given)
    answer: pb.GetSchemaResponse = await client.expect("GET_SCHEMA_RESPONSE")
    if answer.HasField("schema"):  # it is named after its topic, whatever clients called it
        assert answer.schema.name == topic.partition("://")[2].partition("-partition-")[0]
        answer.schema.name = NAME
    return answer


async def stored_version(world: BrokerWorld, version: int | None = None) -> SchemaVersion:
    async with world.service.schemas.reading(parse_topic(TOPIC), version) as stored:
        return stored


async def stored_versions(world: BrokerWorld) -> list[SchemaVersion]:
    async with world.service.schemas.reading_all(parse_topic(TOPIC)) as versions:
        return versions


async def test_versions_count_from_zero_and_equal_schemas_share_one(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    versions = [(await produce(client, one, producer_id=n)).schema_version for n, one in enumerate((A, A, A_WITH_B, A, None))]
    assert versions == [number(0), number(0), number(1), number(0), b""]
    found = await schema_of(client)
    assert (found.schema, found.schema_version) == (A_WITH_B, number(1))
    assert (await schema_of(client, number(0))).schema == A
    again = await world.connected("owner")
    again.say(C.PRODUCER, topic=TOPIC, producer_id=9, schema=A_WITH_B, request_id=4)
    again.say(C.PRODUCER, topic=TOPIC, producer_id=9, schema=A_WITH_B, request_id=5)
    assert [(await again.expect("PRODUCER_SUCCESS")).schema_version for _ in range(2)] == [number(1)] * 2


async def test_an_incompatible_producer_is_refused_and_changes_nothing(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await produce(client, A)
    refused = await produce(client, avro("z"), producer_id=2)
    assert refused.error == pb.IncompatibleSchema and "z" in refused.message
    assert (await produce(client, OTHER, producer_id=3)).error == pb.IncompatibleSchema
    assert (
        await produce(client, pb.Schema(name="x", schema_data=b"nonsense", type=4), producer_id=4)
    ).error == pb.IncompatibleSchema
    unknown = await produce(client, pb.Schema(name="x", schema_data=b"", type=99), producer_id=5)
    assert "schema type 99 is unknown" in unknown.message
    assert (await schema_of(client)).schema_version == number(0)


async def test_what_is_not_there_is_said_in_the_response_of_its_own(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    assert (await schema_of(client)).error_code == pb.TopicNotFound
    await produce(client, A)
    assert (await schema_of(client, number(7))).error_code == pb.TopicNotFound
    assert (await schema_of(client, b"\xff" * 8)).error_code == pb.TopicNotFound
    assert (await schema_of(client, b"")).error_code == pb.IncompatibleSchema


async def test_a_producer_of_many_schemas_registers_as_it_goes(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    client.say(C.GET_OR_CREATE_SCHEMA, topic=TOPIC, schema=A)
    assert (await client.expect("GET_OR_CREATE_SCHEMA_RESPONSE")).error_code == pb.TopicNotFound
    await produce(client, None)
    for schema, version in ((A, 0), (A_WITH_B, 1), (A, 0)):
        client.say(C.GET_OR_CREATE_SCHEMA, topic=TOPIC, schema=schema)
        assert (await client.expect("GET_OR_CREATE_SCHEMA_RESPONSE")).schema_version == number(version)
    client.say(C.GET_OR_CREATE_SCHEMA, topic=TOPIC, schema=OTHER)
    assert (await client.expect("GET_OR_CREATE_SCHEMA_RESPONSE")).error_code == pb.IncompatibleSchema


@pytest.mark.parametrize("kind", [0, -2])
async def test_asking_for_no_schema_registers_none(world: BrokerWorld, kind: int) -> None:
    """Java does so for each dead letter. Given a version, it sends the second chunk of one with fewer bytes than it says."""
    client = await world.connected("owner")
    await produce(client, None)
    client.say(C.GET_OR_CREATE_SCHEMA, topic=TOPIC, schema=pb.Schema(name="bytes", schema_data=b"", type=kind))
    answer = await client.expect("GET_OR_CREATE_SCHEMA_RESPONSE")
    assert (answer.error_message, answer.schema_version) == ("", b"")
    assert (await schema_of(client)).error_code == pb.TopicNotFound


async def test_a_consumer_brings_the_first_schema_to_a_topic_that_nobody_used(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await subscribe(client, A)
    assert (await schema_of(client)).schema == A
    assert (await subscribe(client, A_WITH_B, consumer_id=2)).request_id, "it reads what the topic holds"
    assert (await schema_of(client)).schema_version == number(0), "and registers nothing"
    assert (await subscribe(client, OTHER, consumer_id=3)).error == pb.IncompatibleSchema
    await subscribe(client, pb.Schema(name="auto", schema_data=b"", type=-2), consumer_id=4)
    assert await client.quiet() == []


async def test_stats_say_who_uses_which_version(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    for number_of, schema in enumerate((A, A_WITH_B, None)):
        await produce(client, schema, producer_id=number_of)
    for number_of, schema in enumerate((A, A_WITH_B, avro("a", "c", default=True), None), 1):
        await subscribe(client, schema, consumer_id=number_of)
    stats = (await world.admin.topic_stats.stats(StatsAsked(topic=TOPIC))).stats
    assert [row.get("schemaVersion") for row in stats["publishers"]] == [0, 1, None]
    consumers = [stats["subscriptions"][f"s{index}"]["consumers"][0] for index in (1, 2, 3, 4)]
    assert [row.get("schemaVersion") for row in consumers] == [0, 1, None, None]


async def test_a_consumer_with_a_schema_may_not_read_what_has_none(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await produce(client, None)
    client.write(send_frame(0, b"bytes"))
    await client.expect("SEND_RECEIPT")
    refused = await subscribe(client, A)
    assert refused.error == pb.IncompatibleSchema and "no schema to check" in refused.message


async def test_partitions_share_a_schema_and_it_survives_a_restart(make_world: MakeWorld) -> None:
    world = await make_world()
    client = await world.connected("owner")
    await world.service.topics.partitioned.create(parse_topic(TOPIC), 2, {})
    assert (await produce(client, A, topic=f"{TOPIC}-partition-0")).schema_version == number(0)
    assert (await produce(client, A_WITH_B, topic=f"{TOPIC}-partition-1", producer_id=2)).schema_version == number(1)
    after = await make_world(after=world)
    again = await after.connected("owner")
    assert (await schema_of(again)).schema == A_WITH_B
    assert (await schema_of(again, topic=f"{TOPIC}-partition-0")).schema == A_WITH_B
    await after.service.topics.partitioned.delete(parse_topic(TOPIC), force=True)
    assert (await schema_of(again)).error_code == pb.TopicNotFound


async def test_a_schema_belongs_to_its_tenant(world: BrokerWorld) -> None:
    owner, stranger = await world.connected("owner"), await world.connected("stranger")
    await produce(owner, A)
    assert (await schema_of(stranger)).error_code in (pb.AuthorizationError, pb.TopicNotFound)
    reader = await world.connected("reader")
    assert (await schema_of(reader)).schema == A
    reader.say(C.GET_OR_CREATE_SCHEMA, topic=TOPIC, schema=A_WITH_B)
    assert (await reader.expect("GET_OR_CREATE_SCHEMA_RESPONSE")).error_code == pb.AuthorizationError


async def test_many_at_once_agree_on_the_versions(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    schemas = [avro("a", *(f"f{n}" for n in range(extra)), default=True) for extra in range(4)] * 2
    for producer_id, schema in enumerate(schemas):
        client.say(C.PRODUCER, topic=TOPIC, producer_id=producer_id, schema=schema)
    found = [(await client.next()).body for _ in schemas]
    held = await stored_versions(world)
    assert [one.version for one in held] == [0, 1, 2, 3]
    by_version = {number(one.version): one.schema.data for one in held if one.schema is not None}
    assert sorted(by_version[one.schema_version] for one in found) == sorted(schema.schema_data for schema in schemas)


async def test_a_namespace_has_schemas_for_a_limited_number_of_names(make_world: MakeWorld) -> None:
    world = await make_world(topics_per_namespace_max=2)
    schemas = world.service.schemas
    for name in ("a", "b"):
        await schemas.register(parse_topic(f"acme/orders/{name}"), Schema(SchemaType.STRING), "r", by_client=False)
    with pytest.raises(Exception, match="topics_per_namespace_max = 2"):
        await schemas.register(parse_topic("acme/orders/c"), Schema(SchemaType.STRING), "r", by_client=False)
    await schemas.delete(parse_topic("acme/orders/a"), "r", force=True)
    await schemas.register(parse_topic("acme/orders/c"), Schema(SchemaType.STRING), "r", by_client=False)


async def test_deleting_and_registering_again(world: BrokerWorld) -> None:
    schemas, name, string = world.service.schemas, parse_topic(TOPIC), Schema(SchemaType.STRING)
    assert [await schemas.delete(name, "r", force=False) for _ in range(2)] == [0, 0], "as in Pulsar, although there was none"
    await schemas.register(name, string, "r", by_client=False)
    assert [await schemas.delete(name, "r", force=False) for _ in range(2)] == [2, 2]
    for version in (None, 1, 2):  # a version is deleted with its schema, as in Pulsar
        with pytest.raises(TopicNotFound):
            await stored_version(world, version)
    assert (await schemas.register(name, Schema(SchemaType.INT32), "r", by_client=False)).version == 3
    assert await schemas.delete(name, "r", force=True) == -1
    assert await stored_versions(world) == []


async def test_a_refusal_is_told_until_the_client_comes_with_another_schema(world: BrokerWorld) -> None:
    """It stayed on Now for ten minutes after the client was mended."""
    client, refusals = await world.connected("owner"), world.service.problems.refusals
    await produce(client, A)
    for refused, mended in (
        (produce(client, OTHER, producer_id=2), produce(client, A_WITH_B, producer_id=2)),
        (subscribe(client, OTHER, consumer_id=3), subscribe(client, None, consumer_id=3)),
    ):
        assert (await refused).error == pb.IncompatibleSchema and refusals.is_refused(TOPIC)
        await mended
        assert not refusals.is_refused(TOPIC)
    assert (await produce(client, OTHER, producer_id=4)).error == pb.IncompatibleSchema
    await subscribe(client, A, consumer_id=5)
    assert refusals.is_refused(TOPIC), "the producer still does not get through"


async def test_a_full_disk_refuses_new_versions_alone(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await world.connected("owner")
    await produce(client, A)

    async def full(*_: object) -> None:
        raise DiskFull("the disk is full")

    monkeypatch.setattr(world.meta, "add_schema_version", full)
    assert (await produce(client, A, producer_id=2)).schema_version == number(0)
    refused = await produce(client, A_WITH_B, producer_id=3)
    assert refused.error == pb.ServiceNotReady and "cannot be stored" in refused.message


# --- memory and fairness


LARGE = pb.Schema(name=NAME, schema_data=b"", type=1, properties=[pb.KeyValue(key="p", value="x" * (1 << 19))])


async def test_one_version_is_read_for_one(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them were, and nobody counted it: 40 requests took 2 GB."""
    client = await world.connected("owner")
    await produce(client, LARGE)
    await world.service.schemas.delete(parse_topic(TOPIC), "r", force=False)
    await produce(client, A, producer_id=2)

    async def all_versions(topic: str) -> list[bytes]:
        raise AssertionError("all versions were read")

    monkeypatch.setattr(world.service.storage.meta, "schema_versions", all_versions)
    assert (await schema_of(client)).schema == A
    assert (await schema_of(client, number(0))).schema == LARGE


async def test_schemas_that_nobody_reads_are_charged_and_read_no_more(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await world.connected("owner")
    await produce(client, LARGE)
    egress, asked = world.service.memory_limiter.egress, 40
    reads = 0
    stored_version = world.service.storage.meta.schema_version

    async def counted(topic: str, version: int) -> bytes | None:
        nonlocal reads
        reads += 1
        assert egress.used_bytes >= 2 << 20, "charged before it is read"
        return await stored_version(topic, version)

    monkeypatch.setattr(world.service.storage.meta, "schema_version", counted)
    transport = client.writer.transport
    assert isinstance(transport, asyncio.ReadTransport)
    transport.pause_reading()
    frame, _ = client.frame(C.GET_SCHEMA, topic=TOPIC)
    client.write(frame * asked)
    (connection,) = world.service.peers.connections
    await eventually(lambda: isinstance(connection, Connection) and not connection.out.writable)
    for _ in range(100):
        await asyncio.sleep(0)
    assert reads <= 20, "what the kernel's buffers hold, and two that are in ours"
    transport.resume_reading()
    for _ in range(asked):
        assert (await client.expect("GET_SCHEMA_RESPONSE")).schema.properties == LARGE.properties
    await eventually(lambda: egress.used_bytes == 0)
    assert reads == asked


async def test_comparisons_are_charged_and_taken_in_turn_by_tenant(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had a thread of its own: 32 of them kept the loop waiting for half a second."""
    schemas, catch_up = world.service.schemas, world.service.memory_limiter.catch_up
    running: list[str] = []
    runs_max = 0
    all_versions = world.service.storage.meta.schema_versions

    async def counted(topic: str) -> list[bytes]:
        nonlocal runs_max
        running.append(topic)
        runs_max = max(runs_max, len(running))
        assert len({parse_topic(name).tenant for name in running}) == len(running) <= COMPARISONS_AT_ONCE
        assert catch_up.used_bytes >= len(running) * LARGE.ByteSize()
        for _ in range(5):
            await asyncio.sleep(0)
        running.remove(topic)
        return await all_versions(topic)

    monkeypatch.setattr(world.service.storage.meta, "schema_versions", counted)
    names = [parse_topic(f"persistent://{tenant}/orders/{index}") for tenant in ("a", "b", "c") for index in range(4)]
    found = await asyncio.gather(*(schemas.register(name, schema_of_message(LARGE), "r", by_client=False) for name in names))
    assert [one.version for one in found] == [0] * len(names)
    assert runs_max == COMPARISONS_AT_ONCE and catch_up.used_bytes == 0


async def test_too_much_that_was_stored_before_is_not_read(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    async def sizes(topic: str) -> list[int]:
        return [1 << 20] * 9

    monkeypatch.setattr(world.service.storage.meta, "schema_version_sizes", sizes)
    schemas, name = world.service.schemas, parse_topic(TOPIC)
    with pytest.raises(PreconditionFailed, match="delete the topic's schema with force"):
        await schemas.register(name, Schema(SchemaType.STRING), "r", by_client=False)
    assert await schemas.delete(name, "r", force=True) == -1


def test_a_thread_that_compares_rests_three_times_as_long_as_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that two of them leave half of Python's lock to all others."""
    worked_s, rested_s = iter([1.0, 1.002, 1.003]), list[float]()
    monkeypatch.setattr(time, "thread_time", lambda: next(worked_s))
    monkeypatch.setattr(time, "sleep", rested_s.append)
    rests = Rests()
    rests.rest()
    rests.rest()
    assert rested_s == pytest.approx([0.006, 0.003])
