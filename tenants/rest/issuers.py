"""Issuers of other organisations whose tokens a tenant accepts, as our API has them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.bodies import sent_fields
from messaging.errors import NotFound
from tenants.actions import issuers as actions
from tenants.models import TokenIssuer
from tenants.rest import issuer_shapes as shapes
from tenants.rest.base import View, page
from tenants.rest.schema import PAGE, describe, page_of
from tenants.rest.tenants import existing
from tenants.scoping import tenant_scope


class TokenIssuers(View):
    @describe("Issuers whose tokens a tenant accepts", page_of(shapes.TokenIssuerShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        with tenant_scope(tenant):
            return page(request, TokenIssuer.objects.all(), "name", shapes.show_issuer)


class TokenIssuerOne(View):
    @describe("An issuer", shapes.TokenIssuerShape)
    def get(self, request: Request, tenant: str, issuer: str) -> Response:
        with tenant_scope(tenant):
            row = TokenIssuer.objects.filter(name=issuer).first()
        if row is None:
            raise NotFound(f"issuer {issuer[:80]!r} does not exist")
        return Response(shapes.show_issuer(row))

    @describe("Accept tokens of an issuer, or change what was agreed with it", shapes.TokenIssuerShape, shapes.NewTokenIssuer)
    def put(self, request: Request, tenant: str, issuer: str) -> Response:
        terms = actions.IssuerTerms(**sent_fields(self.read(shapes.NewTokenIssuer)))
        return Response(shapes.show_issuer(actions.set_issuer(self.actor(), tenant, issuer, terms)))

    @describe("Accept tokens of an issuer no more; what was opened with them is closed", None, status=204)
    def delete(self, request: Request, tenant: str, issuer: str) -> Response:
        actions.delete_issuer(self.actor(), tenant, issuer)
        return Response(status=204)
