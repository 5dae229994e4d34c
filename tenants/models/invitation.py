"""Invitations of people to a tenant."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.models.tenant import Tenant, new_uid
from tenants.scoping import ScopedManager


class Invitation(models.Model):
    """Somebody with the address `email` may become a member, once. The link's secret is stored only as a hash.

    `mailed`: the link went to the address and nowhere else, so whoever has it reads mail there."""

    id = models.CharField(primary_key=True, max_length=32, default=new_uid, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="invitations")
    email = models.CharField(max_length=254)
    role = models.CharField(max_length=NAME_LENGTH_MAX)  # of the membership
    # How long the membership lasts; 0: it does not end by itself.
    member_days = models.PositiveSmallIntegerField(default=0, db_default=0)
    secret_hash = models.CharField(max_length=64, unique=True)
    mailed = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=600)  # a role
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    accepted_by = models.CharField(max_length=150, blank=True, default="")  # a user name
    revoked_at = models.DateTimeField(null=True, blank=True)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[Invitation]] = ScopedManager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["-created_at", "id"]
        indexes = [models.Index(fields=["tenant", "created_at"], name="invitation_of_tenant")]

    def state(self, now: object) -> str:
        """open, accepted, revoked or expired."""
        if self.accepted_at is not None:
            return "accepted"
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at <= now else "open"  # type: ignore[operator]
