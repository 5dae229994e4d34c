"""The audit log."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from tenants.scoping import ScopedManager

HASH_LENGTH = 64  # SHA-256 in hexadecimal digits
NO_HASH = "0" * HASH_LENGTH


class AuditChain(models.Model):
    """One row: the end of the chain of records. Its lock orders the writers, so `sequence` has no gap."""

    sequence = models.BigIntegerField(default=0)  # id of the newest record
    hash = models.CharField(max_length=HASH_LENGTH, default=NO_HASH)  # of that record
    at = models.DateTimeField(null=True)  # of that record


class AuditRecord(models.Model):
    """One thing that somebody did. Names are text, so that a record outlives what it speaks of. Never changed, and deleted only by
    retention, behind a checkpoint; triggers of the database hold everybody to that. `tenants.audit.chain` writes it."""

    id = models.BigAutoField(primary_key=True)  # its place in the chain: 1, 2, 3, ..., given by us
    # Never before that of the record before it: after a clock was set back, the time of that one until the clock has caught up.
    at = models.DateTimeField()
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
    previous_hash = models.CharField(max_length=HASH_LENGTH)  # of the record before this one
    tenant_previous_hash = models.CharField(max_length=HASH_LENGTH)  # of the one before it with the same `tenant_uid`
    hash = models.CharField(max_length=HASH_LENGTH)  # see `tenants.audit.links`

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
            models.Index(fields=["tenant_uid", "role", "action", "-id"], name="audit_by_role_action"),  # what somebody made
            models.Index(fields=["tenant_uid", "key_id", "-id"], name="audit_by_key"),
            models.Index(fields=["tenant_uid", "resource", "-id"], name="audit_by_resource"),
            models.Index(fields=["request_id"], name="audit_by_request"),
            models.Index(fields=["at"], name="audit_by_time"),
        ]


class AuditHead(models.Model):
    """The end of the chain at some moment, signed. `statement` can be kept anywhere and says for ever which hash that record had.
    Never changed, never deleted."""

    sequence = models.BigIntegerField(primary_key=True)  # id of the newest record then
    hash = models.CharField(max_length=HASH_LENGTH)
    at = models.DateTimeField()
    statement = models.TextField()  # a JWT: `tenants.audit.statements`

    class Meta:
        ordering = ["-sequence"]


class AuditCheckpoint(models.Model):
    """Stands for the records up to `sequence`, which retention has deleted. Never changed, never deleted: records are only deleted
    behind one."""

    sequence = models.BigIntegerField(primary_key=True)  # id of the last record that was deleted
    hash = models.CharField(max_length=HASH_LENGTH)
    at = models.DateTimeField()
    records = models.BigIntegerField()  # that it stands for beside those of the checkpoint before it
    statement = models.TextField()

    class Meta:
        ordering = ["-sequence"]
