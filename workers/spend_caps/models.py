"""The table of spend caps."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.scoping import ScopedManager
from workers.of_tenant import OfTenant, new_id
from workers.rating.money import money_text


class SpendCap(OfTenant):
    """What a tenant may spend in a month, before credits and tax. There may be one of the platform's, which the tenant cannot
    change, and one of the tenant's own; each counts by itself."""

    class SetBy(models.TextChoices):
        PLATFORM = "platform"
        TENANT = "tenant"

    class Then(models.TextChoices):
        THROTTLE = "throttle"
        STOP = "stop"

    id = models.CharField(primary_key=True, max_length=32, default=new_id)
    set_by = models.CharField(max_length=16, choices=SetBy.choices)
    currency = models.CharField(max_length=3)
    amount_minor = models.PositiveBigIntegerField()
    action = models.CharField(max_length=16, choices=Then.choices)  # once it is reached
    rates = models.JSONField(default=dict)  # a policy of `messaging.policies.spending.SPEND_RATES` -> what it is throttled to
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=2 * NAME_LENGTH_MAX + 1)

    objects: ClassVar[ScopedManager[SpendCap]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        ordering = ["set_by"]
        constraints = [models.UniqueConstraint(fields=["tenant_uid", "set_by"], name="one_spend_cap_of_each")]

    def __str__(self) -> str:
        return f"{self.money} a month for {self.tenant}"

    @property
    def money(self) -> str:
        return f"{money_text(self.amount_minor, self.currency)} {self.currency}"

    @property
    def whose(self) -> str:
        return "the platform" if self.set_by == self.SetBy.PLATFORM else "the tenant"
