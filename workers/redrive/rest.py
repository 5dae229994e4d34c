"""Redrives of dead letters, as our API has them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.errors import InvalidValue
from messaging.protocol.names import TopicName
from tenants.names import topic_of
from tenants.rest.base import View, existing_namespace, page
from tenants.rest.schema import PAGE, describe, page_of
from tenants.scoping import tenant_scope
from workers.redrive import actions, shapes


def _topic(parts: dict[str, str]) -> TopicName:
    topic = topic_of(parts)
    existing_namespace(topic.tenant, topic.namespace_local)
    return topic


class _Asked(View):
    def asked(self) -> actions.Request:
        given = self.read(shapes.NewRedrive)
        return actions.Request(given.target, given.subscription, given.rate, given.idempotency_key, given=shapes.filter_of(given))


class Redrives(_Asked):
    @describe("Redrives of a topic", page_of(shapes.RedriveShape), parameters=PAGE)
    def get(self, request: Request, **parts: str) -> Response:
        topic = _topic(parts)
        with tenant_scope(topic.tenant):
            return page(request, actions.jobs_of(topic), "id", shapes.show_job)

    @describe("Move messages of a topic, such as dead letters, to another topic", shapes.RedriveShape, shapes.NewRedrive, 201)
    def post(self, request: Request, **parts: str) -> Response:
        return Response(shapes.show_job(actions.start(self.actor(), _topic(parts), self.asked())), status=201)


class RedriveDryRun(_Asked):
    @describe("What a redrive would move now; changes nothing", shapes.RedriveDryRun, shapes.NewRedrive)
    def post(self, request: Request, **parts: str) -> Response:
        return Response(shapes.show_dry_run(actions.dry_run(self.actor(), _topic(parts), self.asked())))


class RedriveOne(View):
    @describe("A redrive", shapes.RedriveShape)
    def get(self, request: Request, job: str, **parts: str) -> Response:
        topic = _topic(parts)
        with tenant_scope(topic.tenant):
            return Response(shapes.show_job(actions.job_of(topic, job)))

    @describe("Cancel a redrive; what was moved stays moved", shapes.RedriveShape)
    def delete(self, request: Request, job: str, **parts: str) -> Response:
        return Response(shapes.show_job(actions.decide(self.actor(), _topic(parts), job, "cancel")))


class RedrivePause(View):
    @describe("Pause a redrive", shapes.RedriveShape)
    def post(self, request: Request, job: str, **parts: str) -> Response:
        return Response(shapes.show_job(actions.decide(self.actor(), _topic(parts), job, "pause")))


class RedriveResume(View):
    @describe("Resume a redrive that was paused, or that failed", shapes.RedriveShape)
    def post(self, request: Request, job: str, **parts: str) -> Response:
        return Response(shapes.show_job(actions.decide(self.actor(), _topic(parts), job, "resume")))


class RedriveOutcomes(View):
    @describe(
        "What became of each entry that matched; a tenant keeps its newest 20,000",
        page_of(shapes.RedriveOutcomeShape),
        parameters=PAGE,
    )
    def get(self, request: Request, job: str, **parts: str) -> Response:
        topic, after = _topic(parts), request.query_params.get("after", "")
        if after and not (after.isascii() and after.isdecimal() and len(after) < 19):
            raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
        with tenant_scope(topic.tenant):
            return page(request, actions.outcomes_of(actions.job_of(topic, job)), "id", shapes.show_outcome)
