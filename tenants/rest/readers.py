"""Who may read messages, and who did."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.explanations import resource_of
from tenants.readers import DAYS_MAX, ReadersReport, readers
from tenants.rest.base import View
from tenants.rest.schema import describe
from tenants.rest.tenants import existing

DAYS = 30


class Readers(View):
    @describe(
        "Who may read messages of a tenant, a namespace or a topic now, and who did by the audit log",
        ReadersReport,
        parameters=[
            OpenApiParameter("namespace", str, description="Without the tenant; missing: all of it."),
            OpenApiParameter("topic", str, description="Without its namespace; missing: all of it."),
            OpenApiParameter("days", int, description=f"How far back, 1 to {DAYS_MAX}; default {DAYS}."),
        ],
    )
    def get(self, request: Request, tenant: str) -> Response:
        days = self.query_number("days", DAYS, 1, DAYS_MAX)
        existing(tenant)
        asked = {name: request.query_params.get(name, "") for name in ("namespace", "topic")}
        return Response(readers(tenant, resource_of(tenant, asked), days))
