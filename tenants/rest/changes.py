"""Long changes of a tenant's topics: how they go on, and how they ended."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc.changes import ChangesList
from messaging.adminrpc.methods import CHANGES_LIST
from tenants import broker
from tenants.rest.base import View
from tenants.rest.schema import describe
from tenants.rest.shapes import ChangesShape
from tenants.rest.tenants import existing


class Changes(View):
    @describe("Changes of many partitions that are under way, and long ones that ended since the broker's start", ChangesShape)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        return Response(ChangesShape(items=broker.rpc().call(CHANGES_LIST, ChangesList(tenant=tenant)).changes))
