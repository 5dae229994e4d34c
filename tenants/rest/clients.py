"""Which clients of a tenant are connected."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from drf_spectacular.utils import OpenApiParameter
from msgspec import Meta
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc.clients import ORDERS, ClientsList
from messaging.adminrpc.methods import CLIENTS_LIST
from messaging.bodies import Time
from messaging.limits.sizes import TOPIC_BYTES_MAX
from tenants import broker
from tenants.rest import shapes
from tenants.rest.base import View
from tenants.rest.schema import describe
from tenants.rest.tenants import existing

ROWS_MAX, ROWS = 2_000, 100


class ConnectedClient(msgspec.Struct, kw_only=True):
    address: str
    client: Annotated[str, Meta(description="What its library calls itself.")]
    protocol_version: int
    role: str
    key_id: Annotated[str, Meta(description='"" for a key of another tenant.')]
    connected_at: Time
    producers: Annotated[int, Meta(description="In this tenant, as consumers and topics.")]
    consumers: int
    topics: Annotated[list[str], Meta(description="Some of its topics, full names.")]
    websocket: bool
    tls: bool
    broker_id: str


class ConnectedClients(msgspec.Struct, kw_only=True):
    items: Annotated[list[ConnectedClient], Meta(description="The first in the order that was asked for.")]
    total: int
    producers: int
    consumers: int
    libraries: Annotated[dict[str, int], Meta(description="Connections by library, of all that match.")]
    unreached: Annotated[int, Meta(description="Brokers that did not answer: what is connected to them is not known.")]


class Clients(View):
    @describe(
        "Clients that are connected with a key of the tenant, or have something open in it, over all brokers",
        ConnectedClients,
        parameters=[
            OpenApiParameter("q", str, description="Part of the address, library, role, key or a topic; missing: all."),
            OpenApiParameter("order", str, enum=list(ORDERS), description="Missing: the longest connected first."),
            OpenApiParameter("descending", bool, description="The other way round."),
            OpenApiParameter("limit", int, description=f"How many, 1 to {ROWS_MAX}; default {ROWS}."),
        ],
    )
    def get(self, request: Request, tenant: str) -> Response:
        limit = self.query_number("limit", ROWS, 1, ROWS_MAX)
        existing(tenant)
        words = request.query_params.get("q", "").replace("\x00", "")
        asked = ClientsList(
            tenant=tenant,
            words=words.encode()[:TOPIC_BYTES_MAX].decode(errors="ignore"),
            order=request.query_params.get("order", ORDERS[0])[:64],
            descending=self.query_flag("descending"),
            connections_max=limit,
        )
        told = broker.rpc().call(CLIENTS_LIST, asked)
        items = [
            shapes.shown(ConnectedClient, row, connected_at=datetime.fromtimestamp(row.connected_ms / 1000, UTC))
            for row in told.rows
        ]
        return Response(shapes.shown(ConnectedClients, told, items=items[:limit]))
