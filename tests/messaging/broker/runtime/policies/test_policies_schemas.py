"""What the policies about schemas do."""

from __future__ import annotations

from typing import Any

from messaging.adminrpc.schemas import SchemaGiven
from messaging.protocol import pulsar_pb2 as pb
from tests.support.clients.raw_client import RawClient
from tests.support.policies import set_policies
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
C = pb.Command


def avro(*fields: str) -> pb.Schema:
    """A record of integers without defaults."""
    described = ", ".join(f'{{"name": "{name}", "type": "int"}}' for name in fields)
    return pb.Schema(name="R", schema_data=f'{{"type": "record", "name": "R", "fields": [{described}]}}'.encode(), type=4)


async def opened_with(client: RawClient, producer_id: int, schema: pb.Schema | None) -> Any:
    given = {} if schema is None else {"schema": schema}
    client.say(C.PRODUCER, topic=TOPIC, producer_id=producer_id, **given)
    return (await client.next()).body


async def test_policy_schema_compatibility_decides_what_may_follow(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await opened_with(client, 1, avro("a"))
    for number, (strategy, allowed) in enumerate([("FULL", False), ("BACKWARD", False), ("FORWARD", True)], 2):
        await set_policies(world, schema_compatibility=strategy)
        answer = await opened_with(client, number, avro("a", "b"))
        assert (type(answer) is pb.ProducerSuccess) is allowed, strategy


async def test_policy_schema_auto_update_off_leaves_new_versions_to_the_admin_api(world: BrokerWorld) -> None:
    await set_policies(world, schema_auto_update=False, schema_compatibility="ALWAYS_COMPATIBLE")
    client = await world.connected("owner")
    assert (await opened_with(client, 1, avro("a"))).schema_version, "the first one may come from a client"
    assert (await opened_with(client, 2, avro("b"))).error == pb.IncompatibleSchema
    added = SchemaGiven(topic=TOPIC, type="AVRO", data=avro("b").schema_data)
    assert (await world.admin.schemas.add(added)).version == 1
    assert (await opened_with(client, 3, avro("b"))).schema_version == (1).to_bytes(8, "big")


async def test_policy_schema_enforced_refuses_producers_without_a_schema(world: BrokerWorld) -> None:
    await set_policies(world, schema_enforced=True)
    client = await world.connected("owner")
    assert type(await opened_with(client, 1, None)) is pb.ProducerSuccess, "while the topic has none"
    await opened_with(client, 2, avro("a"))
    assert (await opened_with(client, 3, None)).error == pb.IncompatibleSchema
    await set_policies(world, schema_enforced=False)
    assert type(await opened_with(client, 4, None)) is pb.ProducerSuccess
