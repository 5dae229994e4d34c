"""Why somebody may do something in a tenant, and who else may."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from tenants import explanations
from tenants.rest import shapes
from tenants.rest.base import View
from tenants.rest.schema import ACCESS, describe
from tenants.rest.tenants import existing


class Explanation(View):
    @describe("Why a role or key may do something, and who else may", shapes.AccessShape, parameters=ACCESS)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        answer = explanations.explained(tenant, request.query_params.dict())
        return Response(shapes.show_access(answer.own, answer.others))
