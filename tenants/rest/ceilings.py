"""Ceilings of a tenant, as our API has them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.policies.ceilings import CEILINGS, Ceiling
from tenants.actions import ceilings as actions
from tenants.rest import shapes
from tenants.rest.base import View
from tenants.rest.schema import describe
from tenants.rest.tenants import existing


class TenantCeilings(View):
    @describe("What a tenant may have in all, and what it uses of it", shapes.CeilingsShape)
    def get(self, request: Request, tenant: str) -> Response:
        return Response(shapes.CeilingsShape(ceilings=[_shown(ceiling) for ceiling in actions.tenant_ceilings(existing(tenant))]))

    @describe("Set some ceilings of a tenant; null removes one", shapes.CeilingsSet, shapes.CEILINGS_GIVEN)
    def patch(self, request: Request, tenant: str) -> Response:
        changed = actions.set_ceilings(self.actor(), tenant, self.object_of("ceilings"))
        return Response(shapes.CeilingsSet(set={name: value for name, value in changed.policies.items() if name in CEILINGS}))


def _shown(ceiling: Ceiling) -> shapes.CeilingShape:
    policy = ceiling.policy
    return shapes.CeilingShape(
        name=policy.name,
        title=policy.title,
        limit=ceiling.limit,
        used=ceiling.used,
        used_percent=ceiling.used_percent,
        limit_text=ceiling.limit_text,
        used_text=ceiling.used_text,
        unit=policy.unit,
        level=ceiling.level,
        meaning=policy.meaning,
    )
