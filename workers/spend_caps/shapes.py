"""The objects of the part of our API that is about spend caps."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from messaging.bodies import Text, Time, one_of
from messaging.limits import rest as limits
from messaging.limits.model import Limit
from messaging.policies.spending import SPEND_RATES
from tenants.models import Tenant
from workers.rating.money import money_text
from workers.spend_caps.actions import RATE_MAX
from workers.spend_caps.enforcement import caps_of
from workers.spend_caps.models import SpendCap
from workers.spend_caps.spent import Spent, spent_of

RATE = Limit("a rate a second", minimum=0, maximum=RATE_MAX)
Then = Annotated[
    str, one_of(SpendCap.Then.values), Meta(description="Once it is reached: throttle to the rates, or stop: refuse producers.")
]
Rate = Annotated[int, RATE, Meta(description="A second, of the whole tenant; 0: not throttled. For throttle alone.")]


class NewSpendCap(msgspec.Struct, kw_only=True):
    amount: Annotated[Text, limits.AMOUNT, Meta(description="A month, before credits and tax.")]
    currency: Annotated[Text, limits.CURRENCY]
    action: Then
    publish_rate_messages: Rate = 0
    publish_rate_bytes: Rate = 0
    dispatch_rate_messages: Rate = 0
    dispatch_rate_bytes: Rate = 0


class SpendCapShape(msgspec.Struct, kw_only=True):
    set_by: Annotated[str, one_of(SpendCap.SetBy.values), Meta(description="A tenant cannot change what the platform has set.")]
    amount: str
    currency: str
    action: Then
    publish_rate_messages: Rate
    publish_rate_bytes: Rate
    dispatch_rate_messages: Rate
    dispatch_rate_bytes: Rate
    used_percent: Annotated[int | None, Meta(description="null: it is not known, and then nothing is done.")]
    reached: bool
    unknown: Annotated[str, Meta(description="Why it is not known what is used.")]
    changed_at: Time
    changed_by: str


class SpendCapsShape(msgspec.Struct, kw_only=True):
    month: Annotated[date, Meta(description="The running one (UTC): its first day.")]
    spent: Annotated[str | None, Meta(description="As the draft of the month has it, before credits and tax; null: not known.")]
    currency: Annotated[str, Meta(description="Of what was spent; empty where that is not known.")]
    usage_until: Annotated[Time | None, Meta(description="Usage before this is in it; null: none is.")]
    unknown: Annotated[str, Meta(description="Why it is not known what was spent.")]
    stopped: Annotated[str, Meta(description="Why producers are refused; empty: they are not.")]
    throttled_to: Annotated[dict[str, int], Meta(description="The rates that are in force, by policy; empty: none.")]
    caps: list[SpendCapShape]


def rates_given(given: NewSpendCap) -> dict[str, int]:
    return {name: getattr(given, _field(name)) for name in SPEND_RATES}


def show_caps(tenant: Tenant, now: datetime) -> SpendCapsShape:
    spent = spent_of(tenant.uid, now)
    return SpendCapsShape(
        month=spent.month.date(),
        spent=None if spent.minor is None else money_text(spent.minor, spent.currency),
        currency=spent.currency,
        usage_until=spent.until,
        unknown=spent.unknown,
        stopped=tenant.spend.get("stopped", ""),
        throttled_to=tenant.spend.get("rates", {}),
        caps=[show_cap(cap, spent) for cap in caps_of(tenant.uid)],
    )


def show_cap(cap: SpendCap, spent: Spent) -> SpendCapShape:
    return SpendCapShape(
        set_by=cap.set_by,
        amount=money_text(cap.amount_minor, cap.currency),
        currency=cap.currency,
        action=cap.action,
        used_percent=spent.percent_of(cap),
        reached=spent.reaches(cap),
        unknown=spent.unknown_for(cap),
        changed_at=cap.changed_at,
        changed_by=cap.changed_by,
        **{_field(name): cap.rates.get(name, 0) for name in SPEND_RATES},
    )


def _field(policy: str) -> str:
    return policy.removeprefix("tenant_")
