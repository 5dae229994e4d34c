"""What ceilings of a whole tenant do, seen by clients; see `test_policies.py`. Those of producers, consumers, subscriptions and
topics: `test_policies_shared_limits.py`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from messaging.adminrpc.ceilings import CeilingsAsked
from messaging.adminrpc.policies import PolicyPreview
from messaging.adminrpc.schemas import SchemaDelete, SchemaGiven
from messaging.adminrpc.topics import PartitionsUpdate, TopicCreate, TopicDelete
from messaging.broker.core.schemas.model import SchemaType
from messaging.broker.runtime.local.messages import OutgoingMessage
from messaging.errors import MagnetarError, NotReady, PreconditionFailed, QuotaExceeded
from messaging.permissions.model import Principal
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.brokers.storage_broker import Inbox
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.policies import TENANT
from tests.support.waiting import eventually
from tests.support.worlds.broker_world import BrokerWorld

C = pb.Command
HERE, THERE, ELSEWHERE = (f"persistent://{place}" for place in ("acme/orders/t", "acme/orders/u", "acme/others/t"))
RAISE = "or have an administrator of the platform raise it"


@pytest.fixture(autouse=True)
async def another_namespace(world: BrokerWorld) -> None:
    await world.feed(("namespace", "acme/others", {}))


async def set_ceilings(world: BrokerWorld, **policies: Any) -> None:
    """These and no others."""
    await world.feed(("tenant", "acme", {**TENANT, "policies": policies}))


async def outcomes(*calls: Any) -> list[str]:
    """ "" for each that was allowed; else why not."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, MagnetarError) for answer in answers if isinstance(answer, BaseException)), answers
    return [answer.message if isinstance(answer, MagnetarError) else "" for answer in answers]


async def used(world: BrokerWorld, policy: str) -> int:
    return (await world.admin.ceilings.used(CeilingsAsked(tenant="acme"))).used[policy]


# --- partitions


async def test_policy_max_partitions_per_tenant_counts_all_its_namespaces(world: BrokerWorld) -> None:
    await set_ceilings(world, max_partitions_per_tenant=5)
    create, update = world.admin.topics.create, world.admin.topics.update_partitions
    await create(TopicCreate(topic=HERE, partitions=2))
    await create(TopicCreate(topic=ELSEWHERE, partitions=2))
    await create(TopicCreate(topic="persistent://other/things/t", partitions=5))
    with pytest.raises(PreconditionFailed) as refused:
        await create(TopicCreate(topic=THERE, partitions=2))
    assert refused.value.message == (
        "tenant acme has 4 partitions; 2 more would exceed max_partitions_per_tenant = 5, set on the tenant: "
        f"delete unused partitioned topics, {RAISE}"
    )
    with pytest.raises(PreconditionFailed, match="max_partitions_per_tenant = 5"):
        await update(PartitionsUpdate(topic=HERE, partitions=4))
    await update(PartitionsUpdate(topic=HERE, partitions=3))
    assert await used(world, "max_partitions_per_tenant") == 5
    await set_ceilings(world, max_partitions_per_tenant=2)  # nothing is closed
    client = await world.connected("owner")
    await client.producer(f"{HERE}-partition-2")
    assert await outcomes(create(TopicCreate(topic=THERE, partitions=1))) != [""]
    await client.close()
    await world.admin.topics.delete(TopicDelete(topic=ELSEWHERE, partitioned=True, force=True))
    await world.admin.topics.delete(TopicDelete(topic=HERE, partitioned=True, force=True))
    await create(TopicCreate(topic=THERE, partitions=2))


async def test_policy_max_partitions_per_tenant_is_told_to_a_client_that_creates_by_use(world: BrokerWorld) -> None:
    await set_ceilings(world, max_partitions_per_tenant=3, auto_topic_partitions=4)
    client = await world.connected("owner")
    for topic in (HERE, HERE.replace("persistent", "non-persistent")):
        client.say(C.PARTITIONED_METADATA, topic=topic)
        answer = (await client.expect("PARTITIONED_METADATA_RESPONSE")).message
        assert answer.startswith("tenant acme has 0 partitions; 4 more would exceed max_partitions_per_tenant = 3")
    assert await world.service.topics.partitioned.get(parse_topic(HERE)) is None


async def test_creations_at_once_never_pass_the_ceiling_of_partitions(world: BrokerWorld) -> None:
    await set_ceilings(world, max_partitions_per_tenant=7, max_topics_per_tenant=9)
    names = [f"persistent://acme/{place}/p{number}" for place in ("orders", "others") for number in range(10)]
    answers = await outcomes(*(world.admin.topics.create(TopicCreate(topic=name, partitions=2)) for name in names))
    assert answers.count("") == 3 and await used(world, "max_partitions_per_tenant") == 6
    answers = await outcomes(*(world.admin.topics.create(TopicCreate(topic=f"{HERE}{number}")) for number in range(9)))
    assert answers.count("") == 3 and await used(world, "max_topics_per_tenant") == 9


async def test_a_creation_that_fails_half_way_is_counted(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await set_ceilings(world, max_partitions_per_tenant=3, max_topics_per_tenant=100)
    make = world.meta.cas_topic

    async def failing(fence: Any, record: Any) -> Any:
        if record.name.endswith("-partition-1"):
            raise NotReady("the store takes nothing now")
        return await make(fence, record)

    monkeypatch.setattr(world.meta, "cas_topic", failing)
    create = world.admin.topics.create
    assert await outcomes(create(TopicCreate(topic=HERE, partitions=2))) == ["the store takes nothing now"]
    monkeypatch.undo()
    assert "tenant acme has 2 partitions" in (await outcomes(create(TopicCreate(topic=THERE, partitions=2))))[0]
    assert await outcomes(create(TopicCreate(topic=THERE, partitions=1))) == [""]


# --- schemas


def schema(topic: str, number: int) -> SchemaGiven:
    return SchemaGiven(topic=topic, type="AVRO", data=_record(number), role="owner@acme")


def _record(fields: int) -> bytes:
    listed = ", ".join(f'{{"name": "f{number}", "type": "int", "default": 0}}' for number in range(fields))
    return f'{{"type": "record", "name": "R", "fields": [{listed}]}}'.encode()


async def test_policy_max_schemas_per_tenant_counts_versions_of_all_topics(world: BrokerWorld) -> None:
    await set_ceilings(world, max_schemas_per_tenant=3)
    add = world.admin.schemas.add
    await add(schema(HERE, 1))
    await add(schema(HERE, 2))
    await add(schema(HERE, 2))
    await add(schema(ELSEWHERE, 1))
    client = await world.connected("owner")
    client.say(C.PRODUCER, topic=HERE, producer_id=1, schema=pb.Schema(name="", schema_data=_record(3), type=int(SchemaType.AVRO)))
    refused = (await client.expect("ERROR")).message
    assert refused == (
        "tenant acme has 3 versions of schemas; 1 more would exceed max_schemas_per_tenant = 3, set on the tenant: "
        f"delete unused schemas with force, {RAISE}"
    )
    await client.producer(HERE)  # those without a schema are no concern of it
    await world.admin.schemas.delete(SchemaDelete(topic=ELSEWHERE, role="owner@acme"))  # refused to nobody, and kept
    assert await used(world, "max_schemas_per_tenant") == 4
    await world.admin.schemas.delete(SchemaDelete(topic=ELSEWHERE, role="owner@acme", force=True))
    assert await outcomes(*(add(schema(topic, 3)) for topic in (HERE, THERE))) in ([refused, ""], ["", refused])
    assert await used(world, "max_schemas_per_tenant") == 3


# --- connections


async def connected(world: BrokerWorld, role: str = "owner") -> str:
    """ "" where a new connection may stay; else what its client is told."""
    try:
        await world.connected(role)
    except AssertionError as error:
        return str(error)
    return ""


async def test_policy_max_connections_per_tenant_refuses_one_more(world: BrokerWorld) -> None:
    await set_ceilings(world, max_connections_per_tenant=2)
    first, second = [await world.connected("owner") for _ in range(2)]
    refused = await connected(world)
    assert "has 2 connections, which is max_connections_per_tenant = 2, set on the tenant: close some" in refused
    assert await connected(world, "stranger") == ""
    await set_ceilings(world, max_connections_per_tenant=1)
    await first.producer(HERE)
    await second.producer(THERE)
    assert await used(world, "max_connections_per_tenant") == 2
    await first.close()
    await eventually(lambda: world.service.peers.shares.by_tenant["acme"] == 1)
    assert await connected(world) != ""
    await second.close()
    await eventually(lambda: not world.service.peers.shares.by_tenant["acme"])
    answers = await asyncio.gather(*(connected(world) for _ in range(5)))
    assert answers.count("") == 1


# --- bytes stored

MESSAGE = b"x" * 1_000


async def published(client: RawClient, first: int, count: int) -> list[Any]:
    for number in range(first, first + count):
        client.write(send_frame(number, MESSAGE))
    return [await client.next() for _ in range(count)]


async def test_policy_max_stored_bytes_per_tenant_refuses_what_would_exceed_it(world: BrokerWorld) -> None:
    await set_ceilings(world, max_stored_bytes_per_tenant=5_000)
    client = await world.connected("owner")
    await client.producer(HERE)
    assert [answer.name for answer in await published(client, 0, 4)] == ["SEND_RECEIPT"] * 4
    (refused,) = await published(client, 4, 1)
    assert refused.name == "SEND_ERROR" and refused.body.error == pb.NotAllowedError
    stored = await used(world, "max_stored_bytes_per_tenant")
    assert 4_000 < stored <= 5_000
    assert f"tenant acme has {stored} bytes stored, and 1" in refused.body.message
    assert "max_stored_bytes_per_tenant = 5000 (5000 B), set on the tenant: shorten retention, let" in refused.body.message
    await client.subscribe(HERE, "s", permits=10)
    assert [(await client.next()).name for _ in range(4)] == ["MESSAGE"] * 4  # who reads is not held up

    outcome: list[MagnetarError | None] = []
    web = await world.sessions.open_producer(Principal("admin"), ELSEWHERE, "ws", Inbox())
    web.publish([OutgoingMessage(MESSAGE)], lambda positions, error: outcome.append(error))
    await eventually(lambda: outcome != [])
    assert isinstance(outcome[0], QuotaExceeded) and "max_stored_bytes_per_tenant = 5000" in outcome[0].message
    stranger = await world.connected("stranger")
    await stranger.producer("persistent://other/things/t")
    assert [answer.name for answer in await published(stranger, 0, 9)] == ["SEND_RECEIPT"] * 9
    await client.producer(HERE.replace("persistent", "non-persistent"), 7)  # stores nothing


async def test_what_is_stored_counts_after_an_unload_and_a_ceiling_below_it_refuses_producers(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(HERE)
    await published(client, 0, 4)
    stored = await used(world, "max_stored_bytes_per_tenant")
    await world.service.topics.unload(parse_topic(HERE))
    assert await used(world, "max_stored_bytes_per_tenant") == stored
    await set_ceilings(world, max_stored_bytes_per_tenant=2_000)
    again = await world.connected("owner")
    again.say(C.PRODUCER, topic=THERE, producer_id=1)
    refused = (await again.expect("ERROR")).message
    assert refused.startswith(f"tenant acme has {stored} bytes stored, and 1 more would exceed max_stored_bytes_per_tenant = 2000")
    await world.admin.topics.delete(TopicDelete(topic=HERE, force=True))
    again.say(C.PRODUCER, topic=THERE, producer_id=1)
    await again.expect("PRODUCER_SUCCESS")


async def test_producers_at_once_never_store_more_than_the_ceiling(world: BrokerWorld) -> None:
    await set_ceilings(world, max_stored_bytes_per_tenant=20_000)
    clients = [await world.connected("owner") for _ in range(3)]
    topics = [HERE, THERE, ELSEWHERE]
    for client, topic in zip(clients, topics, strict=True):
        await client.producer(topic)
    answers = [answer for part in await asyncio.gather(*(published(client, 0, 20) for client in clients)) for answer in part]
    stored = await used(world, "max_stored_bytes_per_tenant")
    assert 18_000 < stored <= 20_000
    assert [answer.name for answer in answers].count("SEND_RECEIPT") == stored // 1_000


# --- what is used


async def test_what_is_used_is_told_of_one_tenant(world: BrokerWorld) -> None:
    client: RawClient = await world.connected("owner")
    await client.producer(HERE)
    await client.subscribe(ELSEWHERE, "s")
    await world.sessions.open_producer(Principal("admin"), THERE.replace("persistent", "non-persistent"), "ws", Inbox())
    of_acme = (await world.admin.ceilings.used(CeilingsAsked(tenant="acme"))).used
    assert of_acme["max_topics_per_tenant"] == 3
    assert of_acme["max_producers_per_tenant"] == 2 and of_acme["max_consumers_per_tenant"] == 1
    assert of_acme["max_subscriptions_per_tenant"] == of_acme["max_connections_per_tenant"] == 1
    others = (await world.admin.ceilings.used(CeilingsAsked(tenant="other"))).used
    assert others == dict.fromkeys(of_acme, 0)


async def test_a_preview_tells_of_ceilings(world: BrokerWorld) -> None:
    await world.admin.topics.create(TopicCreate(topic=HERE, partitions=4))
    await world.connected("owner")
    policies = {"max_partitions_per_tenant": 2, "max_connections_per_tenant": 1, "max_schemas_per_tenant": 1}
    previewed = await world.admin.policies.preview(PolicyPreview(tenant="acme", policies=policies))
    assert [(effect.policy, effect.sentence) for effect in previewed.effects] == [
        ("max_partitions_per_tenant", "4 partitions of tenant acme would stay, and no other could be created"),
    ]
