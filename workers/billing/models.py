"""The tables of billing. Money is in minor units of its currency, charges in 10^-9 of the currency; both are integers.

Rows of a tenant carry its uid and outlive it. Rows change through `workers.billing.actions` and the tasks; a final invoice never.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.scoping import ScopedManager, platform_scope
from workers.of_tenant import OfTenant, new_id

ROLE_LENGTH_MAX = 2 * NAME_LENGTH_MAX
NANO = 10**9


class Immutable(RuntimeError):
    """Something tried to change or delete a final invoice: a bug of ours."""


class PricePlanVersion(models.Model):
    """A version of a price plan (`workers.rating.plan`). Never changed: a new price is a new version."""

    id = models.CharField(primary_key=True, max_length=32, default=new_id)
    plan = models.CharField(max_length=63)
    version = models.PositiveIntegerField()
    title = models.CharField(max_length=200)
    currency = models.CharField(max_length=3)
    in_force_from = models.DateTimeField()
    document = models.JSONField()
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=ROLE_LENGTH_MAX)

    class Meta:
        ordering = ["plan", "version"]
        constraints = [models.UniqueConstraint(fields=["plan", "version"], name="price_plan_version_once")]

    def __str__(self) -> str:
        return f"{self.plan} {self.version}"


class Issuer(models.Model):
    """Who sends invoices: one row. `numbered`: the last number given in `year`; numbers have no gaps."""

    details = models.JSONField(default=dict)  # name, address, tax_id, bank, email
    forgiven_minor = models.PositiveIntegerField(default=100)  # late usage against a customer up to this is forgiven
    year = models.PositiveIntegerField(default=0)
    numbered = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return str(self.details.get("name", "issuer"))


class BillingAccount(OfTenant):
    """Who pays for a tenant, and how."""

    details = models.JSONField(default=dict)  # name, address, tax_id, email
    tax_label = models.CharField(max_length=40, blank=True)
    tax_rate = models.CharField(max_length=12, default="0")  # per cent
    payment_days = models.PositiveSmallIntegerField(default=30)

    objects: ClassVar[ScopedManager[BillingAccount]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        constraints = [models.UniqueConstraint(fields=["tenant_uid"], name="billing_account_once")]

    def __str__(self) -> str:
        return f"billing of {self.tenant}"


class PlanAssignment(OfTenant):
    """From when on a tenant pays by a plan."""

    id = models.CharField(primary_key=True, max_length=32, default=new_id)
    plan = models.CharField(max_length=63)
    starts_at = models.DateTimeField()

    objects: ClassVar[ScopedManager[PlanAssignment]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        ordering = ["starts_at"]
        constraints = [models.UniqueConstraint(fields=["tenant_uid", "starts_at"], name="plan_once_at_a_time")]

    def __str__(self) -> str:
        return f"{self.tenant}: {self.plan}"


class Credit(OfTenant):
    """An amount that a tenant has in advance. What is used of it follows from the final invoices."""

    id = models.CharField(primary_key=True, max_length=32, default=new_id)
    title = models.CharField(max_length=200)
    currency = models.CharField(max_length=3)
    amount_minor = models.PositiveBigIntegerField()
    expires = models.DateField(null=True)
    created_at = models.DateTimeField()

    objects: ClassVar[ScopedManager[Credit]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        ordering = ["created_at"]

    def __str__(self) -> str:
        return f"{self.title} for {self.tenant}"


class Invoice(OfTenant):
    """An invoice or a credit note; `document` (`workers.rating.document`) is all there is to it. Final ones never change."""

    class Kind(models.TextChoices):
        INVOICE = "invoice"
        CREDIT_NOTE = "credit_note"

    class State(models.TextChoices):
        DRAFT = "draft"
        FINAL = "final"

    id = models.CharField(primary_key=True, max_length=32, default=new_id)
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.INVOICE)
    state = models.CharField(max_length=16, choices=State.choices, default=State.DRAFT)
    number = models.CharField(max_length=32, null=True, unique=True)
    of_invoice = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="credit_notes")
    start = models.DateTimeField()
    end = models.DateTimeField()
    currency = models.CharField(max_length=3)
    total_minor = models.BigIntegerField()
    document = models.JSONField()
    made_at = models.DateTimeField()
    issued_at = models.DateTimeField(null=True)

    objects: ClassVar[ScopedManager[Invoice]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        ordering = ["-start", "-made_at"]
        # All that its list is filtered and sorted by: documents are large, and none is skipped one by one to make a page.
        indexes = [
            models.Index(
                fields=["tenant_uid", "start", "made_at", "id", "number", "kind", "state", "total_minor"], name="invoice_list"
            )
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_uid", "start", "currency"],
                condition=models.Q(kind="invoice"),
                name="one_invoice_a_month_and_currency",
            ),
            models.CheckConstraint(
                condition=models.Q(state="draft", number=None) | models.Q(state="final", number__isnull=False),
                name="final_invoices_have_numbers",
            ),
        ]

    def __str__(self) -> str:
        return self.number or f"draft of {self.tenant}, {self.start:%Y-%m}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        self._must_be_open()
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        self._must_be_open()
        return super().delete(*args, **kwargs)

    def _must_be_open(self) -> None:
        with platform_scope():
            final = Invoice.objects.filter(pk=self.pk, state=self.State.FINAL).exists()
        if final:
            raise Immutable(f"invoice {self.number} is final")


class BilledMonth(OfTenant):
    """The checksum of what a month's draft and charges were made of: where it is the same, there is nothing to compute."""

    start = models.DateTimeField()
    inputs = models.CharField(max_length=64)

    objects: ClassVar[ScopedManager[BilledMonth]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        constraints = [models.UniqueConstraint(fields=["tenant_uid", "start"], name="one_row_a_tenant_and_month")]

    def __str__(self) -> str:
        return f"{self.tenant} {self.start:%Y-%m}"


class HourDigest(OfTenant):
    """The digest of a tenant's usage in the version of an hour that `run_id` computed, and totals: each version is read once."""

    hour = models.DateTimeField()
    run_id = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    quantities = models.JSONField(null=True)  # meter -> base units; null: of an earlier release, which did not keep them

    objects: ClassVar[ScopedManager[HourDigest]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        constraints = [models.UniqueConstraint(fields=["tenant_uid", "hour"], name="one_digest_a_tenant_and_hour")]

    def __str__(self) -> str:
        return f"{self.tenant} {self.hour:%Y-%m-%dT%H}"


class CostSeries(OfTenant):
    """What costs are attributed to: a topic, a namespace without one, or the tenant (no namespace either). With the subscription
    and the key whose part it is; without them, nobody's in particular."""

    namespace = models.CharField(max_length=2 * NAME_LENGTH_MAX + 1, blank=True)
    topic = models.CharField(max_length=3 * NAME_LENGTH_MAX + 32, blank=True)
    subscription = models.TextField(blank=True, default="")
    key = models.TextField(blank=True, default="")  # the id of a key, else a role

    objects: ClassVar[ScopedManager[CostSeries]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        constraints = [
            models.UniqueConstraint(fields=["tenant_uid", "namespace", "topic", "subscription", "key"], name="one_series_a_part")
        ]

    def __str__(self) -> str:
        return self.topic or self.namespace or self.tenant


class Charge(models.Model):
    """What one series cost on one day by one meter, or one kind of fee. All charges of a month sum to the invoice's subtotal."""

    series = models.ForeignKey(CostSeries, on_delete=models.PROTECT, related_name="charges")
    day = models.DateField()
    meter = models.CharField(max_length=32)
    quantity = models.BigIntegerField()
    quantity_high = models.BigIntegerField(default=0)  # what is above it, in units of 2^62 (`workers.billing.exact_sums`)
    nano = models.BigIntegerField()
    currency = models.CharField(max_length=3)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[Charge]] = ScopedManager("series__tenant_uid", by_uid=True)

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(fields=["series", "day", "meter", "currency"], name="one_charge_a_day_meter_and_currency")
        ]
        indexes = [models.Index(fields=["day", "series"], name="charge_by_day")]

    def __str__(self) -> str:
        return f"{self.series} on {self.day}: {self.meter}"


class MonthCharge(models.Model):
    """The charges of a month, summed: what views of many months read. Written together with them."""

    series = models.ForeignKey(CostSeries, on_delete=models.PROTECT, related_name="month_charges")
    day = models.DateField()  # the first of the month
    meter = models.CharField(max_length=32)
    quantity = models.BigIntegerField()
    quantity_high = models.BigIntegerField(default=0)  # what is above it, in units of 2^62 (`workers.billing.exact_sums`)
    nano = models.BigIntegerField()
    currency = models.CharField(max_length=3)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[MonthCharge]] = ScopedManager("series__tenant_uid", by_uid=True)

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        constraints = [
            models.UniqueConstraint(fields=["series", "day", "meter", "currency"], name="one_charge_a_month_meter_and_currency")
        ]
        indexes = [models.Index(fields=["day", "series"], name="charge_by_month")]

    def __str__(self) -> str:
        return f"{self.series} in {self.day:%Y-%m}: {self.meter}"
