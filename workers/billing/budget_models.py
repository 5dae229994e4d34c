"""The tables of budgets and reports."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.scoping import ScopedManager
from workers.alerts.models import Notice
from workers.of_tenant import OfTenant, new_id


class Budget(OfTenant):
    """What a tenant means to spend a month, altogether or on one namespace; who is told when, in per cent of it."""

    id = models.CharField(primary_key=True, max_length=32, default=new_id)
    name = models.CharField(max_length=100)
    currency = models.CharField(max_length=3)
    amount_minor = models.PositiveBigIntegerField()
    namespace = models.CharField(max_length=2 * NAME_LENGTH_MAX + 1, blank=True)  # empty: all
    thresholds = models.JSONField(default=list)
    emails = models.JSONField(default=list)
    created_at = models.DateTimeField()

    objects: ClassVar[ScopedManager[Budget]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} of {self.tenant}"


class SpendAlert(models.Model):
    """A threshold that was reached, once a month: by what was spent, or by what the month is likely to cost."""

    budget = models.ForeignKey(Budget, on_delete=models.CASCADE, related_name="alerts")
    month = models.DateField()
    threshold = models.PositiveSmallIntegerField()
    likely = models.BooleanField()
    amount_minor = models.BigIntegerField()
    at = models.DateTimeField()
    notice = models.ForeignKey(Notice, null=True, on_delete=models.SET_NULL, related_name="+")  # that says so
    delivered = models.CharField(max_length=200, blank=True)  # of those of earlier releases, which had no notice

    class Meta:
        ordering = ["-at"]
        constraints = [models.UniqueConstraint(fields=["budget", "month", "threshold", "likely"], name="one_alert_a_threshold")]

    def __str__(self) -> str:
        return f"{self.budget}: {self.threshold} %"


class ReportSchedule(OfTenant):
    """A report that is made again and again. `by` and `step` are those of the cost explorer; `every` says of which span."""

    class Every(models.TextChoices):
        DAY = "day"
        WEEK = "week"
        MONTH = "month"

    id = models.CharField(primary_key=True, max_length=32, default=new_id)
    name = models.CharField(max_length=100)
    every = models.CharField(max_length=8, choices=Every.choices)
    by = models.CharField(max_length=80)
    emails = models.JSONField(default=list)
    made_until = models.DateField()  # the day after the newest report's last
    created_at = models.DateTimeField()

    objects: ClassVar[ScopedManager[ReportSchedule]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        ordering = ["name"]

    def __str__(self) -> str:
        return f"{self.name} of {self.tenant}"


class Report(OfTenant):
    """A report that was made: its files lie below the data directory, `files` has their names, sizes and SHA-256."""

    id = models.CharField(primary_key=True, max_length=32, default=new_id)
    schedule = models.ForeignKey(ReportSchedule, null=True, on_delete=models.SET_NULL, related_name="reports")
    name = models.CharField(max_length=100)
    by = models.CharField(max_length=80)
    first = models.DateField()
    last = models.DateField()
    runs = models.JSONField(default=list)  # the usage runs it came from
    files = models.JSONField(default=list)
    made_at = models.DateTimeField()
    delivered = models.CharField(max_length=200, blank=True)

    objects: ClassVar[ScopedManager[Report]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        ordering = ["-made_at"]
        constraints = [models.UniqueConstraint(fields=["schedule", "first"], name="one_report_a_schedule_and_span")]

    def __str__(self) -> str:
        return f"{self.name}, {self.first} to {self.last}"
