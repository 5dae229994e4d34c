"""Whose part of the usage of an hour it was."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.scoping import ScopedManager
from workers.current_version import CurrentVersion


class UsageDetail(models.Model):
    """The part of one subscription and key in what a topic carried and held in one hour, by one run, as in `UsageHour`; without a
    topic, a key's connections, and its API calls about the namespace or tenant. `others`: parts too small for a row of their own
    that this one, without subscription and key, stands for."""

    hour = models.DateTimeField()  # its start, UTC
    tenant = models.CharField(max_length=NAME_LENGTH_MAX)
    tenant_uid = models.CharField(max_length=32, blank=True, default="")
    namespace = models.CharField(max_length=2 * NAME_LENGTH_MAX + 1, blank=True)
    topic = models.CharField(max_length=3 * NAME_LENGTH_MAX + 32, blank=True)
    subscription = models.TextField(blank=True)
    key = models.TextField(blank=True)  # the id of the client's key, else its role
    others = models.PositiveIntegerField(default=0)
    messages_in = models.BigIntegerField(default=0)
    bytes_in = models.BigIntegerField(default=0)
    messages_out = models.BigIntegerField(default=0)
    bytes_out = models.BigIntegerField(default=0)
    messages_redelivered = models.BigIntegerField(default=0)
    backlog_entry_seconds = models.BigIntegerField(default=0)
    delayed_entry_seconds = models.BigIntegerField(default=0)
    api_calls = models.BigIntegerField(default=0)
    connection_seconds = models.BigIntegerField(default=0)
    run = models.ForeignKey("workers.UsageRun", on_delete=models.PROTECT, related_name="usage_details")

    unscoped = models.Manager()
    objects: ClassVar[CurrentVersion[UsageDetail]] = CurrentVersion("UsagePartition", "hour")
    versions: ClassVar[ScopedManager[UsageDetail]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["hour", "topic", "subscription", "key"]
        indexes = [
            models.Index(fields=["tenant_uid", "hour"], name="detail_by_tenant_and_hour"),
            models.Index(fields=["hour"], name="detail_by_hour"),  # hours are replaced, and forgotten, as a whole
        ]

    def __str__(self) -> str:
        return f"{self.subscription or self.key} of {self.topic or self.namespace or self.tenant} in {self.hour:%Y-%m-%dT%H}"
