"""The audit log, as our API has it."""

from __future__ import annotations

from django.conf import settings as django_settings
from django.db.models import QuerySet
from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.errors import InvalidValue, NotReady
from messaging.identity import audit_statements
from tenants.access import Actor
from tenants.actions import audit as audit_actions
from tenants.audit.reading import filters_of, read_page, records_of
from tenants.http.audit_export import FORMATS, export
from tenants.masked_records import RecordMasks
from tenants.models import AuditHead, AuditRecord
from tenants.rest import shapes
from tenants.rest.base import View, limit_of
from tenants.rest.schema import PAGE, describe, page_of
from tenants.rest.tenants import existing
from tenants.scoping import platform_scope, tenant_scope

FILTERS = [
    OpenApiParameter("action", str, description="Only records of this action, such as `key.create` or `denied`."),
    OpenApiParameter("role", str, description="Only records of this role, such as `user:olga` or `app@acme`."),
    OpenApiParameter("key_id", str, description="Only what was done with this key."),
    OpenApiParameter("address", str, description="Only what was done from this address."),
    OpenApiParameter("resource", str, description="Only records about exactly this resource, such as `acme/orders`."),
    OpenApiParameter("request_id", str, description="Only records of this request (X-Request-ID)."),
    OpenApiParameter("since", str, description="Only records from this time on: a day or a time, ISO 8601; UTC if it has no zone."),
    OpenApiParameter("until", str, description="Only records before this time."),
]
EXPORT = [*FILTERS, OpenApiParameter("format", str, enum=list(FORMATS), description="jsonl (default) or csv.")]
_FILES = {(200, "application/jsonl"): OpenApiTypes.BINARY, (200, "text/csv"): OpenApiTypes.BINARY}


class Audit(View):
    @describe("Audit log of a tenant, newest first", page_of(shapes.AuditShape), parameters=[*PAGE, *FILTERS])
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        with tenant_scope(tenant):
            return _page(self.actor(), request, records_of(tenant), of_tenant=True)


class PlatformAudit(View):
    @describe(
        "Audit log of the whole platform, with sign-ins and deleted tenants",
        page_of(shapes.AuditShape),
        parameters=[*PAGE, *FILTERS],
    )
    def get(self, request: Request) -> Response:
        with platform_scope():
            return _page(self.actor(), request, AuditRecord.objects.all(), of_tenant=False)


class AuditExport(View):
    @describe("Audit log of a tenant as a file, oldest first: for `magnetar audit verify --export`", _FILES, parameters=EXPORT)
    def get(self, request: Request, tenant: str) -> HttpResponseBase:
        existing(tenant)
        with tenant_scope(tenant):
            return export(request._request, records_of(tenant), f"audit-{tenant}", tenant=tenant)


class PlatformAuditExport(View):
    @describe("Audit log of the whole platform as a file, oldest first", _FILES, parameters=EXPORT)
    def get(self, request: Request) -> HttpResponseBase:
        with platform_scope():
            return export(request._request, AuditRecord.objects.all(), "audit", tenant="")


class AuditHeads(View):
    @describe(
        "Signed heads of the audit log, newest first, and their public key",
        shapes.AuditHeadsShape,
        parameters=PAGE,
    )
    def get(self, request: Request) -> Response:
        limit, after = limit_of(request), request.query_params.get("after", "")
        if after and not (after.isascii() and after.isdecimal() and len(after) < 19):
            raise InvalidValue("`after` is invalid: use the value of `next` from the previous page")
        rows = AuditHead.objects.order_by("-sequence")
        chosen = list((rows.filter(sequence__lt=int(after)) if after else rows)[: limit + 1])
        following = str(chosen[limit - 1].sequence) if len(chosen) > limit else None
        key = audit_statements.verify_path(django_settings.MAGNETAR).read_text()
        items = [shapes.show_audit_head(row) for row in chosen[:limit]]
        return Response(shapes.AuditHeadsShape(items=items, next=following, public_key=key))

    @describe("Sign the end of the audit log now: keep what is returned elsewhere", shapes.AuditHeadShape, status=201)
    def post(self, request: Request) -> Response:
        head = audit_actions.sign_audit_head(self.actor())
        if head is None:
            raise NotReady("the audit log is empty: there is nothing to sign yet")
        return Response(shapes.show_audit_head(head), status=201)


def _page(actor: Actor, request: Request, rows: QuerySet[AuditRecord], *, of_tenant: bool) -> Response:
    page = read_page(
        rows,
        filters_of(request.query_params),
        limit=limit_of(request),
        after=request.query_params.get("after", ""),
        of_tenant=of_tenant,
    )
    masks = RecordMasks(actor)
    return Response({"items": [shapes.show_audit(*masks.shown(row)) for row in page.records], "next": page.following})
