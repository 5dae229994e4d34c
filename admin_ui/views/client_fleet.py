"""Clients that are connected, of a tenant or of the platform: who they are, with which libraries, and where each is at work."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.http import HttpResponse
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.addresses import short_name
from admin_ui.clients.libraries import Library, library_of
from admin_ui.pages import Navigation, crumbs, navigation, sentence, show
from admin_ui.row_list import Column, list_items
from admin_ui.translation.texts import gettext_lazy
from messaging.adminrpc.clients import ClientConnection, ClientsList
from messaging.adminrpc.methods import CLIENTS_LIST
from messaging.errors import InvalidName
from messaging.limits.sizes import TOPIC_BYTES_MAX
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import parse_topic
from tenants.access import Actor

LISTED_MAX = 2_000  # connections from which a page is made; a filter finds the others
LIBRARIES_SHOWN = 20

COLUMNS = (
    Column("address", gettext_lazy("Address"), value=lambda row: row.address),
    Column("client", gettext_lazy("Library"), value=lambda row: row.client.lower()),
    Column("role", gettext_lazy("Role"), value=lambda row: row.role),
    Column("topics", gettext_lazy("Topics")),
    Column("producers", gettext_lazy("Producers"), value=lambda row: row.producers, down=True, look="number"),
    Column("consumers", gettext_lazy("Consumers"), value=lambda row: row.consumers, down=True, look="number"),
    Column("protocol", gettext_lazy("Protocol"), value=lambda row: row.protocol_version, look="number"),
    Column("connected", gettext_lazy("Connected"), value=lambda row: row.connected_ms, down=True),
)
_ORDERS = {"address": "address", "client": "client", "role": "role", "producers": "producers", "consumers": "consumers"}


class ClientTopic(NamedTuple):
    """`disconnect`: an address, "" without the address of the client, and for who may not disconnect it."""

    local: str
    url: str
    disconnect: str


class ClientRow(NamedTuple):
    told: ClientConnection
    library: Library
    since: datetime | None
    topics: list[ClientTopic]
    more: int


class LibraryRow(NamedTuple):
    client: str
    connections: int
    library: Library


@page
def tenant_clients(request: ConsoleRequest, tenant: str) -> HttpResponse:
    return _show(request, navigation(request, "clients", tenant), tenant, crumbs=crumbs(tenant))


@page
def platform_clients(request: ConsoleRequest) -> HttpResponse:
    return _show(request, navigation(request, "platform_clients"), "")


def _show(request: ConsoleRequest, nav: Navigation, tenant: str, **context: Any) -> HttpResponse:
    words = request.GET.get("q", "").replace("\x00", "").strip()[:255]
    sort = request.GET.get("sort", "")
    asked = ClientsList(
        tenant=tenant,
        words=words.encode()[:TOPIC_BYTES_MAX].decode(errors="ignore"),
        order=_ORDERS.get(sort.removeprefix("-"), "connected_ms" if "connected" in sort else "address"),
        descending=sort.startswith("-"),
        connections_max=LISTED_MAX,
    )
    told, away = broker.ask_or_why(lambda rpc: rpc.call(CLIENTS_LIST, asked))
    listed = list_items(request.GET, told.rows if told else [], COLUMNS, text=_text)
    libraries = _libraries(told.libraries if told else {})
    return show(
        request,
        "pages/clients.html",
        nav,
        told=told,
        away=sentence(away),
        listed=listed,
        rows=[_row(row, request.actor) for row in listed.rows],
        unlisted=max(0, told.total - len(told.rows)) if told else 0,
        libraries=libraries[:LIBRARIES_SHOWN],
        more_libraries=max(0, len(libraries) - LIBRARIES_SHOWN),
        known=[one for one in libraries if one.library.problems],
        **context,
    )


def _text(row: ClientConnection) -> str:
    """What a filter looks into: the same as the broker's."""
    return " ".join((row.address, row.client, row.role, row.key_id, *row.topics))


def _libraries(counted: Mapping[str, int]) -> list[LibraryRow]:
    rows = [LibraryRow(client, count, library_of(client)) for client, count in counted.items()]
    return sorted(rows, key=lambda row: (not row.library.problems, -row.connections, row.client))


def _row(row: ClientConnection, actor: Actor) -> ClientRow:
    since = datetime.fromtimestamp(row.connected_ms / 1000, UTC) if row.connected_ms else None
    topics = [_topic(name, row.address, actor) for name in row.topics]
    shown = [topic for topic in topics if topic is not None]
    return ClientRow(row, library_of(row.client), since, shown, max(0, row.producers + row.consumers - len(shown)))


def _topic(name: str, address: str, actor: Actor) -> ClientTopic | None:
    try:
        topic = parse_topic(name)
    except InvalidName:
        return None
    place = [topic.tenant, str(topic.namespace).partition("/")[2], short_name(name)]
    may = bool(address) and actor.may(Action.OPERATE, Resource(topic.tenant, str(topic.namespace), name))
    disconnect = f"{reverse('console:topic_disconnect', args=place)}?address={address}" if may else ""
    return ClientTopic(place[2], reverse("console:topic", args=place), disconnect)
