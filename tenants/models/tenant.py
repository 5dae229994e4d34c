"""Tenants and their namespaces."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.db.models.functions import Concat

from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.scoping import ScopedManager


def new_uid() -> str:
    return uuid.uuid4().hex


class Tenant(models.Model):
    """A tenant. Its name never changes, and is free again once it is deleted. `uid` is its identity: a later tenant of the same
    name has another, so that what was written of the one (audit, usage) is never the other's. `admin_roles` may do everything.
    `second_factor_required`: of people; keys have none."""

    uid = models.CharField(max_length=32, unique=True, default=new_uid, editable=False)
    name = models.CharField(primary_key=True, max_length=NAME_LENGTH_MAX)
    admin_roles = models.JSONField(default=list)
    allowed_clusters = models.JSONField(default=list)
    policies = models.JSONField(default=dict)  # what is set for all its namespaces, by the names of `messaging.policies.registry`
    labels = models.JSONField(default=dict)  # text to text: what its costs may be summed by; `MonthLabels` has those of each month
    language = models.CharField(max_length=8, blank=True, default="", db_default="")  # of `messaging.languages`; "": the platform's
    second_factor_required = models.BooleanField(default=False)
    spend = models.JSONField(default=dict)  # what brokers do because spend caps are reached: `messaging.adminrpc.feed.SpendState`
    created_at = models.DateTimeField(auto_now_add=True)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[Tenant]] = ScopedManager("name")

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Namespace(models.Model):
    """A namespace. `name` is ``tenant/local``; `policies` holds what is set, by the names of `messaging.policies.registry`."""

    name = models.CharField(primary_key=True, max_length=2 * NAME_LENGTH_MAX + 1)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="namespaces")
    policies = models.JSONField(default=dict)
    state_bytes = models.IntegerField(default=0)  # of what brokers were told of it last
    created_at = models.DateTimeField(auto_now_add=True)
    restored_at = models.DateTimeField(null=True, blank=True)  # from the recycle bin; until then nobody could use it

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[Namespace]] = ScopedManager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(name__startswith=Concat(models.F("tenant_id"), models.Value("/"))),
                name="namespace_is_of_its_tenant",
                violation_error_message="the name of a namespace must begin with the name of its tenant",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def local(self) -> str:
        return self.name.partition("/")[2]
