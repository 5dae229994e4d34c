"""The billing API: price plans and accounts for administrators; invoices, costs and usage for the tenants they are of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from tempfile import TemporaryFile
from typing import IO

from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.bodies import sent_fields
from messaging.errors import InvalidValue
from messaging.permissions.model import Action, Resource
from tenants.access import require
from tenants.http.authentication import actor_now
from tenants.http.piecewise import PiecewiseResponse
from tenants.rest.base import View, page
from tenants.rest.schema import PAGE, describe, page_of
from tenants.scoping import tenant_scope
from workers.billing import actions, costs, drilldown, headers, shapes, usage
from workers.billing.files import write_usage
from workers.billing.models import Credit, Invoice, PlanAssignment, PricePlanVersion
from workers.billing.usage_lines import DAYS_MAX, FORMATS, LEVELS, usage_lines

SPAN = [
    OpenApiParameter("first", OpenApiTypes.DATE, description="First day, UTC; default: the first of this month."),
    OpenApiParameter("last", OpenApiTypes.DATE, description="Last day, UTC; default: today."),
]
PIECE_BYTES = 256 << 10


class PricePlans(View):
    @describe("Versions of price plans", page_of(shapes.PricePlanShape), parameters=PAGE)
    def get(self, request: Request) -> Response:
        return page(request, PricePlanVersion.objects.all(), "id", shapes.show_plan)

    @describe("Publish a version of a price plan; it can never be changed", shapes.PricePlanShape, shapes.NewPricePlan, 201)
    def post(self, request: Request) -> Response:
        given = self.read(shapes.NewPricePlan)
        return Response(shapes.show_plan(actions.publish_plan(self.actor(), given.document)), status=201)


class IssuerOne(View):
    @describe("Who sends the invoices", shapes.IssuerShape)
    def get(self, request: Request) -> Response:
        return Response(shapes.show_issuer(headers.issuer()))

    @describe("Say who sends the invoices", shapes.IssuerShape, shapes.NewIssuer)
    def put(self, request: Request) -> Response:
        given = self.read(shapes.NewIssuer)
        return Response(shapes.show_issuer(actions.set_issuer(self.actor(), **sent_fields(given))))


class Billing(View):
    @describe("Who pays for a tenant", shapes.BillingShape)
    def get(self, request: Request, tenant: str) -> Response:
        tenant_row = actions.existing_tenant(tenant)
        return Response(shapes.show_account(headers.account_of(tenant_row.uid, tenant)))

    @describe("Change who pays for a tenant", shapes.BillingShape, shapes.BillingChange)
    def patch(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.BillingChange)
        return Response(shapes.show_account(actions.set_account(self.actor(), tenant, sent_fields(given))))


class PlanAssignments(View):
    @describe("The price plans of a tenant", page_of(shapes.PlanAssignmentShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        with tenant_scope(tenant):
            return page(request, PlanAssignment.objects.all(), "id", shapes.show_assignment)

    @describe("Have a tenant pay by a plan from a time on", shapes.PlanAssignmentShape, shapes.NewPlanAssignment, 201)
    def post(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.NewPlanAssignment)
        row = actions.assign_plan(self.actor(), tenant, given.plan, _utc(given.starts_at))
        return Response(shapes.show_assignment(row), status=201)


class Credits(View):
    @describe("Credits of a tenant", page_of(shapes.CreditShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        with tenant_scope(tenant):
            return page(request, Credit.objects.all(), "id", shapes.show_credit)

    @describe("Give a tenant a credit", shapes.CreditShape, shapes.NewCredit, 201)
    def post(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.NewCredit)
        row = actions.grant_credit(self.actor(), tenant, given.title, given.currency, given.amount, given.expires)
        return Response(shapes.show_credit(row), status=201)


class Invoices(View):
    @describe("Invoices and credit notes of a tenant", page_of(shapes.InvoiceShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        with tenant_scope(tenant):
            return page(request, Invoice.objects.defer("document"), "id", shapes.show_invoice)


class InvoiceOne(View):
    @describe("An invoice with everything it was made of, as `magnetar usage verify` reads it", OpenApiTypes.OBJECT)
    def get(self, request: Request, tenant: str, invoice: str) -> Response:
        return Response(actions.existing_invoice(tenant, invoice).document)


class CreditNotes(View):
    @describe("Take back an invoice, or a part of it", shapes.InvoiceShape, shapes.NewCreditNote, 201)
    def post(self, request: Request, tenant: str, invoice: str) -> Response:
        given = self.read(shapes.NewCreditNote)
        made = actions.take_back(self.actor(), tenant, invoice, given.amounts, given.note)
        return Response(shapes.show_invoice(made), status=201)


class LineUsage(View):
    @describe("What a line was made of: hours, topics and usage runs", shapes.LineUsage)
    def get(self, request: Request, tenant: str, invoice: str, line: str) -> Response:
        return Response(drilldown.usage_of_line(actions.existing_invoice(tenant, invoice), line))


class UsageFile(View):
    @describe(
        "Hourly usage as Parquet, for spreadsheets and for `magnetar usage verify`",
        {(200, "application/vnd.apache.parquet"): OpenApiTypes.BINARY},
        parameters=SPAN,
    )
    def get(self, request: Request, tenant: str) -> HttpResponseBase:
        tenant_row = actions.existing_tenant(tenant)
        first, last = span_of(request)
        start = datetime(first.year, first.month, first.day, tzinfo=UTC)
        end = datetime(last.year, last.month, last.day, tzinfo=UTC) + timedelta(days=1)
        file = TemporaryFile()  # noqa: SIM115  (closed when it was sent)
        write_usage(usage.rows_between(tenant_row.uid, start, end), file)
        file.seek(0)
        response = PiecewiseResponse(_pieces(file), _still_of(request, tenant), "application/vnd.apache.parquet")
        response["Content-Disposition"] = f'attachment; filename="usage-{tenant}-{first}-{last}.parquet"'
        response["Cache-Control"] = "no-store"
        return response


class UsageLines(View):
    @describe(
        "Usage of each day as lines of text, in the exact quantities that invoices are made of",
        {(200, kind.partition(";")[0]): OpenApiTypes.STR for kind in FORMATS.values()},
        parameters=[
            *SPAN,
            OpenApiParameter("by", str, enum=list(LEVELS), description="namespace is the default."),
            OpenApiParameter("format", str, enum=list(FORMATS), description="csv is the default."),
        ],
    )
    def get(self, request: Request, tenant: str) -> HttpResponseBase:
        tenant_row = actions.existing_tenant(tenant)
        first, last = span_of(request)
        level, form = request.query_params.get("by", "namespace"), request.query_params.get("format", "csv")
        for name, value, choices in (("by", level, LEVELS), ("format", form, tuple(FORMATS))):
            if value not in choices:
                raise InvalidValue(f"{name} {value[:40]!r} is not one of {', '.join(choices)}")
        lines = usage_lines({tenant: tenant_row.uid}, first, last, level, form)
        response = PiecewiseResponse(lines, _still_of(request, tenant), FORMATS[form])
        response["Content-Disposition"] = f'attachment; filename="usage-{tenant}-by-{level}-{first}-{last}.{form}"'
        response["Cache-Control"] = "no-store"
        return response


class Costs(View):
    @describe(
        "What a tenant's usage cost",
        shapes.CostsShape,
        parameters=[
            *SPAN,
            OpenApiParameter(
                "by",
                str,
                description="namespace (default), topic, meter, subscription, key, tenant, label:KEY or tenant-label:KEY.",
            ),
            OpenApiParameter("step", str, enum=[costs.DAY, costs.MONTH]),
        ],
    )
    def get(self, request: Request, tenant: str) -> Response:
        tenant_row = actions.existing_tenant(tenant)
        first, last = span_of(request)
        by, step = request.query_params.get("by", "namespace"), request.query_params.get("step", costs.DAY)
        if not costs.groups_by(by) or "\x00" in by:
            raise InvalidValue(f"by {by[:40]!r} is not one of {', '.join(costs.LEVELS)}, label:KEY or tenant-label:KEY")
        if step not in (costs.DAY, costs.MONTH):
            raise InvalidValue(f"step {step[:40]!r} is neither day nor month")
        question = costs.Question([tenant_row.uid], first, last, by, step)
        currency = next(iter(sorted(costs.currencies_of(question), reverse=True)), "")
        answer = costs.ask(costs.Question([tenant_row.uid], first, last, by, step, currency), names_max=1000)
        items = [
            shapes.CostCell(name=name, start=start, cost=costs.nano_text(nano, currency).replace(",", ""))
            for (name, start), nano in sorted(answer.cells.items(), key=lambda item: (item[0][1], item[0][0]))
        ]
        totals = [
            shapes.CostTotal(currency=code, total=costs.nano_text(nano, code).replace(",", ""))
            for code, nano in costs.totals_by_currency(question).items()
        ]
        total = costs.nano_text(answer.total, currency).replace(",", "")
        return Response(shapes.CostsShape(currency=currency, total=total, totals=totals, items=items))


def _still_of(request: Request, tenant: str) -> Callable[[], None]:
    return lambda: require(actor_now(request._request), Action.USAGE_READ, Resource(tenant))


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def _utc(at: datetime) -> datetime:
    """Raises `InvalidValue` for what is far from any invoice."""
    if not 2000 <= at.year <= 9000:
        raise InvalidValue(f"the year {at.year} is not between 2000 and 9000")
    return at.astimezone(UTC)


def span_of(request: Request) -> tuple[date, date]:
    """The days asked for. Raises `InvalidValue`."""
    today = datetime.now(UTC).date()
    try:
        last = date.fromisoformat(request.query_params.get("last", today.isoformat()))
        first = date.fromisoformat(request.query_params.get("first", last.replace(day=1).isoformat()))
    except ValueError:
        raise InvalidValue("first and last are days like 2026-11-01") from None
    if not timedelta(0) <= last - first < timedelta(days=DAYS_MAX) or first.year < 2000 or last.year > 9000:
        raise InvalidValue(f"first {first} and last {last} must lie in order, at most {DAYS_MAX} days apart, after the year 2000")
    return first, last
