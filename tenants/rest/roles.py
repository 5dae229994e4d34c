"""Roles of a tenant: the built-in ones, and those that it defines."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.errors import NotFound
from messaging.permissions.roles import BUILT_IN
from tenants import actions
from tenants.models import CustomRole
from tenants.rest import shapes
from tenants.rest.base import View, page_of_names
from tenants.rest.schema import PAGE, describe, page_of
from tenants.rest.tenants import existing
from tenants.scoping import tenant_scope


class Roles(View):
    @describe("Roles that members of a tenant can have", page_of(shapes.RoleShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        with tenant_scope(tenant):
            own = {row.name: shapes.show_custom_role(row) for row in CustomRole.objects.all()}
        shown = own | {name: shapes.show_built_in_role(role) for name, role in BUILT_IN.items()}
        return page_of_names(request, list(shown), shown.__getitem__)


class RoleOne(View):
    @describe("A role", shapes.RoleShape)
    def get(self, request: Request, tenant: str, role: str) -> Response:
        if role in BUILT_IN:
            return Response(shapes.show_built_in_role(BUILT_IN[role]))
        with tenant_scope(tenant):
            row = CustomRole.objects.filter(name=role).first()
        if row is None:
            raise NotFound(f"role {role[:80]!r} does not exist in tenant {tenant!r}")
        return Response(shapes.show_custom_role(row))

    @describe("Define a role of the tenant's own, or change it for everybody who has it", shapes.RoleShape, shapes.NewRole)
    def put(self, request: Request, tenant: str, role: str) -> Response:
        given = self.read(shapes.NewRole)
        row = actions.set_custom_role(self.actor(), tenant, role, given.actions, given.description)
        return Response(shapes.show_custom_role(row))

    @describe("Delete a role that nobody has", None, status=204)
    def delete(self, request: Request, tenant: str, role: str) -> Response:
        actions.delete_custom_role(self.actor(), tenant, role)
        return Response(status=204)
