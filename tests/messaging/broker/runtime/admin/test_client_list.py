"""Which clients are connected to a broker, over its admin RPC; and of several brokers, what they answer together."""

from __future__ import annotations

import pytest

from messaging.adminrpc.clients import ClientConnection, ClientsList, ClientsListed
from messaging.broker.runtime.admin.merging import client_list
from messaging.errors import InvalidValue, NotReady
from messaging.permissions.model import Principal
from tests.support.clients.consuming import TOPIC, filled
from tests.support.worlds.broker_world import BrokerWorld

TENANT = TOPIC.partition("://")[2].split("/")[0]


async def listed(world: BrokerWorld, **asked: object) -> ClientsListed:
    return await world.admin.client_list.list_clients(ClientsList(**asked))  # type: ignore[arg-type]


async def test_each_connection_says_what_is_open_on_it(world: BrokerWorld) -> None:
    await filled(world, 1)
    consumer = await world.connected("owner")
    await consumer.subscribe(TOPIC)
    found = await listed(world, tenant=TENANT)
    (row,) = [row for row in found.rows if row.consumers]
    assert (row.role, row.topics, row.producers) == ("owner@acme", [TOPIC], 0)
    assert row.connected_ms > 0 and row.protocol_version > 0 and row.client in found.libraries
    assert found.consumers == 1 and found.total >= 1 and sum(found.libraries.values()) == found.total
    assert (await listed(world, tenant="other")).total == 0
    assert (await listed(world, words="no such client")).rows == []
    assert (await listed(world, words=row.address.upper())).total >= 1


async def test_roles_of_no_tenant_are_in_no_tenants_list_whatever_they_are_called(world: BrokerWorld) -> None:
    await world.connected("stranger")
    (peer,) = world.service.peers.connections
    peer.principal = Principal("writer@acme")
    assert (await listed(world, tenant=TENANT)).total == 1, "a key of the tenant, with nothing open"
    for role in ("external:mallory@acme", "certificate:mallory@acme", "user:mallory@acme"):
        peer.principal = Principal(role)
        assert (await listed(world, tenant=TENANT)).rows == [], role


async def test_a_tenant_sees_guests_and_not_by_which_key_of_theirs_they_came(world: BrokerWorld) -> None:
    guest = await world.connected("owner")
    await guest.subscribe(TOPIC)
    (peer,) = world.service.peers.connections
    peer.principal = Principal("guest@other", key_id="k-4711")
    (row,) = (await listed(world, tenant=TENANT)).rows
    assert (row.role, row.key_id) == ("guest@other", "")
    assert (await listed(world, tenant=TENANT, words="k-47")).total == 0, "nor is it found out by a filter"
    assert [row.key_id for row in (await listed(world, words="k-47")).rows] == ["k-4711"]


async def test_rows_are_as_many_as_asked_for_in_the_order_asked_for(world: BrokerWorld) -> None:
    for _ in range(5):
        client = await world.connected("owner")
        await client.subscribe(TOPIC)
    found = await listed(world, tenant=TENANT, order="address", connections_max=2)
    assert found.total == 5 and len(found.rows) == 2
    every = sorted(row.address for row in (await listed(world, tenant=TENANT, connections_max=50)).rows)
    assert [row.address for row in found.rows] == every[:2]
    assert [row.address for row in (await listed(world, order="address", descending=True, connections_max=1)).rows] == every[-1:]
    with pytest.raises(InvalidValue, match="order 'shoe size' is not known"):
        await listed(world, order="shoe size")


def test_brokers_that_do_not_answer_are_counted() -> None:
    row = ClientConnection(
        address="a",
        client="x",
        protocol_version=1,
        role="r",
        key_id="",
        connected_ms=1,
        producers=1,
        consumers=2,
        topics=[],
        websocket=False,
        tls=False,
        broker_id="1",
    )
    answer = ClientsListed(rows=[row], total=1, producers=1, consumers=2, libraries={"x": 1})
    told = client_list([answer, NotReady("away"), answer])
    assert (told.total, told.unreached, told.libraries, len(told.rows)) == (2, 1, {"x": 2}, 2)
    with pytest.raises(NotReady):
        client_list([NotReady("away")])
