"""Long changes of a tenant's topics: how they go on, and how they ended."""

from __future__ import annotations

from typing import Any

import msgspec
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.adminrpc.changes import ChangesList
from messaging.adminrpc.methods import CHANGES_LIST
from tenants import broker
from tenants.rest.base import View
from tenants.rest.schema import describe
from tenants.rest.tenants import existing


class ChangeShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    change = serializers.CharField(help_text="What is done, such as topics.delete.")
    resource = serializers.CharField(help_text="The topic or namespace.")
    state = serializers.CharField(help_text="waiting, running, done or failed.")
    done = serializers.IntegerField(help_text="Partitions that were changed; each counts again for each step over all of them.")
    partitions = serializers.IntegerField(help_text="Those to be changed that are known so far, counted in the same way.")
    error = serializers.CharField(allow_blank=True, help_text="Why it failed.")
    started_ms = serializers.IntegerField(help_text="Milliseconds since 1970.")
    ended_ms = serializers.IntegerField(allow_null=True)


class ChangesShape(serializers.Serializer[Any]):
    items = ChangeShape(many=True)


class Changes(View):
    @describe("Changes of many partitions that are under way, and long ones that ended since the broker's start", ChangesShape)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        found = broker.rpc().call(CHANGES_LIST, ChangesList(tenant=tenant)).changes
        return Response({"items": msgspec.to_builtins(found)})
