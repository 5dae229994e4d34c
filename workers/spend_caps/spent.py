"""What a tenant has spent in the running month: the subtotal of its draft, so that it is what the bill says so far."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from tenants.scoping import platform_scope
from workers.billing.models import Invoice
from workers.rating.document import time_of
from workers.rating.money import minor_of, money_text
from workers.rating.rate import HOUR
from workers.spend_caps.models import SpendCap

NO_DRAFT = "nothing of the month has been billed yet"
NO_PLAN = "no price plan has been in force this month"


@dataclass(frozen=True)
class Spent:
    """`minor`: before credits and tax, fees included; None where it is not known, and `unknown` says why. `until`: usage before
    this is in it, but for hours that are missing; None: no usage is."""

    month: datetime
    currency: str = ""
    minor: int | None = None
    until: datetime | None = None
    unknown: str = ""

    @property
    def text(self) -> str:
        return "unknown" if self.minor is None else f"{money_text(self.minor, self.currency)} {self.currency}"

    def unknown_for(self, cap: SpendCap) -> str:
        """Why it is not known what is used of `cap`; "" where it is."""
        if self.minor is None:
            return self.unknown
        if cap.currency != self.currency:
            return f"the month is billed in {self.currency}, and the cap is in {cap.currency}"
        return ""

    def percent_of(self, cap: SpendCap) -> int | None:
        """Rounded down; None where it is not known."""
        percent = self.exact_percent_of(cap)
        return None if percent is None else int(percent)

    def exact_percent_of(self, cap: SpendCap) -> Fraction | None:
        """None where it is not known."""
        if self.minor is None or self.unknown_for(cap):
            return None
        return max(Fraction(0), Fraction(100 * self.minor, cap.amount_minor))

    def reaches(self, cap: SpendCap) -> bool:
        """What is not known reaches nothing."""
        return self.minor is not None and not self.unknown_for(cap) and self.minor >= cap.amount_minor


def spent_of(tenant_uid: str, now: datetime) -> Spent:
    month = datetime(now.year, now.month, 1, tzinfo=UTC)
    with platform_scope():
        drafts = list(Invoice.objects.filter(tenant_uid=tenant_uid, start=month, kind=Invoice.Kind.INVOICE))
    if not drafts:
        return Spent(month, unknown=NO_DRAFT)
    # One in another currency than the month's, with corrections of earlier months, has no segments.
    draft = next((draft for draft in drafts if draft.document["segments"]), None)
    if draft is None:
        return Spent(month, unknown=NO_PLAN)
    minor = minor_of(draft.document["subtotal"], draft.currency, "subtotal")
    return Spent(month, draft.currency, minor, _until(draft.document["hours"], draft.made_at))


def _until(hours: list[dict[str, Any]], made_at: datetime) -> datetime | None:
    return min(time_of(hours[-1]["hour"]) + HOUR, made_at) if hours else None
