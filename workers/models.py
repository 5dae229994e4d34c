"""Task runs, and the usage of the current version of each hour."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.scoping import ScopedManager
from workers import detail_models as details  # noqa: F401  (Django finds them here)
from workers.alerts import models as alerts  # noqa: F401
from workers.audit_streams import models as audit_streams  # noqa: F401
from workers.billing import budget_models  # noqa: F401  (Django finds them here)
from workers.billing import models as billing  # noqa: F401
from workers.current_version import CurrentVersion
from workers.findings import models as findings  # noqa: F401
from workers.redrive import models as redrive  # noqa: F401
from workers.spend_caps import models as spend_caps  # noqa: F401


class TaskRun(models.Model):
    """One run of a task, from the moment that it is asked for: the rows that are due are the queue (`workers.queue`)."""

    class Outcome(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        RETRYING = "retrying"  # it failed, and is repeated when it is due
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        SKIPPED = "skipped"  # another run of the same task was in progress
        QUARANTINED = "quarantined"  # it failed too often: an administrator decides
        DISCARDED = "discarded"  # the administrator decided against it

    task_id = models.CharField(primary_key=True, max_length=64)
    name = models.CharField(max_length=100)
    key = models.CharField(max_length=250, default="")  # of which one run at a time is running: the task, or it with its ids
    arguments = models.JSONField(default=dict)  # ids
    requested_by = models.CharField(max_length=2 * NAME_LENGTH_MAX, blank=True, default="")  # empty: the schedule
    started_at = models.DateTimeField()  # of the last attempt; of one that did not start yet, when it was asked for
    finished_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)  # when a worker may take it: `workers.queue` says what that means for each outcome
    attempts = models.PositiveIntegerField(default=0)
    progress = models.JSONField(default=dict)  # of a run: what it counts
    outcome = models.CharField(max_length=16, choices=Outcome.choices, default=Outcome.RUNNING)
    summary = models.JSONField(default=dict)

    class Meta:
        ordering = ["-started_at"]
        indexes = [
            models.Index(fields=["name", "-started_at"], name="task_run_by_name"),
            models.Index(fields=["started_at"], name="task_run_by_start"),
            models.Index(fields=["outcome", "-started_at"], name="task_run_by_outcome"),
            models.Index(fields=["due_at"], condition=models.Q(due_at__isnull=False), name="task_run_by_due"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["key"], condition=models.Q(outcome="running"), name="one_run_of_a_key_at_a_time")
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.task_id}"

    @property
    def next_try_at(self) -> datetime | None:
        """When it is repeated, if it failed."""
        return self.due_at if self.outcome == self.Outcome.RETRYING else None


class AuditCursor(models.Model):
    """Up to where the audit events of a broker are in the audit log: changed in the transaction that writes them there."""

    broker_id = models.CharField(primary_key=True, max_length=2 * NAME_LENGTH_MAX)
    boot_id = models.CharField(max_length=64)
    sequence = models.PositiveBigIntegerField()

    def __str__(self) -> str:
        return f"{self.broker_id} up to {self.sequence} of {self.boot_id}"


class UsageHome(models.Model):
    """The one data directory in which hours of usage are computed, where workers are on several machines."""

    number = models.PositiveSmallIntegerField(primary_key=True, default=1)  # there is one row
    home = models.CharField(max_length=64)  # as the file usage/home in that directory says
    machine = models.CharField(max_length=255)
    data_dir = models.CharField(max_length=4096)
    since = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.data_dir} on {self.machine}"


class UsageRun(models.Model):
    """One run of the hourly usage job; also the only trace of one that failed. `hours`: versions it published."""

    class Outcome(models.TextChoices):
        REQUESTED = "requested"
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        NEEDS_SPARK = "needs_spark", "needs Spark"
        SKIPPED = "skipped"  # another run was in progress

    run_id = models.CharField(primary_key=True, max_length=64)
    outcome = models.CharField(max_length=16, choices=Outcome.choices, default=Outcome.REQUESTED)
    requested_by = models.CharField(max_length=2 * NAME_LENGTH_MAX, blank=True)  # empty: the schedule
    requested_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    hours = models.PositiveIntegerField(default=0)
    rows = models.PositiveBigIntegerField(default=0)
    quarantined = models.PositiveBigIntegerField(default=0)
    rejected_files = models.PositiveIntegerField(default=0)
    files = models.PositiveIntegerField(default=0)  # that its hours were computed from (`spark_jobs.inputs`)
    holes = models.PositiveIntegerField(default=0)
    message = models.TextField(blank=True)  # what went wrong and what to do
    swept = models.BooleanField(default=True, db_default=True)  # False: it may have rows of usage that do not count
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ["-requested_at"]
        indexes = [models.Index(fields=["-requested_at"], name="usage_run_by_request")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.outcome}"


class UsagePartition(models.Model):
    """The pointer: which run's version of an hour is the current one. `inputs`: checksum of the files it was made from."""

    hour = models.DateTimeField(primary_key=True)  # its start, UTC
    run = models.ForeignKey(UsageRun, on_delete=models.PROTECT, related_name="partitions")
    checksum = models.CharField(max_length=64)
    inputs = models.CharField(max_length=64)
    rows = models.PositiveBigIntegerField()
    updated_at = models.DateTimeField()

    class Meta:
        ordering = ["hour"]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%dT%H} by {self.run_id}"


class UsageHour(models.Model):
    """What one topic carried and held in one hour, by one run: `workers.current_version` says which one counts; earlier versions
    are in the files of their runs. Without a topic: API calls about a namespace or tenant, and a tenant's connections.

    `stored_byte_seconds` and `backlog_entry_seconds` are integrals over the hour: divided by 3600 they are its averages.
    """

    hour = models.DateTimeField()  # its start, UTC
    tenant = models.CharField(max_length=NAME_LENGTH_MAX)
    tenant_uid = models.CharField(max_length=32, blank=True, default="")  # which tenant of that name; "": not known
    namespace = models.CharField(max_length=2 * NAME_LENGTH_MAX + 1, blank=True)  # tenant/namespace
    topic = models.CharField(max_length=3 * NAME_LENGTH_MAX + 32)  # full name
    messages_in = models.BigIntegerField()
    bytes_in = models.BigIntegerField()
    messages_out = models.BigIntegerField()
    bytes_out = models.BigIntegerField()
    stored_byte_seconds = models.BigIntegerField()
    backlog_entry_seconds = models.BigIntegerField()
    api_calls = models.BigIntegerField(default=0)
    connection_seconds = models.BigIntegerField(default=0)
    run = models.ForeignKey(UsageRun, on_delete=models.PROTECT, related_name="usage")

    unscoped = models.Manager()
    objects: ClassVar[CurrentVersion[UsageHour]] = CurrentVersion("UsagePartition", "hour")
    versions: ClassVar[ScopedManager[UsageHour]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["hour", "topic"]
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "run", "tenant_uid", "namespace", "topic"], name="usage_once_an_hour_run_and_topic"
            ),
            models.CheckConstraint(
                condition=models.Q(
                    messages_in__gte=0,
                    bytes_in__gte=0,
                    messages_out__gte=0,
                    bytes_out__gte=0,
                    stored_byte_seconds__gte=0,
                    backlog_entry_seconds__gte=0,
                    api_calls__gte=0,
                    connection_seconds__gte=0,
                ),
                name="usage_is_not_negative",
            ),
        ]
        indexes = [models.Index(fields=["tenant_uid", "hour"], name="usage_by_tenant_and_hour")]

    def __str__(self) -> str:
        return f"{self.topic} in {self.hour:%Y-%m-%dT%H}"


class UsagePeriodPartition(models.Model):
    """The pointer of a day ("2026-11-21") or month ("2026-11"), in UTC: which run's version is the current one."""

    period = models.CharField(primary_key=True, max_length=10)
    run = models.ForeignKey(UsageRun, on_delete=models.PROTECT, related_name="periods")
    checksum = models.CharField(max_length=80)
    rows = models.PositiveBigIntegerField()
    parts = models.PositiveIntegerField()  # hours of a day, days of a month that are in it
    updated_at = models.DateTimeField()

    class Meta:
        ordering = ["period"]

    def __str__(self) -> str:
        return f"{self.period} by {self.run_id}"


class UsagePeriod(models.Model):
    """What one topic carried and held in a day or month: the sum of its hours. Numbers may have more than 64 bits."""

    period = models.CharField(max_length=10)
    tenant = models.CharField(max_length=NAME_LENGTH_MAX)
    tenant_uid = models.CharField(max_length=32, blank=True, default="")
    namespace = models.CharField(max_length=2 * NAME_LENGTH_MAX + 1)
    topic = models.CharField(max_length=3 * NAME_LENGTH_MAX + 32)
    messages_in = models.DecimalField(max_digits=38, decimal_places=0)
    bytes_in = models.DecimalField(max_digits=38, decimal_places=0)
    messages_out = models.DecimalField(max_digits=38, decimal_places=0)
    bytes_out = models.DecimalField(max_digits=38, decimal_places=0)
    stored_byte_seconds = models.DecimalField(max_digits=38, decimal_places=0)
    backlog_entry_seconds = models.DecimalField(max_digits=38, decimal_places=0)
    api_calls = models.DecimalField(max_digits=38, decimal_places=0, default=0)
    connection_seconds = models.DecimalField(max_digits=38, decimal_places=0, default=0)
    run = models.ForeignKey(UsageRun, on_delete=models.PROTECT, related_name="usage_of_periods")

    unscoped = models.Manager()
    objects: ClassVar[CurrentVersion[UsagePeriod]] = CurrentVersion("UsagePeriodPartition", "period")
    versions: ClassVar[ScopedManager[UsagePeriod]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["period", "topic"]
        constraints = [
            models.UniqueConstraint(
                fields=["period", "run", "tenant_uid", "namespace", "topic"], name="usage_once_a_period_run_and_topic"
            )
        ]
        indexes = [models.Index(fields=["tenant_uid", "period"], name="usage_by_tenant_and_period")]

    def __str__(self) -> str:
        return f"{self.topic} in {self.period}"


class UsageCorrection(models.Model):
    """What a run changed of a tenant's usage in an hour of a month that was closed: for an adjustment of that month, on a later
    invoice. `changes`: column of `UsageHour` -> difference."""

    hour = models.DateTimeField()  # the original service period
    tenant = models.CharField(max_length=NAME_LENGTH_MAX)
    tenant_uid = models.CharField(max_length=32, blank=True, default="")
    run = models.ForeignKey(UsageRun, on_delete=models.PROTECT, related_name="corrections")
    previous_run = models.ForeignKey(UsageRun, on_delete=models.PROTECT, related_name="corrected")
    found_at = models.DateTimeField()
    changes = models.JSONField(default=dict)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[UsageCorrection]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["hour", "tenant_uid"]
        constraints = [models.UniqueConstraint(fields=["run", "hour", "tenant_uid", "tenant"], name="usage_corrected_once_a_run")]
        indexes = [models.Index(fields=["tenant_uid", "hour"], name="usage_corrections_by_tenant")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%dT%H} of {self.tenant} by {self.run_id}"
