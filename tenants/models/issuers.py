"""Issuers of other organisations whose tokens a tenant accepts (`messaging.identity.issuers`)."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.models.tenant import Tenant
from tenants.scoping import ScopedManager


class TokenIssuer(models.Model):
    """`roles`: value of the claim -> the name of a key, whose role its tokens have. `keys` are those of the document at `jwks_url`
    when it was fetched last; `problem` says why the last attempt failed, "" if it did not."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="token_issuers")
    name = models.CharField(max_length=NAME_LENGTH_MAX)
    issuer = models.CharField(max_length=500)  # the claim `iss`
    audience = models.CharField(max_length=500)
    jwks_url = models.CharField(max_length=1000)
    role_claim = models.CharField(max_length=NAME_LENGTH_MAX, default="sub")
    roles = models.JSONField(default=dict)
    clock_skew_s = models.IntegerField(default=60)
    keys = models.JSONField(default=list)
    fetched_at = models.DateTimeField(null=True, blank=True)
    tried_at = models.DateTimeField(null=True, blank=True)
    problem = models.CharField(max_length=500, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[TokenIssuer]] = ScopedManager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["tenant_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="one_issuer_a_name"),
            # A token must be for one tenant: two that agreed on the same audience could not be told apart.
            models.UniqueConstraint(fields=["issuer", "audience"], name="one_audience_an_issuer"),
        ]

    def __str__(self) -> str:
        return self.name
