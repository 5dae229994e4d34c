"""The objects of the billing API, for validation and for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from workers.billing.models import BillingAccount, Credit, Invoice, Issuer, PlanAssignment, PricePlanVersion
from workers.rating.money import money_text


class PricePlanShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    plan = serializers.CharField()
    version = serializers.IntegerField()
    title = serializers.CharField()
    currency = serializers.CharField()
    in_force_from = serializers.DateTimeField()
    document = serializers.DictField(help_text="What was published.")
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField()


class NewPricePlan(serializers.Serializer[Any]):
    document = serializers.DictField(help_text="A price plan: plan, version, currency, in_force_from, prices and more.")


class IssuerShape(serializers.Serializer[Any]):
    details = serializers.DictField(child=serializers.CharField(), help_text="name, address, tax_id, email and bank")
    forgiven_minor = serializers.IntegerField(help_text="Late usage of a closed month up to this many cents is not charged.")


class NewIssuer(serializers.Serializer[Any]):
    details = serializers.DictField(child=serializers.CharField(allow_blank=True))
    forgiven_minor = serializers.IntegerField(required=False)


class BillingShape(serializers.Serializer[Any]):
    tenant = serializers.CharField()
    details = serializers.DictField(child=serializers.CharField(), help_text="name, address, tax_id, email")
    tax_label = serializers.CharField(allow_blank=True)
    tax_rate = serializers.CharField(help_text="Per cent, as text.")
    payment_days = serializers.IntegerField()


class BillingChange(serializers.Serializer[Any]):
    details = serializers.DictField(child=serializers.CharField(allow_blank=True), required=False)
    tax_label = serializers.CharField(required=False, allow_blank=True)
    tax_rate = serializers.CharField(required=False)
    payment_days = serializers.IntegerField(required=False)


class PlanAssignmentShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    plan = serializers.CharField()
    starts_at = serializers.DateTimeField()


class NewPlanAssignment(serializers.Serializer[Any]):
    plan = serializers.CharField()
    starts_at = serializers.DateTimeField(help_text="The start of an hour.")


class CreditShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    title = serializers.CharField()
    currency = serializers.CharField()
    amount = serializers.CharField()
    expires = serializers.DateField(allow_null=True)


class NewCredit(serializers.Serializer[Any]):
    title = serializers.CharField()
    currency = serializers.CharField()
    amount = serializers.CharField()
    expires = serializers.DateField(required=False, allow_null=True)


class InvoiceShape(serializers.Serializer[Any]):
    id = serializers.CharField()
    number = serializers.CharField(allow_null=True, help_text="null: a draft.")
    kind = serializers.ChoiceField(Invoice.Kind.values)
    state = serializers.ChoiceField(Invoice.State.values)
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    currency = serializers.CharField()
    total = serializers.CharField()
    made_at = serializers.DateTimeField()
    issued_at = serializers.DateTimeField(allow_null=True)


class NewCreditNote(serializers.Serializer[Any]):
    note = serializers.CharField(help_text="Why, as the customer reads it.")
    amounts = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="Line id -> amount to take back; missing: the whole invoice."
    )


class LineHour(serializers.Serializer[Any]):
    hour = serializers.DateTimeField()
    run = serializers.CharField(help_text="The usage run whose version of the hour this is.")
    quantity = serializers.IntegerField(help_text="In base units.")


class LineTopic(serializers.Serializer[Any]):
    namespace = serializers.CharField()
    topic = serializers.CharField()
    quantity = serializers.IntegerField()
    amount = serializers.CharField(help_text="What of the line is this topic's, to the cent.")


class LineRun(serializers.Serializer[Any]):
    run = serializers.CharField()
    finished_at = serializers.DateTimeField(allow_null=True)
    files = serializers.IntegerField(help_text="That its hours were computed from.")


class LineUsage(serializers.Serializer[Any]):
    line = serializers.CharField()
    hours = LineHour(many=True)
    topics = LineTopic(many=True)
    runs = LineRun(many=True)


class CostCell(serializers.Serializer[Any]):
    name = serializers.CharField()
    start = serializers.DateField(help_text="First day of the day or month.")
    cost = serializers.CharField()


class CostTotal(serializers.Serializer[Any]):
    currency = serializers.CharField()
    total = serializers.CharField()


class CostsShape(serializers.Serializer[Any]):
    currency = serializers.CharField(allow_blank=True, help_text="Of `total` and of `items`.")
    total = serializers.CharField()
    totals = CostTotal(many=True, help_text="In every currency in which something was charged.")
    items = CostCell(many=True)


def show_plan(row: PricePlanVersion) -> dict[str, Any]:
    fields = ("plan", "version", "title", "currency", "in_force_from", "document", "created_at", "created_by")
    return {"id": str(row.pk), **{field: getattr(row, field) for field in fields}}


def show_issuer(row: Issuer) -> dict[str, Any]:
    return {"details": row.details, "forgiven_minor": row.forgiven_minor}


def show_account(row: BillingAccount) -> dict[str, Any]:
    return {field: getattr(row, field) for field in ("tenant", "details", "tax_label", "tax_rate", "payment_days")}


def show_assignment(row: PlanAssignment) -> dict[str, Any]:
    return {"id": str(row.pk), "plan": row.plan, "starts_at": row.starts_at}


def show_credit(row: Credit) -> dict[str, Any]:
    shown = {field: getattr(row, field) for field in ("id", "title", "currency", "expires")}
    return {**shown, "amount": money_text(row.amount_minor, row.currency)}


def show_invoice(row: Invoice) -> dict[str, Any]:
    fields = ("id", "number", "kind", "state", "start", "end", "currency", "made_at", "issued_at")
    return {**{field: getattr(row, field) for field in fields}, "total": money_text(row.total_minor, row.currency)}
