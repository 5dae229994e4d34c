"""Drafts of invoices, computed now, as our API has it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.bodies import Time
from tenants.rest.base import View
from tenants.rest.schema import describe
from workers.billing import actions, draft_runs, usage
from workers.models import TaskRun


class DraftRun(msgspec.Struct, kw_only=True):
    """The newest computation of drafts, of all tenants."""

    under_way: bool
    asked_at: Annotated[Time | None, Meta(description="null: none was computed yet.")]
    finished_at: Annotated[Time | None, Meta(description="null: it is under way, or there is none.")]
    drafts_done: Annotated[int | None, Meta(description="While it is under way, of all tenants; null: it has not said any.")]
    usage_until: Annotated[Time | None, Meta(description="Usage before this is computed, and so in the drafts of the next run.")]


class Drafts(View):
    @describe("When drafts were computed last, and whether they are being computed", DraftRun)
    def get(self, request: Request, tenant: str) -> Response:
        actions.existing_tenant(tenant)
        return Response(_shown(draft_runs.newest_run()))

    @describe("Have drafts computed now; one computation at a time", DraftRun, None, 202)
    def post(self, request: Request, tenant: str) -> Response:
        actions.existing_tenant(tenant)
        return Response(_shown(draft_runs.compute_drafts(self.actor(), tenant)), status=202)


def _shown(run: TaskRun | None) -> DraftRun:
    under_way = draft_runs.is_under_way(run)
    done = run.progress.get("drafts") if run is not None and under_way else None
    return DraftRun(
        under_way=under_way,
        asked_at=run.started_at if run is not None else None,
        finished_at=run.finished_at if run is not None and not under_way else None,
        drafts_done=done if isinstance(done, int) else None,
        usage_until=usage.computed_until(),
    )
