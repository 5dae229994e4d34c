"""Spend caps, as our API has them."""

from __future__ import annotations

from datetime import UTC, datetime

from rest_framework.request import Request
from rest_framework.response import Response

from tenants.actions.tenants import existing_tenant
from tenants.rest.base import View
from tenants.rest.schema import describe
from workers.spend_caps import actions, shapes
from workers.spend_caps.models import SpendCap
from workers.spend_caps.spent import spent_of


class SpendCaps(View):
    @describe("What a tenant has spent this month, and its spend caps", shapes.SpendCapsShape)
    def get(self, request: Request, tenant: str) -> Response:
        return Response(shapes.show_caps(existing_tenant(tenant), datetime.now(UTC)))


class _Cap(View):
    set_by: SpendCap.SetBy

    def shown(self, tenant: str) -> Response:
        row = existing_tenant(tenant)
        cap = actions.existing_cap(row, self.set_by)
        return Response(shapes.show_cap(cap, spent_of(row.uid, datetime.now(UTC))))

    def set(self, tenant: str) -> Response:
        given = self.read(shapes.NewSpendCap)
        rates = shapes.rates_given(given)
        cap = actions.set_cap(self.actor(), tenant, self.set_by, given.amount, given.currency, given.action, rates)
        return Response(shapes.show_cap(cap, spent_of(cap.tenant_uid, datetime.now(UTC))))

    def remove(self, tenant: str) -> Response:
        actions.remove_cap(self.actor(), tenant, self.set_by)
        return Response(status=204)


class TenantSpendCap(_Cap):
    set_by = SpendCap.SetBy.TENANT

    @describe("The spend cap that a tenant has given itself", shapes.SpendCapShape)
    def get(self, request: Request, tenant: str) -> Response:
        return self.shown(tenant)

    @describe("Set the spend cap that a tenant gives itself", shapes.SpendCapShape, shapes.NewSpendCap)
    def put(self, request: Request, tenant: str) -> Response:
        return self.set(tenant)

    @describe("Remove the spend cap that a tenant has given itself", None, status=204)
    def delete(self, request: Request, tenant: str) -> Response:
        return self.remove(tenant)


class PlatformSpendCap(_Cap):
    set_by = SpendCap.SetBy.PLATFORM

    @describe("The spend cap that the platform has given a tenant", shapes.SpendCapShape)
    def get(self, request: Request, tenant: str) -> Response:
        return self.shown(tenant)

    @describe("Set the spend cap that the platform gives a tenant", shapes.SpendCapShape, shapes.NewSpendCap)
    def put(self, request: Request, tenant: str) -> Response:
        return self.set(tenant)

    @describe("Remove the spend cap that the platform has given a tenant", None, status=204)
    def delete(self, request: Request, tenant: str) -> Response:
        return self.remove(tenant)
