"""Where the audit log is sent, and how far that is."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from tenants.models.record import HASH_LENGTH, NO_HASH
from tenants.scoping import ScopedManager
from workers.alerts.models import new_secret
from workers.of_tenant import TOPIC_LENGTH_MAX, OfTenant, new_id


class AuditStream(OfTenant):
    """Of one tenant; that of the platform has no tenant, its uid is empty, and it sends the records of everybody. It goes to a
    webhook or to a topic: one of `url` and `topic` is empty."""

    id = models.CharField(primary_key=True, max_length=32, default=new_id)
    url = models.CharField(max_length=2000, blank=True, default="")
    topic = models.CharField(max_length=TOPIC_LENGTH_MAX, blank=True, default="")  # full name
    secret = models.CharField(max_length=64, default=new_secret)  # signs what is sent
    created_at = models.DateTimeField()
    # How far it is
    sent_id = models.BigIntegerField(default=0)  # the last record that the receiver has taken
    sent_hash = models.CharField(max_length=HASH_LENGTH, default=NO_HASH)  # of it: the next record of the chain names it
    sent_at = models.DateTimeField(null=True)
    gaps = models.PositiveIntegerField(default=0)  # how often retention deleted records before they were sent
    # What is wrong
    failures = models.PositiveIntegerField(default=0)  # since the receiver last took something
    problem = models.CharField(max_length=500, blank=True, default="")
    next_at = models.DateTimeField()  # not tried before

    objects: ClassVar[ScopedManager[AuditStream]] = ScopedManager("tenant_uid", by_uid=True)

    class Meta(OfTenant.Meta):
        constraints = [models.UniqueConstraint(fields=["tenant_uid"], name="one_audit_stream_a_tenant")]

    def __str__(self) -> str:
        return f"audit log of {self.tenant or 'the platform'}"
