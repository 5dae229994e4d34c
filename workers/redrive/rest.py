"""Redrives of dead letters, as our API has them."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.errors import InvalidValue
from messaging.protocol.names import TopicName
from tenants.masking import masks_of_lists
from tenants.names import topic_of
from tenants.rest.base import View, existing_namespace, page
from tenants.rest.schema import PAGE, describe, page_of
from tenants.rest.tenants import existing
from tenants.scoping import tenant_scope
from workers.redrive import actions, letters, shapes
from workers.redrive.models import RedriveJob


def _topic(parts: dict[str, str]) -> TopicName:
    topic = topic_of(parts)
    existing_namespace(topic.tenant, topic.namespace_local)
    return topic


class _Asked(View):
    def asked(self) -> actions.Request:
        return shapes.asked_of(self.read(shapes.NewRedrive))


class Redrives(_Asked):
    @describe("Redrives of a topic", page_of(shapes.RedriveShape), parameters=PAGE)
    def get(self, request: Request, **parts: str) -> Response:
        topic = _topic(parts)
        with tenant_scope(topic.tenant):
            return page(request, actions.jobs_of(topic), "id", lambda job: shapes.show_job(job, self.actor()))

    @describe("Move messages of a topic, such as dead letters, to another topic", shapes.RedriveShape, shapes.NewRedrive, 201)
    def post(self, request: Request, **parts: str) -> Response:
        return Response(shapes.show_job(actions.start(self.actor(), _topic(parts), self.asked()), self.actor()), status=201)


class RedriveDryRun(_Asked):
    @describe("What a redrive would move now; changes nothing", shapes.RedriveDryRun, shapes.NewRedrive)
    def post(self, request: Request, **parts: str) -> Response:
        return Response(shapes.show_dry_run(actions.dry_run(self.actor(), _topic(parts), self.asked())))


class RedriveOne(View):
    @describe("A redrive", shapes.RedriveShape)
    def get(self, request: Request, job: str, **parts: str) -> Response:
        topic = _topic(parts)
        with tenant_scope(topic.tenant):
            return Response(shapes.show_job(actions.job_of(topic, job), self.actor()))

    @describe("Cancel a redrive; what was moved stays moved", shapes.RedriveShape)
    def delete(self, request: Request, job: str, **parts: str) -> Response:
        return Response(shapes.show_job(actions.decide(self.actor(), _topic(parts), job, "cancel"), self.actor()))


class RedrivePause(View):
    @describe("Pause a redrive", shapes.RedriveShape)
    def post(self, request: Request, job: str, **parts: str) -> Response:
        return Response(shapes.show_job(actions.decide(self.actor(), _topic(parts), job, "pause"), self.actor()))


class RedriveResume(View):
    @describe("Resume a redrive that was paused, or that failed", shapes.RedriveShape)
    def post(self, request: Request, job: str, **parts: str) -> Response:
        return Response(shapes.show_job(actions.decide(self.actor(), _topic(parts), job, "resume"), self.actor()))


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
            masks = masks_of_lists(self.actor(), topic)
            found = actions.outcomes_of(actions.job_of(topic, job))
            return page(request, found, "id", lambda outcome: shapes.show_outcome(outcome, masks))


# --- all dead letters of a tenant

_FILTERS = [
    OpenApiParameter("topic", str, description="Full name of a dead-letter topic; missing: all of the tenant."),
    OpenApiParameter("reason", str, description="Only with this DEAD_LETTER_REASON."),
    OpenApiParameter("origin_topic", str, description="Only from this topic, full name."),
    OpenApiParameter("origin_subscription", str, description="Only from this subscription."),
    OpenApiParameter("producer", str, description="Only what this producer published; stock clients name their consumer in it."),
    OpenApiParameter("key", str, description="Only with this key."),
    OpenApiParameter("property_name", str, description="Only with this property,"),
    OpenApiParameter("property_value", str, description="which has this value."),
    OpenApiParameter("from_ms", int, description="Only those that became dead letters from then on, ms since 1970."),
    OpenApiParameter("until_ms", int, description="Only those that became dead letters before."),
    OpenApiParameter("redriven_max", int, description="What was redriven so often already would stay."),
    OpenApiParameter("target", str, description="What would move to this topic; missing: where each came from."),
    OpenApiParameter("subscription", str, description="What it has acknowledged is left out; `redrive` is the default."),
    OpenApiParameter("after", str, description="The value of `next` from the previous answer, with the same parameters."),
]


class DeadLetters(View):
    @describe(
        "The dead letters of a tenant in groups: so many with each request",
        shapes.LettersPage,
        parameters=[
            OpenApiParameter("by", str, enum=list(letters.BY), description="What the messages of a group have in common."),
            OpenApiParameter("property", str, description="Of by=property: its name."),
            *_FILTERS,
        ],
    )
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        given = request.query_params
        query = shapes.letters_query(given)
        return Response(letters.groups(self.actor(), tenant, query, given.get("after", "")))


class DeadLetterMessages(View):
    @describe(
        "The dead letters of a tenant one by one, without their payloads",
        shapes.LettersList,
        parameters=[*_FILTERS, OpenApiParameter("limit", int, description="1 to 500; default 100.")],
    )
    def get(self, request: Request, tenant: str) -> Response:
        limit = self.query_number("limit", letters.LETTERS_MAX, 1, letters.FOUND_AT_ONCE)
        existing(tenant)
        given = request.query_params
        return Response(letters.letters(self.actor(), tenant, shapes.letters_query(given), given.get("after", ""), limit))


class DeadLetterRedrives(View):
    @describe("Redrives of all topics of a tenant", page_of(shapes.RedriveShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        with tenant_scope(tenant):
            return page(request, RedriveJob.objects.all(), "id", lambda job: shapes.show_job(job, self.actor()))

    @describe("Redrive the dead letters of many topics: a job for each", shapes.LettersRedrives, shapes.NewLettersRedrive, 201)
    def post(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.NewLettersRedrive)
        existing(tenant)
        query = shapes.LettersQuery(topics=tuple(given.topics), asked=shapes.asked_of(given))
        started, not_started = letters.start(self.actor(), tenant, query)
        jobs = [shapes.show_job(job, self.actor()) for job in started]
        return Response(shapes.LettersRedrives(started=jobs, not_started=not_started), status=201)
