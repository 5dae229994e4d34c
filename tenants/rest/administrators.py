"""Who administers the platform, for good or for a time."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.bodies import Time
from tenants.actions.people import set_administrator
from tenants.models import User, administrators
from tenants.rest.base import View, page
from tenants.rest.schema import PAGE, describe, page_of


class AdministratorShape(msgspec.Struct, kw_only=True):
    username: str
    expires_at: Annotated[
        Time | None, Meta(description="Until when they administer the platform; null: it does not end by itself.")
    ]


class AdministratorTerms(msgspec.Struct, kw_only=True):
    expires_at: Annotated[
        Time | None, Meta(description="Until when they administer the platform; missing: it does not end by itself.")
    ] = None


class Administrators(View):
    @describe("Who administers the platform, and until when", page_of(AdministratorShape), parameters=PAGE)
    def get(self, request: Request) -> Response:
        return page(request, administrators(), "username", _shown)


class Administrator(View):
    @describe("Have somebody administer the platform, for good or until a time", AdministratorShape, AdministratorTerms)
    def put(self, request: Request, username: str) -> Response:
        given = self.read(AdministratorTerms)
        return Response(_shown(set_administrator(self.actor(), username, True, given.expires_at)))

    @describe("Have somebody no longer administer the platform; they stay a person who may sign in", None, status=204)
    def delete(self, request: Request, username: str) -> Response:
        set_administrator(self.actor(), username, False)
        return Response(status=204)


def _shown(user: User) -> AdministratorShape:
    return AdministratorShape(username=user.username, expires_at=user.superuser_until)
