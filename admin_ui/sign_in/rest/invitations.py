"""Invitations to a tenant, over our API."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from admin_ui.sign_in.invitations import invite_and_tell
from admin_ui.sign_in.rest import shapes
from messaging.errors import NotFound
from tenants.actions.invitations import Inviters, revoke_invitation
from tenants.models import Invitation
from tenants.rest.base import View, page
from tenants.rest.schema import PAGE, describe, page_of
from tenants.rest.shapes import shown
from tenants.rest.tenants import existing
from tenants.scoping import tenant_scope


def show_invitation(row: Invitation, inviters: Inviters | None = None) -> shapes.InvitationShape:
    return shown(shapes.InvitationShape, row, **_state(row, inviters or Inviters()))


def _state(row: Invitation, inviters: Inviters) -> dict[str, Any]:
    state = row.state(timezone.now())
    return {"state": state, "works": state == "open" and inviters.may(row)}


class Invitations(View):
    @describe("Invitations of a tenant, open and closed", page_of(shapes.InvitationShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        with tenant_scope(tenant):
            return page(request, Invitation.objects.all(), "id", partial(show_invitation, inviters=Inviters()))

    @describe("Invite somebody; the link is returned only in this response", shapes.InvitationWithLink, shapes.NewInvitation, 201)
    def post(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.NewInvitation)
        invitation, link = invite_and_tell(
            request._request, self.actor(), tenant, given.email, given.role, given.by_mail, given.member_days
        )
        made = shown(shapes.InvitationWithLink, invitation, link=link, **_state(invitation, Inviters()))
        response = Response(made, status=201)
        response.headers["Cache-Control"] = "no-store"
        return response


class InvitationOne(View):
    @describe("An invitation", shapes.InvitationShape)
    def get(self, request: Request, tenant: str, invitation: str) -> Response:
        with tenant_scope(tenant):
            row = Invitation.objects.filter(id=invitation).first()
        if row is None:
            raise NotFound(f"invitation {invitation[:40]!r} does not exist")
        return Response(show_invitation(row))

    @describe("Revoke an invitation", shapes.InvitationShape)
    def delete(self, request: Request, tenant: str, invitation: str) -> Response:
        return Response(show_invitation(revoke_invitation(self.actor(), tenant, invitation)))
