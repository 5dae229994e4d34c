"""Labels of tenants and namespaces, month by month."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.scoping import ScopedManager


class MonthLabels(models.Model):
    """The labels that a tenant, or a namespace of it, had at the end of a month (UTC), and has since until a later row. Costs of a
    month are summed by them, also those of a namespace that was deleted."""

    tenant_uid = models.CharField(max_length=32)
    namespace = models.CharField(max_length=2 * NAME_LENGTH_MAX + 1, blank=True)  # tenant/namespace; "": the tenant's own
    month = models.DateField()  # its first day
    labels = models.JSONField(default=dict)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[MonthLabels]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["tenant_uid", "namespace", "month"]
        constraints = [models.UniqueConstraint(fields=["tenant_uid", "namespace", "month"], name="labels_once_a_month")]
