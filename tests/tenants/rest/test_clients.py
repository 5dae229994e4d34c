"""Clients of a tenant that are connected, by REST."""

from __future__ import annotations

from typing import Any

from messaging.adminrpc.clients import ClientConnection, ClientsList, ClientsListed
from messaging.adminrpc.methods import CLIENTS_LIST
from tenants.actions.members import set_member
from tenants.actions.people import create_person, new_password
from tests.tenants.world import World

AT = "/api/v1/tenants/acme/clients"
ROW = ClientConnection(
    address="10.0.0.1:4000",
    client="Pulsar-CPP-v3.7.2",
    protocol_version=21,
    role="app@acme",
    key_id="k",
    connected_ms=1_700_000_000_000,
    producers=1,
    consumers=2,
    topics=["persistent://acme/orders/placed"],
    websocket=False,
    tls=True,
    broker_id="b1",
)


def told(world: World) -> list[ClientsList]:
    asked: list[ClientsList] = []

    def answer(request: ClientsList) -> ClientsListed:
        asked.append(request)
        return ClientsListed(rows=[ROW], total=3, producers=1, consumers=2, libraries={ROW.client: 3}, unreached=1)

    world.line.divert(CLIENTS_LIST, answer)
    return asked


def test_clients_are_listed_as_asked_for(world: World, caller: Any) -> None:
    asked = told(world)
    answer = caller("tom")("GET", f"{AT}?q=CPP&order=producers&descending=true&limit=1")
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert body["items"][0]["connected_at"] == "2023-11-14T22:13:20Z" and body["items"][0]["topics"] == ROW.topics
    assert (body["total"], body["unreached"], body["libraries"]) == (3, 1, {"Pulsar-CPP-v3.7.2": 3})
    assert asked == [ClientsList(tenant="acme", words="CPP", order="producers", descending=True, connections_max=1)]


def test_an_order_that_is_none_is_refused(caller: Any, world: World) -> None:
    answer = caller("olga")("GET", f"{AT}?order=colour")
    assert answer.status_code == 400 and "use one of" in answer.json()["detail"]
    assert caller("olga")("GET", f"{AT}?limit=0").status_code == 400


def test_nobody_sees_those_of_another_tenant(world: World, caller: Any) -> None:
    assert caller("sam")("GET", AT).status_code == 404
    create_person(world.admin, "bea", new_password())
    set_member(world.admin, "acme", "bea", "billing")
    assert caller("bea")("GET", AT).status_code == 403
