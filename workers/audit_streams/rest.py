"""Streams of the audit log, as our API has them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from tenants.rest.base import View
from tenants.rest.schema import describe
from tenants.rest.tenants import existing
from workers.alerts.target_topics import PLATFORM
from workers.audit_streams import actions, shapes


class AuditStreams(View):
    @describe("Where the audit log of a tenant is streamed to, and how far that is", shapes.AuditStreamShape)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        return Response(shapes.show_stream(actions.stream_of(tenant)))

    @describe(
        "Stream the audit log of a tenant to a webhook, or to one of its topics", shapes.AuditStreamShape, shapes.NewAuditStream
    )
    def put(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.NewAuditStream)
        existing(tenant)
        stream = actions.set_stream(self.actor(), tenant, given.url, topic=given.topic, oldest=given.from_oldest)
        return Response(shapes.show_stream(stream))

    @describe("Stop streaming the audit log of a tenant", None, status=204)
    def delete(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        actions.delete_stream(self.actor(), tenant)
        return Response(status=204)


class PlatformAuditStream(View):
    @describe("Where the audit log of the platform is streamed to, and how far that is", shapes.AuditStreamShape)
    def get(self, request: Request) -> Response:
        return Response(shapes.show_stream(actions.stream_of(PLATFORM)))

    @describe(
        "Stream the audit log of the whole platform to a webhook, or to a topic", shapes.AuditStreamShape, shapes.NewAuditStream
    )
    def put(self, request: Request) -> Response:
        given = self.read(shapes.NewAuditStream)
        stream = actions.set_stream(self.actor(), PLATFORM, given.url, topic=given.topic, oldest=given.from_oldest)
        return Response(shapes.show_stream(stream))

    @describe("Stop streaming the audit log of the platform", None, status=204)
    def delete(self, request: Request) -> Response:
        actions.delete_stream(self.actor(), PLATFORM)
        return Response(status=204)
