"""The audit log."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from tenants.scoping import ScopedManager


class AuditRecord(models.Model):
    """One thing that somebody did. Names are text, so that a record outlives what it speaks of. Never changed, never deleted."""

    at = models.DateTimeField(auto_now_add=True)
    role = models.CharField(max_length=600)  # who
    address = models.CharField(max_length=64, blank=True, default="")  # from where; "": a process of ours
    key_id = models.CharField(max_length=64, blank=True, default="")  # with which key; "": signed in at the console
    action = models.CharField(max_length=64)  # such as "namespace.set_policy"
    tenant = models.CharField(max_length=255, blank=True, default="")  # its name then; "": the platform
    tenant_uid = models.CharField(max_length=32, blank=True, default="")  # which tenant of that name; "": none that existed
    resource = models.CharField(max_length=1100)  # such as "acme/orders"
    before = models.JSONField(null=True, blank=True)
    after = models.JSONField(null=True, blank=True)
    request_id = models.CharField(max_length=64, blank=True, default="")

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[AuditRecord]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["tenant_uid", "-id"], name="audit_of_tenant"),
            models.Index(fields=["tenant_uid", "action", "-id"], name="audit_by_action"),
            models.Index(fields=["tenant_uid", "role", "-id"], name="audit_by_role"),
        ]
