"""The objects of budgets, reports and the running month in the billing API."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from messaging.bodies import Text, Time, one_of
from messaging.limits import rest as limits
from tenants.rest.shapes import shown
from workers.billing import costs
from workers.billing.budget_models import Budget, Report, ReportSchedule, SpendAlert
from workers.billing.outlook import KINDS, Saving, WhatIf
from workers.rating.forecast import Forecast
from workers.rating.money import money_text

_THRESHOLDS = "1 to 10 numbers from 1 to 1000, in per cent of the amount; default 50, 80, 100."


Thresholds = Annotated[list[int], limits.THRESHOLDS, Meta(description=_THRESHOLDS)]
Emails = Annotated[list[Text], limits.EMAILS]
Title = Annotated[Text, limits.TITLE]
By = Annotated[Text, limits.BY, Meta(description="namespace, topic, meter, or label:KEY")]


class NewBudget(msgspec.Struct, kw_only=True):
    name: Title
    amount: Annotated[Text, limits.AMOUNT, Meta(description="A month, before credits and tax.")]
    currency: Annotated[Text, limits.CURRENCY]
    namespace: Annotated[str, limits.NAMESPACE, Meta(description="tenant/namespace; missing: all.")] = ""
    thresholds: Thresholds | UnsetType = UNSET
    emails: Annotated[Emails, Meta(description="Besides where all notices go.")] = []


class BudgetChange(msgspec.Struct, kw_only=True):
    name: Title | UnsetType = UNSET
    amount: Annotated[Text, limits.AMOUNT] | UnsetType = UNSET
    currency: Annotated[Text, limits.CURRENCY] | UnsetType = UNSET
    namespace: Annotated[str, limits.NAMESPACE] | UnsetType = UNSET
    thresholds: Thresholds | UnsetType = UNSET
    emails: Emails | UnsetType = UNSET


class BudgetShape(msgspec.Struct, kw_only=True):
    id: str
    name: str
    amount: str
    currency: str
    namespace: str
    thresholds: list[int]
    emails: list[str]
    created_at: Time


class SpendAlertShape(msgspec.Struct, kw_only=True):
    month: Annotated[date, Meta(description="Its first day.")]
    threshold: Annotated[int, Meta(description="In per cent of the amount.")]
    likely: Annotated[bool, Meta(description="true: by what the month is likely to cost; false: by what was spent.")]
    amount: str
    currency: str
    at: Time
    delivered: Annotated[dict[str, Any], Meta(description="How it went, by channel.")]


class NewReportSchedule(msgspec.Struct, kw_only=True):
    name: Title
    every: Annotated[str, one_of(ReportSchedule.Every.values)]
    by: By
    emails: Emails = []


class ReportScheduleChange(msgspec.Struct, kw_only=True):
    name: Title | UnsetType = UNSET
    by: By | UnsetType = UNSET
    emails: Emails | UnsetType = UNSET


class ReportScheduleShape(msgspec.Struct, kw_only=True):
    id: str
    name: str
    every: Annotated[str, one_of(ReportSchedule.Every.values)]
    by: str
    emails: list[str]
    next_first: Annotated[date, Meta(description="First day of the next report.")]
    created_at: Time


class ReportFileShape(msgspec.Struct, kw_only=True):
    name: str
    bytes: int
    sha256: str


class ReportShape(msgspec.Struct, kw_only=True):
    id: str
    schedule: Annotated[str | None, Meta(description="null: it was deleted.")]
    name: str
    by: str
    first: date
    last: date
    runs: Annotated[list[str], Meta(description="The usage runs that it came from.")]
    files: list[ReportFileShape]
    made_at: Time
    delivered: Annotated[str, Meta(description="How the mail went; empty: nobody is mailed.")]


class ForecastShape(msgspec.Struct, kw_only=True):
    """Before credits and tax."""

    currency: Annotated[str, Meta(description="Empty: nothing was charged yet.")]
    so_far: str
    likely: Annotated[str | None, Meta(description="At the end of the month; null: no whole day yet to estimate from.")]
    low: Annotated[str | None, Meta(description="About 19 of 20 months end between low and high; null: fewer than two whole days.")]
    high: str | None
    days: Annotated[int, Meta(description="How many whole days it was estimated from; 0: nothing is known of what is to come.")]
    computed_until: Annotated[Time | None, Meta(description="Usage before this is in it.")]


class WhatIfShape(msgspec.Struct, kw_only=True):
    """For 28 days, rated as if they were a month, before credits and tax."""

    currency: str
    now: str
    then: str
    stored_byte_seconds_now: int
    stored_byte_seconds_then: int


class SavingShape(msgspec.Struct, kw_only=True):
    topic: str
    why: str
    cost: Annotated[str, Meta(description="Of the last 28 days.")]
    currency: str
    subscriptions: Annotated[list[str], Meta(description="Those that messages wait for and that have no consumer.")]
    kind: Annotated[str, one_of(KINDS.values())]
    messages_in: Annotated[int, Meta(description="In these 28 days, as the following: what it rests on.")]
    messages_out: int
    stored_mean_bytes: int
    kept_bytes: Annotated[int, Meta(description="Of retention: what it keeps now that all subscriptions have acknowledged.")]
    stored_bytes: Annotated[int, Meta(description="Of which so many bytes are stored now; the cost is in proportion. 0: else.")]


def show_budget(row: Budget) -> BudgetShape:
    return shown(BudgetShape, row, amount=money_text(row.amount_minor, row.currency))


def show_alert(row: SpendAlert) -> SpendAlertShape:
    currency, delivered = row.budget.currency, row.notice.delivered if row.notice else {}
    return shown(SpendAlertShape, row, currency=currency, amount=money_text(row.amount_minor, currency), delivered=delivered)


def show_schedule(row: ReportSchedule) -> ReportScheduleShape:
    return shown(ReportScheduleShape, row, next_first=row.made_until)


def show_report(row: Report) -> ReportShape:
    return shown(ReportShape, row, schedule=row.schedule_id)


def show_forecast(forecast: Forecast, currency: str, computed_until: datetime | None) -> ForecastShape:
    unknown = {"likely": not forecast.known, "low": not forecast.bounded, "high": not forecast.bounded}
    amounts = {
        name: None if unknown.get(name) else nano_amount(getattr(forecast, name), currency)
        for name in ("so_far", "likely", "low", "high")
    }
    return shown(ForecastShape, forecast, currency=currency, computed_until=computed_until, **amounts)


def show_what_if(change: WhatIf) -> WhatIfShape:
    return WhatIfShape(
        currency=change.currency,
        now=money_text(change.now, change.currency),
        then=money_text(change.then, change.currency),
        stored_byte_seconds_now=change.stored_now,
        stored_byte_seconds_then=change.stored_then,
    )


def show_saving(saving: Saving) -> SavingShape:
    return shown(SavingShape, saving, subscriptions=list(saving.subscriptions), cost=nano_amount(saving.nano, saving.currency))


def nano_amount(nano: int, currency: str) -> str:
    return costs.nano_text(nano, currency).replace(",", "")
