"""Budgets, reports and the running month over the billing API, for the tenants they are of."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings as django_settings
from django.http import FileResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from messaging.bodies import sent_fields
from messaging.errors import InvalidValue, NotFound
from tenants.rest.base import View, page
from tenants.rest.schema import PAGE, describe, page_of
from tenants.scoping import tenant_scope
from workers.billing import budget_actions, budgets, outlook, usage
from workers.billing import budget_shapes as shapes
from workers.billing.actions import existing_tenant
from workers.billing.budget_models import Budget, Report, ReportSchedule, SpendAlert
from workers.billing.idle_subscriptions import with_subscriptions
from workers.billing.reports import KINDS, folder_of
from workers.billing.retention_savings import retention_savings

ALERTS_MAX = 200
RETENTION_DAYS_MAX = 3650
DAY_S = 86_400
NAMESPACE = OpenApiParameter("namespace", str, description="tenant/namespace; missing: all.")


class Budgets(View):
    @describe("Budgets of a tenant", page_of(shapes.BudgetShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing_tenant(tenant)
        with tenant_scope(tenant):
            return page(request, Budget.objects.all(), "id", shapes.show_budget)

    @describe("Create a budget: what is spent beyond its thresholds is said", shapes.BudgetShape, shapes.NewBudget, 201)
    def post(self, request: Request, tenant: str) -> Response:
        row = budget_actions.create_budget(self.actor(), tenant, **sent_fields(self.read(shapes.NewBudget)))
        return Response(shapes.show_budget(row), status=201)


class BudgetOne(View):
    @describe("A budget", shapes.BudgetShape)
    def get(self, request: Request, tenant: str, budget: str) -> Response:
        return Response(shapes.show_budget(budget_actions.existing_budget(tenant, budget)))

    @describe("Change a budget", shapes.BudgetShape, shapes.BudgetChange)
    def patch(self, request: Request, tenant: str, budget: str) -> Response:
        given = self.read(shapes.BudgetChange)
        return Response(shapes.show_budget(budget_actions.change_budget(self.actor(), tenant, budget, sent_fields(given))))

    @describe("Delete a budget", None, status=204)
    def delete(self, request: Request, tenant: str, budget: str) -> Response:
        budget_actions.delete_budget(self.actor(), tenant, budget)
        return Response(status=204)


class BudgetAlerts(View):
    @describe("Thresholds of a budget that were reached, the newest first", page_of(shapes.SpendAlertShape))
    def get(self, request: Request, tenant: str, budget: str) -> Response:
        row = budget_actions.existing_budget(tenant, budget)
        alerts = SpendAlert.objects.filter(budget=row).select_related("budget", "notice")[:ALERTS_MAX]
        return Response({"items": [shapes.show_alert(alert) for alert in alerts], "next": None})


class ReportSchedules(View):
    @describe("Reports on schedule of a tenant", page_of(shapes.ReportScheduleShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing_tenant(tenant)
        with tenant_scope(tenant):
            return page(request, ReportSchedule.objects.all(), "id", shapes.show_schedule)

    @describe("Put a report on schedule", shapes.ReportScheduleShape, shapes.NewReportSchedule, 201)
    def post(self, request: Request, tenant: str) -> Response:
        row = budget_actions.create_schedule(self.actor(), tenant, **sent_fields(self.read(shapes.NewReportSchedule)))
        return Response(shapes.show_schedule(row), status=201)


class ReportScheduleOne(View):
    @describe("A report on schedule", shapes.ReportScheduleShape)
    def get(self, request: Request, tenant: str, schedule: str) -> Response:
        return Response(shapes.show_schedule(budget_actions.existing_schedule(tenant, schedule)))

    @describe("Change a report on schedule, from the next one on", shapes.ReportScheduleShape, shapes.ReportScheduleChange)
    def patch(self, request: Request, tenant: str, schedule: str) -> Response:
        given = self.read(shapes.ReportScheduleChange)
        return Response(shapes.show_schedule(budget_actions.change_schedule(self.actor(), tenant, schedule, sent_fields(given))))

    @describe("Make a report no more; those that were made stay", None, status=204)
    def delete(self, request: Request, tenant: str, schedule: str) -> Response:
        budget_actions.delete_schedule(self.actor(), tenant, schedule)
        return Response(status=204)


class Reports(View):
    @describe("Reports that were made", page_of(shapes.ReportShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing_tenant(tenant)
        with tenant_scope(tenant):
            return page(request, Report.objects.all(), "id", shapes.show_report)


class ReportOne(View):
    @describe("A report that was made", shapes.ReportShape)
    def get(self, request: Request, tenant: str, report: str) -> Response:
        return Response(shapes.show_report(budget_actions.existing_report(tenant, report)))


class ReportFile(View):
    @describe(
        "A file of a report: report.csv, report.json, report.parquet or report.html",
        {(200, kind): OpenApiTypes.BINARY for kind in KINDS.values()},
    )
    def get(self, request: Request, tenant: str, report: str, file: str) -> HttpResponseBase:
        row = budget_actions.existing_report(tenant, report)
        path = folder_of(django_settings.MAGNETAR, row.pk) / file
        if file not in {entry["name"] for entry in row.files} or not path.is_file():
            raise NotFound(f"the report has no file {file[:80]!r}")
        kind = KINDS[file.rpartition(".")[2]]
        return FileResponse(path.open("rb"), as_attachment=True, filename=f"{row.first}-{file}", content_type=kind)


class MonthForecast(View):
    @describe("What the running month has cost and is likely to cost, with bounds", shapes.ForecastShape, parameters=[NAMESPACE])
    def get(self, request: Request, tenant: str) -> Response:
        tenant_row, now = existing_tenant(tenant), datetime.now(UTC)
        currency = outlook.currency_of_month(tenant_row.uid, now.date())
        ahead = budgets.month_ahead(tenant_row.uid, currency, now, _namespace(request))
        return Response(shapes.show_forecast(ahead, currency, usage.computed_until()))


class WhatIf(View):
    @describe(
        "What the last 28 days would have cost with another retention",
        shapes.WhatIfShape,
        parameters=[
            OpenApiParameter("retention_days", int, required=True, description=f"0 to {RETENTION_DAYS_MAX}."),
            NAMESPACE,
        ],
    )
    def get(self, request: Request, tenant: str) -> Response:
        text = request.query_params.get("retention_days", "")
        if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) <= RETENTION_DAYS_MAX):
            raise InvalidValue(f"retention_days {text[:20]!r} is not a number from 0 to {RETENTION_DAYS_MAX}")
        what_if = outlook.with_retention(existing_tenant(tenant), int(text) * DAY_S, _namespace(request), datetime.now(UTC))
        return Response(shapes.show_what_if(what_if))


class Savings(View):
    @describe(
        "What would lower a bill, the dearest first: what nobody reads, and what retention keeps of what all have read",
        page_of(shapes.SavingShape),
    )
    def get(self, request: Request, tenant: str) -> Response:
        uid, now = existing_tenant(tenant).uid, datetime.now(UTC)
        kept, _ = retention_savings(uid, now)
        savings = outlook.together([*with_subscriptions(outlook.savings(uid, now)), *kept])
        return Response({"items": [shapes.show_saving(saving) for saving in savings], "next": None})


def _namespace(request: Request) -> str:
    namespace = request.query_params.get("namespace", "")
    if "\x00" in namespace:
        raise InvalidValue("`namespace` is not the name of a namespace")
    return namespace
