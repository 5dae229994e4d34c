"""The billing part of /api/v1. Permissions: `workers.rest.permissions`."""

from __future__ import annotations

from django.urls import path

from tenants.pulsar import urls as _converters  # noqa: F401
from tenants.rest.lazy import LazyView

app_name = "billing"
_T = "tenants/<segment:tenant>"
_INVOICE = f"{_T}/invoices/<segment:invoice>"


def _path(route: str, target: str, name: str) -> object:
    return path(route, LazyView(f"workers.billing.{target}"), name=name)


urlpatterns = [
    _path("price-plans", "rest:PricePlans", "price-plans"),
    _path("billing/issuer", "rest:IssuerOne", "issuer"),
    _path(f"{_T}/billing", "rest:Billing", "account"),
    _path(f"{_T}/billing/plans", "rest:PlanAssignments", "plan-assignments"),
    _path(f"{_T}/billing/credits", "rest:Credits", "credits"),
    _path(f"{_T}/invoices", "rest:Invoices", "invoices"),
    _path(_INVOICE, "rest:InvoiceOne", "invoice"),
    _path(f"{_INVOICE}/credit-notes", "rest:CreditNotes", "credit-notes"),
    _path(f"{_INVOICE}/lines/<segment:line>/usage", "rest:LineUsage", "line-usage"),
    _path(f"{_T}/usage/parquet", "rest:UsageFile", "usage-file"),
    _path(f"{_T}/usage/days", "rest:UsageLines", "usage-lines"),
    _path(f"{_T}/billing/drafts", "draft_rest:Drafts", "drafts"),
    _path(f"{_T}/costs", "rest:Costs", "costs"),
    _path(f"{_T}/estimate", "budget_rest:MonthForecast", "estimate"),
    _path(f"{_T}/what-if", "budget_rest:WhatIf", "what-if"),
    _path(f"{_T}/savings", "budget_rest:Savings", "savings"),
    _path(f"{_T}/budgets", "budget_rest:Budgets", "budgets"),
    _path(f"{_T}/budgets/<segment:budget>", "budget_rest:BudgetOne", "budget"),
    _path(f"{_T}/budgets/<segment:budget>/alerts", "budget_rest:BudgetAlerts", "budget-alerts"),
    path(f"{_T}/spend-caps", LazyView("workers.spend_caps.rest:SpendCaps"), name="spend-caps"),
    path(f"{_T}/spend-caps/tenant", LazyView("workers.spend_caps.rest:TenantSpendCap"), name="spend-cap"),
    path(f"{_T}/spend-caps/platform", LazyView("workers.spend_caps.rest:PlatformSpendCap"), name="platform-spend-cap"),
    _path(f"{_T}/report-schedules", "budget_rest:ReportSchedules", "report-schedules"),
    _path(f"{_T}/report-schedules/<segment:schedule>", "budget_rest:ReportScheduleOne", "report-schedule"),
    _path(f"{_T}/reports", "budget_rest:Reports", "reports"),
    _path(f"{_T}/reports/<segment:report>", "budget_rest:ReportOne", "report"),
    _path(f"{_T}/reports/<segment:report>/files/<segment:file>", "budget_rest:ReportFile", "report-file"),
]
