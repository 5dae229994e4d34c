"""The objects of the billing API, for validation and for the OpenAPI document."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from messaging.bodies import AS_SENT, Text, Time, one_of
from messaging.limits import rest as limits
from messaging.limits.model import Limit
from tenants.rest.shapes import shown
from workers.billing.models import BillingAccount, Credit, Invoice, Issuer, PlanAssignment, PricePlanVersion
from workers.rating.money import money_text


class PricePlanShape(msgspec.Struct, kw_only=True):
    id: str
    plan: str
    version: int
    title: str
    currency: str
    in_force_from: Time
    document: Annotated[dict[str, Any], Meta(description="What was published.")]
    created_at: Time
    created_by: str


class NewPricePlan(msgspec.Struct, kw_only=True):
    document: Annotated[
        dict[str, Any],
        Limit("a price plan; its fields have their own limits (workers.rating.plan)", count_max=16),
        AS_SENT,
        Meta(description="A price plan: plan, version, currency, in_force_from, prices and more."),
    ]


class IssuerShape(msgspec.Struct, kw_only=True):
    details: Annotated[dict[str, str], Meta(description="name, address, tax_id, email and bank")]
    forgiven_minor: Annotated[int, Meta(description="Late usage of a closed month up to this many cents is not charged.")]


class NewIssuer(msgspec.Struct, kw_only=True):
    details: Annotated[dict[str, str], limits.DETAILS]
    forgiven_minor: Annotated[int, Limit("an amount of a few cents", minimum=0, maximum=1_000_000)] | UnsetType = UNSET


class BillingShape(msgspec.Struct, kw_only=True):
    tenant: str
    details: Annotated[dict[str, str], Meta(description="name, address, tax_id, email")]
    tax_label: str
    tax_rate: Annotated[str, Meta(description="Per cent, as text.")]
    payment_days: int


class BillingChange(msgspec.Struct, kw_only=True):
    details: Annotated[dict[str, str], limits.DETAILS] | UnsetType = UNSET
    tax_label: Annotated[str, Limit("is printed on invoices", bytes_max=40)] | UnsetType = UNSET
    tax_rate: Annotated[Text, Limit("per cent, with a few digits", bytes_max=12)] | UnsetType = UNSET
    payment_days: Annotated[int, Limit("within a year", minimum=0, maximum=365)] | UnsetType = UNSET


class PlanAssignmentShape(msgspec.Struct, kw_only=True):
    id: str
    plan: str
    starts_at: Time


class NewPlanAssignment(msgspec.Struct, kw_only=True):
    plan: Annotated[Text, limits.PLAN_NAME]
    starts_at: Annotated[Time, Meta(description="The start of an hour.")]


class CreditShape(msgspec.Struct, kw_only=True):
    id: str
    title: str
    currency: str
    amount: str
    expires: date | None


class NewCredit(msgspec.Struct, kw_only=True):
    title: Annotated[Text, Limit("is printed on invoices", bytes_max=200)]
    currency: Annotated[Text, limits.CURRENCY]
    amount: Annotated[Text, limits.AMOUNT]
    expires: date | None = None


class InvoiceShape(msgspec.Struct, kw_only=True):
    id: str
    number: Annotated[str | None, Meta(description="null: a draft.")]
    kind: Annotated[str, one_of(Invoice.Kind.values)]
    state: Annotated[str, one_of(Invoice.State.values)]
    start: Time
    end: Time
    currency: str
    total: str
    made_at: Time
    issued_at: Time | None


class NewCreditNote(msgspec.Struct, kw_only=True):
    note: Annotated[
        Text, Limit("is printed on the credit note", bytes_max=1000), Meta(description="Why, as the customer reads it.")
    ]
    amounts: Annotated[
        dict[str, Text] | None,
        Limit("one for each line of an invoice", bytes_max=200, count_max=500),
        Meta(description="Line id -> amount to take back; missing: the whole invoice."),
    ] = None


class LineHour(msgspec.Struct, kw_only=True):
    hour: Time
    run: Annotated[str, Meta(description="The usage run whose version of the hour this is.")]
    quantity: Annotated[int, Meta(description="In base units.")]


class LineTopic(msgspec.Struct, kw_only=True):
    namespace: str
    topic: str
    quantity: int
    amount: Annotated[str, Meta(description="What of the line is this topic's, to the cent.")]


class LineRun(msgspec.Struct, kw_only=True):
    run: str
    finished_at: Time | None
    files: Annotated[int, Meta(description="That its hours were computed from.")]


class LineUsage(msgspec.Struct, kw_only=True):
    line: str
    hours: list[LineHour]
    topics: Annotated[list[LineTopic], Meta(description="Those with the largest quantities.")]
    topics_left: Annotated[int, Meta(description="Further topics, which are not in `topics`.")]
    runs: list[LineRun]


class CostCell(msgspec.Struct, kw_only=True):
    name: str
    start: Annotated[date, Meta(description="First day of the day or month.")]
    cost: str


class CostTotal(msgspec.Struct, kw_only=True):
    currency: str
    total: str


class CostsShape(msgspec.Struct, kw_only=True):
    currency: Annotated[str, Meta(description="Of `total` and of `items`.")]
    total: str
    totals: Annotated[list[CostTotal], Meta(description="In every currency in which something was charged.")]
    items: list[CostCell]


def show_plan(row: PricePlanVersion) -> PricePlanShape:
    return shown(PricePlanShape, row, id=str(row.pk))


def show_issuer(row: Issuer) -> IssuerShape:
    return shown(IssuerShape, row)


def show_account(row: BillingAccount) -> BillingShape:
    return shown(BillingShape, row)


def show_assignment(row: PlanAssignment) -> PlanAssignmentShape:
    return shown(PlanAssignmentShape, row, id=str(row.pk))


def show_credit(row: Credit) -> CreditShape:
    return shown(CreditShape, row, amount=money_text(row.amount_minor, row.currency))


def show_invoice(row: Invoice) -> InvoiceShape:
    return shown(InvoiceShape, row, total=money_text(row.total_minor, row.currency))
