"""The billing part of /api/v1. Permissions: messaging/permissions/table_rest.py."""

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
    _path(f"{_T}/costs", "rest:Costs", "costs"),
]
