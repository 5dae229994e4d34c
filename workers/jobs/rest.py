"""Jobs, as our API has them."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.errors import InvalidValue, PreconditionFailed
from messaging.permissions.model import Action, Resource
from messaging.protocol.names import parse_topic
from tenants.access import Actor
from tenants.rest.base import View, limit_of
from tenants.rest.schema import PAGE, describe, page_of
from tenants.rest.tenants import existing
from tenants.scoping import platform_scope, tenant_scope
from workers.history import decide as decide_task
from workers.jobs import sources
from workers.jobs.shapes import JobShape
from workers.redrive.actions import decide as decide_redrive
from workers.redrive.models import RedriveJob

LISTED = [*PAGE, OpenApiParameter("active", bool, description="true: only those that wait, run or are paused.")]


class _Listed(View):
    def page(self, request: Request, listed: list[sources.Source]) -> Response:
        after = request.query_params.get("after", "")
        if "\x00" in after:
            raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
        items, following = sources.pages(listed, after, limit_of(request))
        return Response({"items": items, "next": following})


class TenantJobs(_Listed):
    @describe(
        "What runs long for a tenant: redrives, for whom may see those, and changes of many partitions; by id",
        page_of(JobShape),
        parameters=LISTED,
    )
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        active = self.query_flag("active")
        listed = [sources.changes(tenant, active=active)]
        with tenant_scope(tenant):
            if _sees_redrives(self.actor(), tenant):
                listed.append(sources.redrives(tenant, active=active))
            return self.page(request, listed)


class TenantJob(View):
    @describe("A job of a tenant", JobShape)
    def get(self, request: Request, tenant: str, job_id: str) -> Response:
        existing(tenant)
        if job_id.startswith(sources.REDRIVEN) and _sees_redrives(self.actor(), tenant):
            with tenant_scope(tenant):
                return Response(sources.show_redrive(sources.redrive_of(tenant, job_id)))
        if job_id.startswith(sources.CHANGE):
            return Response(sources.change_of(tenant, job_id))
        raise sources.missing(job_id)

    @describe("Cancel a job of a tenant, where that is possible; what was done stays done", JobShape)
    def delete(self, request: Request, tenant: str, job_id: str) -> Response:
        existing(tenant)
        if job_id.startswith(sources.REDRIVEN):
            with tenant_scope(tenant):
                job = sources.redrive_of(tenant, job_id)
            return Response(_cancel(self.actor(), job))
        if job_id.startswith(sources.CHANGE):
            raise _goes_on(sources.change_of(tenant, job_id))
        raise sources.missing(job_id)


class PlatformJobs(_Listed):
    @describe(
        "What runs long on the platform: runs of tasks, and redrives of all tenants; changes of partitions are listed by tenant",
        page_of(JobShape),
        parameters=LISTED,
    )
    def get(self, request: Request) -> Response:
        active = self.query_flag("active")
        with platform_scope():
            return self.page(request, [sources.redrives("", active=active), sources.runs(active=active)])


class PlatformJob(View):
    @describe("A job of the platform, or a redrive of any tenant", JobShape)
    def get(self, request: Request, job_id: str) -> Response:
        with platform_scope():
            if job_id.startswith(sources.REDRIVEN):
                return Response(sources.show_redrive(sources.redrive_of("", job_id)))
            return Response(sources.show_run(sources.run_of(job_id)))

    @describe("Cancel a redrive, or give up a task that failed too often", JobShape)
    def delete(self, request: Request, job_id: str) -> Response:
        with platform_scope():
            if job_id.startswith(sources.REDRIVEN):
                job = sources.redrive_of("", job_id)
                return Response(_cancel(self.actor(), job))
            shown = sources.show_run(sources.run_of(job_id))
        if not shown.cancellable:
            raise _goes_on(shown)
        return Response(sources.show_run(decide_task(self.actor(), job_id.removeprefix(sources.TASK), "discard")))


def _sees_redrives(actor: Actor, tenant: str) -> bool:
    return actor.may(Action.OPERATE, Resource(tenant))


def _cancel(actor: Actor, job: RedriveJob) -> JobShape:
    return sources.show_redrive(decide_redrive(actor, parse_topic(job.topic), job.id, "cancel"))


def _goes_on(job: JobShape) -> PreconditionFailed:
    return PreconditionFailed(f"job {job.id} ({job.kind}) is {job.state} and cannot be cancelled: wait for its end")
