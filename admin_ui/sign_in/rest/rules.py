"""What a tenant asks of people who sign in, over our API."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from admin_ui.sign_in.rest import shapes
from tenants.actions.members import require_second_factor
from tenants.rest.base import View
from tenants.rest.schema import describe
from tenants.rest.tenants import existing


class Rules(View):
    @describe("What a tenant asks of people who sign in", shapes.SignInRules)
    def get(self, request: Request, tenant: str) -> Response:
        return Response(shapes.SignInRules(second_factor_required=existing(tenant).second_factor_required))

    @describe("Set what a tenant asks of people who sign in", shapes.SignInRules, shapes.SignInRules)
    def put(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.SignInRules)
        row = require_second_factor(self.actor(), tenant, given.second_factor_required)
        return Response(shapes.SignInRules(second_factor_required=row.second_factor_required))
