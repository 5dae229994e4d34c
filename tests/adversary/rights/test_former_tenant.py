"""Keys of a former tenant, on a broker that knows a new tenant of the same name."""

from __future__ import annotations

from typing import Any

import pytest

from messaging.adminrpc.topics import TopicsList
from messaging.broker.core.control.view import ControlView
from messaging.broker.usage.record import TopicTotals
from messaging.broker.usage.recorder import UsageRecorder
from messaging.errors import PreconditionFailed
from messaging.protocol import pulsar_pb2 as pb
from messaging.protocol.names import parse_topic
from tests.support.clients.raw_client import RawClient, send_frame
from tests.support.worlds.broker_world import BrokerWorld

TOPIC = "persistent://acme/orders/t"
NEW_TENANT: list[tuple[str, str, dict[str, Any] | None]] = [
    ("tenant", "acme", {"uid": "second", "admin_roles": ["owner@acme"]}),
    ("namespace", "acme/orders", {"tenant_uid": "second", "grants": {"writer@acme": ["produce"]}}),
]


async def refused(client: RawClient, token: str) -> None:
    client.say(pb.Command.CONNECT, client_version="raw", auth_method_name="token", auth_data=token.encode())
    assert (await client.expect("ERROR")).error == pb.AuthenticationError


async def test_a_former_tenants_key_is_refused_though_nobody_said_that_it_was_deleted(world: BrokerWorld) -> None:
    """The key names its tenant by what is never used again, so that even a lost deletion opens nothing."""
    await world.feed(*NEW_TENANT)
    await refused(await world.client(), world.token("writer"))


async def test_a_client_of_a_former_tenant_does_not_go_on_in_the_new_one(world: BrokerWorld) -> None:
    client = await world.connected("owner")
    await client.producer(TOPIC)
    await world.feed(*NEW_TENANT)
    await client.expect("CLOSE_PRODUCER")
    client.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=1)
    await client.expect("ERROR")


def totals(tenant_uid: str, messages: int) -> TopicTotals:
    return TopicTotals("acme", "acme/orders", TOPIC, messages, 0, 0, 0, 0, 0, tenant_uid)


def test_usage_of_two_tenants_of_one_name_is_told_apart_within_one_boot() -> None:
    recorder = UsageRecorder("broker-1", 1, 0)
    recorder.sample(1_000, [totals("first", 5)])
    recorder.retire(totals("first", 7))
    recorder.sample(2_000, [totals("second", 3)])
    recorder.sample(3_000, [totals("second", 4)])
    usage = [(record.tenant_uid, record.series, record.seq, record.value) for record in recorder.pending()]
    assert sorted(usage) == [
        ("first", f"messages_in|first|{TOPIC}", 0, 5),
        ("first", f"messages_in|first|{TOPIC}", 1, 2),
        ("second", f"messages_in|second|{TOPIC}", 0, 3),
        ("second", f"messages_in|second|{TOPIC}", 1, 1),
    ]


async def test_a_topic_says_whose_usage_it_is(world: BrokerWorld) -> None:
    """Also when its last totals come after the tenant is gone."""
    await world.feed(("tenant", "acme", {"uid": "first", "admin_roles": []}))
    client = await world.connected("superuser")
    await client.producer(TOPIC)
    topic = world.service.topics.loaded[TOPIC]
    await world.feed(("namespace", "acme/orders", None), ("tenant", "acme", None))
    assert topic.tenant_uid == "first"


def test_a_view_without_uids_decides_as_before() -> None:
    """A snapshot of an older release, until the first word of the control plane."""
    view = ControlView(superuser_roles=(), policy_defaults={}, anonymous_public=False)
    view.keys["k"] = {"role": "a@acme", "tenant": "acme", "revoked": False}
    view.tenants["acme"] = {"admin_roles": []}
    assert view.key_revoked("k") is False


async def test_a_topic_made_while_its_namespace_is_deleted_is_not_there_for_the_next_one(world: BrokerWorld) -> None:
    """It was authorised before and made after, and the next namespace of the name began with it."""
    client = await world.connected("owner")
    getting = world.service.topics.get

    async def slow(name: Any, **options: Any) -> Any:
        await world.feed(("namespace", "acme/orders", None))
        return await getting(name, **options)

    world.service.topics.get = slow  # type: ignore[method-assign]
    client.say(pb.Command.PRODUCER, topic=TOPIC, producer_id=1)
    assert (await client.expect("ERROR")).error == pb.TopicNotFound
    assert await world.meta.get_topic(TOPIC) is None


async def test_topics_of_a_deleted_namespace_go_before_the_next_of_its_name(world: BrokerWorld) -> None:
    """Topics, plain and partitioned, their messages and subscriptions; of a namespace that exists nothing."""
    client = await world.connected("owner")
    await client.producer(TOPIC)
    client.write(send_frame(0, b"private"))
    await client.expect("SEND_RECEIPT")
    await client.subscribe(TOPIC)
    await world.service.topics.partitioned.create(parse_topic("persistent://acme/orders/p"), 2, {})
    purge = TopicsList(namespace="acme/orders")
    with pytest.raises(PreconditionFailed):
        await world.admin.namespaces.purge(purge)
    assert await world.meta.get_topic(TOPIC) is not None
    await world.feed(("namespace", "acme/orders", None))
    await world.admin.namespaces.purge(purge)
    listed = await world.admin.namespaces.list_topics(purge)
    assert (listed.topics, listed.partitioned) == ([], {})
    assert await world.meta.subscriptions(TOPIC) == []
    await world.feed(*NEW_TENANT)
    client = await world.connected("superuser")
    await client.subscribe(TOPIC, permits=10)
    assert await client.quiet() == []  # no backlog
