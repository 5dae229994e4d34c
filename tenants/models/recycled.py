"""Deleted namespaces and tenants that can be restored: the recycle bin of the control plane."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX, TOPIC_LENGTH_MAX
from tenants.scoping import ScopedManager


class Recycled(models.Model):
    """A namespace or a tenant that was deleted. What was its part is in `RecycledRow`; its topics are as they were at the broker.
    Its name is not free while this row is there."""

    id = models.CharField(primary_key=True, max_length=32)  # rises with the time of deletion
    kind = models.CharField(max_length=16)  # of what the feed calls it: namespace, tenant
    name = models.CharField(max_length=2 * NAME_LENGTH_MAX + 1, unique=True)  # tenant/namespace, or that of the tenant
    tenant = models.CharField(max_length=NAME_LENGTH_MAX)  # not a foreign key: it may be in the bin, too
    tenant_uid = models.CharField(max_length=32)
    deleted_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    deleted_by = models.CharField(max_length=600)  # a role
    purging = models.BooleanField(default=False)  # it cannot be restored any more
    counts = models.JSONField(default=dict)  # of what is in it, by kind

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[Recycled]] = ScopedManager("tenant")

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["id"]
        indexes = [
            models.Index(fields=["tenant", "kind", "id"], name="recycled_of_tenant"),
            models.Index(fields=["expires_at"], name="recycled_by_end"),
        ]

    def __str__(self) -> str:
        return self.name


class RecycledRow(models.Model):
    """One row of a table as it was, in the format of `django.core.serializers`."""

    recycled = models.ForeignKey(Recycled, on_delete=models.CASCADE, related_name="rows")
    model = models.CharField(max_length=100)  # such as tenants.namespace
    key = models.CharField(max_length=TOPIC_LENGTH_MAX)  # its primary key
    row = models.JSONField()

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[RecycledRow]] = ScopedManager("recycled__tenant")

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["id"]
        indexes = [models.Index(fields=["model", "key"], name="recycled_row_of")]
