"""The objects of budgets, reports and the running month in the billing API."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from workers.billing import costs
from workers.billing.budget_models import Budget, Report, ReportSchedule, SpendAlert
from workers.billing.outlook import Saving, WhatIf
from workers.rating.forecast import Forecast
from workers.rating.money import money_text

_THRESHOLDS = "1 to 10 numbers from 1 to 1000, in per cent of the amount; default 50, 80, 100."
_BY = "namespace, topic, meter, or label:KEY"


class NewBudget(serializers.Serializer[Any]):
    name = serializers.CharField()
    amount = serializers.CharField(help_text="A month, before credits and tax.")
    currency = serializers.CharField()
    namespace = serializers.CharField(required=False, allow_blank=True, help_text="tenant/namespace; missing: all.")
    thresholds = serializers.ListField(
        child=serializers.IntegerField(), required=False, help_text=f"{_THRESHOLDS} Default 50, 80, 100."
    )
    emails = serializers.ListField(child=serializers.CharField(), required=False, help_text="Besides where all notices go.")


class BudgetChange(serializers.Serializer[Any]):
    name = serializers.CharField(required=False)
    amount = serializers.CharField(required=False)
    currency = serializers.CharField(required=False)
    namespace = serializers.CharField(required=False, allow_blank=True)
    thresholds = serializers.ListField(child=serializers.IntegerField(), required=False, help_text=_THRESHOLDS)
    emails = serializers.ListField(child=serializers.CharField(), required=False)


class BudgetShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    amount = serializers.CharField()
    currency = serializers.CharField()
    namespace = serializers.CharField(allow_blank=True)
    thresholds = serializers.ListField(child=serializers.IntegerField())
    emails = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()


class SpendAlertShape(serializers.Serializer[Any]):
    month = serializers.DateField(help_text="Its first day.")
    threshold = serializers.IntegerField(help_text="In per cent of the amount.")
    likely = serializers.BooleanField(help_text="true: by what the month is likely to cost; false: by what was spent.")
    amount = serializers.CharField()
    currency = serializers.CharField()
    at = serializers.DateTimeField()
    delivered = serializers.DictField(help_text="How it went, by channel.")


class NewReportSchedule(serializers.Serializer[Any]):
    name = serializers.CharField()
    every = serializers.ChoiceField(ReportSchedule.Every.values)
    by = serializers.CharField(help_text=_BY)
    emails = serializers.ListField(child=serializers.CharField(), required=False)


class ReportScheduleChange(serializers.Serializer[Any]):
    name = serializers.CharField(required=False)
    by = serializers.CharField(required=False, help_text=_BY)
    emails = serializers.ListField(child=serializers.CharField(), required=False)


class ReportScheduleShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    every = serializers.ChoiceField(ReportSchedule.Every.values)
    by = serializers.CharField()
    emails = serializers.ListField(child=serializers.CharField())
    next_first = serializers.DateField(help_text="First day of the next report.")
    created_at = serializers.DateTimeField()


class ReportFileShape(serializers.Serializer[Any]):
    name = serializers.CharField()
    bytes = serializers.IntegerField()
    sha256 = serializers.CharField()


class ReportShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    schedule = serializers.CharField(allow_null=True, help_text="null: it was deleted.")
    name = serializers.CharField()
    by = serializers.CharField()
    first = serializers.DateField()
    last = serializers.DateField()
    runs = serializers.ListField(child=serializers.CharField(), help_text="The usage runs that it came from.")
    files = ReportFileShape(many=True)
    made_at = serializers.DateTimeField()
    delivered = serializers.CharField(allow_blank=True, help_text="How the mail went; empty: nobody is mailed.")


class ForecastShape(serializers.Serializer[Any]):
    """Before credits and tax."""

    currency = serializers.CharField(allow_blank=True, help_text="Empty: nothing was charged yet.")
    so_far = serializers.CharField()
    likely = serializers.CharField(allow_null=True, help_text="At the end of the month; null: no whole day yet to estimate from.")
    low = serializers.CharField(
        allow_null=True, help_text="About 19 of 20 months end between low and high; null: fewer than two whole days."
    )
    high = serializers.CharField(allow_null=True)
    days = serializers.IntegerField(help_text="How many whole days it was estimated from; 0: nothing is known of what is to come.")
    computed_until = serializers.DateTimeField(allow_null=True, help_text="Usage before this is in it.")


class WhatIfShape(serializers.Serializer[Any]):
    """For 28 days, rated as if they were a month, before credits and tax."""

    currency = serializers.CharField()
    now = serializers.CharField()
    then = serializers.CharField()
    stored_byte_seconds_now = serializers.IntegerField()
    stored_byte_seconds_then = serializers.IntegerField()


class SavingShape(serializers.Serializer[Any]):
    topic = serializers.CharField()
    why = serializers.CharField()
    cost = serializers.CharField(help_text="Of the last 28 days.")
    currency = serializers.CharField(allow_blank=True)
    subscriptions = serializers.ListField(
        child=serializers.CharField(), help_text="Those that messages wait for and that have no consumer."
    )


def show_budget(row: Budget) -> dict[str, Any]:
    fields = ("id", "name", "currency", "namespace", "thresholds", "emails", "created_at")
    return {**{field: getattr(row, field) for field in fields}, "amount": money_text(row.amount_minor, row.currency)}


def show_alert(row: SpendAlert) -> dict[str, Any]:
    shown = {field: getattr(row, field) for field in ("month", "threshold", "likely", "at")}
    currency, delivered = row.budget.currency, row.notice.delivered if row.notice else {}
    return {**shown, "currency": currency, "amount": money_text(row.amount_minor, currency), "delivered": delivered}


def show_schedule(row: ReportSchedule) -> dict[str, Any]:
    fields = ("id", "name", "every", "by", "emails", "created_at")
    return {**{field: getattr(row, field) for field in fields}, "next_first": row.made_until}


def show_report(row: Report) -> dict[str, Any]:
    fields = ("id", "name", "by", "first", "last", "runs", "files", "made_at", "delivered")
    return {**{field: getattr(row, field) for field in fields}, "schedule": row.schedule_id}


def show_forecast(found: Forecast, currency: str, computed_until: Any) -> dict[str, Any]:
    amounts = {name: nano_amount(getattr(found, name), currency) for name in ("so_far", "likely", "low", "high")}
    unknown = {"likely": not found.known, "low": not found.bounded, "high": not found.bounded}
    shown = {name: None if unknown.get(name) else amount for name, amount in amounts.items()}
    return {"currency": currency, **shown, "days": found.days, "computed_until": computed_until}


def show_what_if(found: WhatIf) -> dict[str, Any]:
    return {
        "currency": found.currency,
        "now": money_text(found.now, found.currency),
        "then": money_text(found.then, found.currency),
        "stored_byte_seconds_now": found.stored_now,
        "stored_byte_seconds_then": found.stored_then,
    }


def show_saving(one: Saving) -> dict[str, Any]:
    shown = {"topic": one.topic, "why": one.why, "currency": one.currency, "subscriptions": list(one.subscriptions)}
    return {**shown, "cost": nano_amount(one.nano, one.currency)}


def nano_amount(nano: int, currency: str) -> str:
    return costs.nano_text(nano, currency).replace(",", "")
