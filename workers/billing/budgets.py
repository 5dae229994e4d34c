"""The running month: what it has cost, what it is likely to cost, and who is told when a budget is reached."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from datetime import date, datetime, timedelta

from django.db import transaction

from tenants.scoping import platform_scope
from workers.alerts import sentences
from workers.alerts.notices import TenantRef, say
from workers.billing.budget_models import Budget, SpendAlert
from workers.billing.exact_sums import ExactSum
from workers.billing.models import NANO, Charge
from workers.rating.forecast import DAYS_LOOKED_AT, Forecast, crossed, forecast
from workers.rating.money import CURRENCIES, money_text
from workers.rating.units import METERS


def month_ahead(tenant_uid: str, currency: str, now: datetime, namespace: str = "") -> Forecast:
    """In 10^-9 of the currency. Fees count as they are; usage of whole days before today is carried on."""
    today = now.date()
    month = today.replace(day=1)
    following = (month + timedelta(days=32)).replace(day=1)
    with platform_scope():
        charges = Charge.objects.filter(series__tenant_uid=tenant_uid, currency=currency, day__lt=following)
    if namespace:
        charges = charges.filter(series__namespace=namespace)
    so_far = charges.filter(day__gte=month).aggregate(nano=ExactSum("nano"))["nano"] or 0
    since = today - timedelta(days=DAYS_LOOKED_AT)
    used = charges.filter(day__gte=since, day__lt=today, meter__in=METERS).order_by().values_list("day")
    by_day: dict[date, int] = defaultdict(int)
    for day, nano in used.annotate(ExactSum("nano")):
        by_day[day] += nano
    first = min(by_day, default=today)
    days = [by_day[first + timedelta(days=index)] for index in range((today - first).days)]
    of_today = charges.filter(day=today, meter__in=METERS).aggregate(nano=ExactSum("nano"))["nano"] or 0
    ahead = forecast(so_far - of_today, days, (following - today).days)
    return Forecast(so_far, max(so_far, ahead.low), max(so_far, ahead.likely), max(so_far, ahead.high), ahead.days)


def check(budget: Budget, now: datetime) -> list[SpendAlert]:
    """Tells of thresholds that were reached since the last time; each once a month by what was spent, once by what is likely."""
    ahead = month_ahead(budget.tenant_uid, budget.currency, now, budget.namespace)
    scale = NANO // int(10 ** CURRENCIES[budget.currency])
    month = now.date().replace(day=1)
    made = []
    for likely, nano in ((False, ahead.so_far), *([(True, ahead.likely)] if ahead.known else [])):
        for threshold in crossed(budget.thresholds, nano, budget.amount_minor * scale):
            alert = _tell(budget, SpendAlert(month=month, threshold=threshold, likely=likely, amount_minor=nano // scale, at=now))
            if alert is not None:
                made.append(alert)
    return made


def _tell(budget: Budget, alert: SpendAlert) -> SpendAlert | None:
    """The alert and its notice, together or not at all; None if there is one."""
    said = {"month": alert.month, "threshold": alert.threshold, "likely": alert.likely}
    if budget.alerts.filter(**said).exists():
        return None
    alert.budget = budget
    about = f"{alert.month:%Y-%m} {alert.threshold} {'likely' if alert.likely else 'spent'}"
    of = hashlib.sha256(f"{budget.amount_minor} {budget.currency} {budget.namespace}".encode()).hexdigest()[:16]
    with transaction.atomic():
        alert.notice = say(
            alert.at,
            TenantRef(budget.tenant, budget.tenant_uid),
            "budget",
            f"budget {budget.id} {about} of {of}",  # what was changed is told of anew
            *_sentences(alert),
            budget.emails,
        )
        alert.save()
    return alert


def _sentences(alert: SpendAlert) -> sentences.Sentences:
    budget = alert.budget
    spent, whole = (
        f"{money_text(amount, budget.currency)} {budget.currency}" for amount in (alert.amount_minor, budget.amount_minor)
    )
    return sentences.budget(
        budget.name, budget.tenant, budget.namespace, alert.month, spent, whole, alert.threshold, likely=alert.likely
    )
