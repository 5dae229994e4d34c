"""Which clients are connected, of a tenant and of the platform."""

from __future__ import annotations

import re

from messaging.adminrpc.clients import ClientConnection, ClientsList, ClientsListed
from messaging.adminrpc.methods import CLIENTS_LIST
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import Browse, text

PAGE = "/tenants/acme/clients"


def connection(number: int, client: str = "Pulsar-Java-v4.0.8") -> ClientConnection:
    return ClientConnection(
        address=f"10.0.0.{number}:4000",
        client=client,
        protocol_version=21,
        role=f"app{number}@acme",
        key_id="",
        connected_ms=1_700_000_000_000 + number,
        producers=number,
        consumers=0,
        topics=["persistent://acme/orders/placed"],
        websocket=False,
        tls=True,
        broker_id="b1",
    )


def connected(world: ConsoleBroker, *rows: ClientConnection, unreached: int = 0) -> list[ClientsList]:
    asked: list[ClientsList] = []

    def told(request: ClientsList) -> ClientsListed:
        asked.append(request)
        found = [row for row in rows if request.words in row.client or request.words in row.address]
        libraries = {row.client: 1 for row in found}
        return ClientsListed(rows=found, total=len(found), producers=3, consumers=0, libraries=libraries, unreached=unreached)

    world.divert(CLIENTS_LIST, told)
    return asked


def addresses(page: str) -> list[str]:
    return re.findall(r'<th scope="row" class="mono">(10\.0\.0\.\d+:4000)', page)


def test_clients_are_listed_filtered_and_sorted(world: ConsoleBroker, browse: Browse) -> None:
    asked = connected(world, connection(1), connection(2, "Pulsar-CPP-v3.7.2"))
    owner = browse("owner")
    page = text(owner, PAGE)
    assert addresses(page) == ["10.0.0.1:4000", "10.0.0.2:4000"]
    assert "2 connections, 3 producers, 0 consumers" in page and "at broker b1" in page
    assert 'href="/tenants/acme/namespaces/orders/topics/placed"' in page
    assert 'href="/tenants/acme/namespaces/orders/topics/placed/disconnect?address=10.0.0.1:4000"' in page
    assert addresses(text(owner, PAGE, sort="-producers")) == ["10.0.0.2:4000", "10.0.0.1:4000"]
    assert addresses(text(owner, PAGE, q="CPP")) == ["10.0.0.2:4000"]
    assert [(request.tenant, request.order, request.words) for request in asked[1:]] == [
        ("acme", "producers", ""),
        ("acme", "address", "CPP"),
    ]


def test_a_library_with_a_known_problem_is_marked_with_its_source(world: ConsoleBroker, browse: Browse) -> None:
    connected(world, connection(1, "Pulsar-Java-v2.9.2"), connection(2, "mine"))
    page = text(browse("owner"), PAGE)
    assert "<strong>Pulsar-Java-v2.9.2</strong> has a known problem (1 connection)." in page
    assert 'href="https://github.com/apache/pulsar/wiki/CVE-2022-33681"' in page
    assert "unknown: its version is not understood" in page


def test_what_cannot_be_reached_is_said(world: ConsoleBroker, browse: Browse) -> None:
    connected(world, connection(1), unreached=2)
    assert "2 brokers did not answer" in text(browse("owner"), PAGE)


def test_a_broker_that_is_away(world: ConsoleBroker, browse: Browse) -> None:
    world.cut()
    assert "Who is connected is unknown." in text(browse("owner"), PAGE)


def test_a_tenant_sees_its_own_and_the_platform_page_is_for_administrators(world: ConsoleBroker, browse: Browse) -> None:
    assert browse("stranger").get(PAGE).status_code == 404
    assert browse("owner").get("/platform/clients").status_code in (403, 404)
    asked = connected(world, connection(1))
    assert addresses(text(browse("superuser"), "/platform/clients")) == ["10.0.0.1:4000"]
    assert asked[0].tenant == ""
