"""The rows of findings. They go with the run that found them."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.scoping import ScopedManager
from workers.of_tenant import TOPIC_LENGTH_MAX

TEXT_LENGTH_MAX = 300


class UsageFinding(models.Model):
    """One record that a run did not count, one row of numbers that no file has, or one time that a crash may have lost.

    `tenant_uid` is empty where nobody can say whose it is, and for outages, which are everybody's.
    """

    class Kind(models.TextChoices):
        QUARANTINED = "quarantined"  # `record` is in `file`, in row `row`
        HOLE = "hole"  # numbers of `series` from `first_missing` to `last_missing` are in no file
        OUTAGE = "outage"  # the broker crashed at or after `from_at`, and was there again at `until_at`

    run = models.ForeignKey("workers.UsageRun", on_delete=models.CASCADE, related_name="findings")
    kind = models.CharField(max_length=16, choices=Kind.choices)
    hour = models.DateTimeField()  # its start, UTC; of an outage the hour in which it began
    tenant = models.CharField(max_length=NAME_LENGTH_MAX, blank=True)
    tenant_uid = models.CharField(max_length=32, blank=True)
    topic = models.CharField(max_length=TOPIC_LENGTH_MAX, blank=True)
    meter = models.CharField(max_length=64, blank=True)
    source = models.CharField(max_length=TEXT_LENGTH_MAX)
    boot_epoch = models.BigIntegerField()
    from_at = models.DateTimeField(null=True)  # of a hole: None where the broker's start is all that is known
    until_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=TEXT_LENGTH_MAX, blank=True)
    file = models.CharField(max_length=TEXT_LENGTH_MAX, blank=True)
    row = models.BigIntegerField(null=True)
    first_missing = models.BigIntegerField(null=True)
    last_missing = models.BigIntegerField(null=True)
    missing_value = models.DecimalField(max_digits=38, decimal_places=0, null=True)  # None: not known
    record = models.JSONField(default=dict)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[UsageFinding]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["hour", "id"]
        indexes = [models.Index(fields=["run", "kind", "tenant_uid"], name="usage_finding_by_run")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.run_id}: {self.reason}"
