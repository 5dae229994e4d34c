"""What a person made, as our API has it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.bodies import Time
from messaging.permissions.model import user_role
from tenants.rest.base import View, limit_of
from tenants.rest.schema import PAGE, describe, page_of
from tenants.rest.tenants import existing
from workers.made.reading import Made, read_made

MADE_LIMIT_MAX = 100  # of a page: each is looked up in the log, and topics at the broker


class MadeShape(msgspec.Struct, kw_only=True):
    kind: Annotated[str, Meta(description="Such as key, alert_rule, permission, policies or topic.")]
    id: Annotated[str, Meta(description="By which its own route knows it; empty: there is one of its kind.")]
    name: str
    how: Annotated[
        Literal["made", "changed"],
        Meta(description="changed: they changed it last, and as far as is known somebody else made it."),
    ]
    at: Annotated[Time, Meta(description="When they did.")]
    record: Annotated[str, Meta(description="Of the audit log, which says so.")]
    expires_at: Annotated[Time | None, Meta(description="When it ends by itself; null: it does not.")]
    exists: Annotated[bool | None, Meta(description="null: no broker answered, so it is not known.")]


class MadeByMember(View):
    @describe(
        "What somebody made in a tenant, or changed last, and that is still there; also of who is no member any more",
        page_of(MadeShape),
        parameters=PAGE,
    )
    def get(self, request: Request, tenant: str, username: str) -> Response:
        existing(tenant)
        limit = min(limit_of(request), MADE_LIMIT_MAX)
        found = read_made(self.actor(), tenant, user_role(username), limit=limit, after=request.query_params.get("after", ""))
        return Response({"items": [_shown(made) for made in found.items], "next": found.following})


def _shown(made: Made) -> MadeShape:
    thing, at = made.thing, made.record.at
    return MadeShape(
        kind=made.kind,
        id=thing.id,
        name=thing.name,
        how="made" if made.made else "changed",
        at=at,
        record=str(made.record.id),
        expires_at=thing.expires_at,
        exists=True if thing.exists else None,
    )
