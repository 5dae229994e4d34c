"""History of a tenant, a namespace, a topic and a subscription, as our API has it."""

from __future__ import annotations

import time

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.times import time_text
from tenants.history.figures import figures_of
from tenants.history.reading import STEPS_MS, Subject, read
from tenants.history.spans import SPANS_MS, AskedSpan, asked_span, with_step
from tenants.names import namespace_of, subscription_of, topic_of
from tenants.rest.base import View
from tenants.rest.history_shapes import HistoryShape
from tenants.rest.schema import describe
from tenants.rest.tenants import existing
from tenants.scoping import tenant_scope

SPAN = [
    OpenApiParameter("span", str, enum=list(SPANS_MS), description="The time up to now; default 24h."),
    OpenApiParameter("from", str, description="Or from this time on: ISO 8601, UTC if it has no zone."),
    OpenApiParameter("until", str, description="And before this time; default: now."),
    OpenApiParameter(
        "step_seconds",
        int,
        enum=[step // 1000 for step in STEPS_MS],
        description="How long each step is. Default, and least: minutes where they are kept, so that there are at most 750 steps.",
    ),
]


def span_of(request: Request, now_ms: int) -> AskedSpan:
    """Raises `InvalidValue`."""
    query = request.query_params
    span = asked_span(query, now_ms)
    return with_step(span, query["step_seconds"], now_ms) if "step_seconds" in query else span


class _History(View):
    def answer(self, request: Request, subject: Subject, tenant: str) -> Response:
        span = span_of(request, time.time_ns() // 1_000_000)
        with tenant_scope(tenant):
            cells = read(subject, span.from_ms, span.until_ms, span.step_ms)
            figures = figures_of(cells)
        begins, ends = time_text(span.from_ms), time_text(span.until_ms)
        return Response(HistoryShape(begins=begins, ends=ends, step_seconds=span.step_ms // 1000, steps=figures))


class TenantHistory(_History):
    @describe("What all topics of a tenant carried and held, step by step", HistoryShape, parameters=SPAN)
    def get(self, request: Request, tenant: str) -> Response:
        return self.answer(request, Subject(existing(tenant).uid), tenant)


class NamespaceHistory(_History):
    @describe("What all topics of a namespace carried and held, step by step", HistoryShape, parameters=SPAN)
    def get(self, request: Request, tenant: str, namespace: str) -> Response:
        return self.answer(request, Subject(existing(tenant).uid, str(namespace_of(tenant, namespace))), tenant)


class TopicHistory(_History):
    @describe("What a topic carried and held, step by step", HistoryShape, parameters=SPAN)
    def get(self, request: Request, **parts: str) -> Response:
        name = topic_of(parts)
        return self.answer(request, Subject(existing(name.tenant).uid, str(name.namespace), str(name)), name.tenant)


class SubscriptionHistory(_History):
    @describe("What a subscription was sent and had to acknowledge, step by step", HistoryShape, parameters=SPAN)
    def get(self, request: Request, subscription: str, **parts: str) -> Response:
        name = topic_of(parts)
        subject = Subject(existing(name.tenant).uid, str(name.namespace), str(name), subscription_of(subscription))
        return self.answer(request, subject, name.tenant)
