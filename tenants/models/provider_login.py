"""What a sign-in provider said last about somebody."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class ProviderLogin(models.Model):
    """Somebody whom a sign-in provider knows, under its `subject`. What it said holds for a while after `refreshed_at`
    (`tenants.sign_in.holding`); with `refresh_token` it is asked again at `due_at`. `ended_at`: it no longer knows them.

    `given`: the memberships that come from it, tenant to role; others of the person are none of its business."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="provider_logins")
    provider = models.CharField(max_length=30)
    subject = models.CharField(max_length=255)
    refresh_token = models.TextField(blank=True, default="")  # encrypted (`tenants.sign_in.secrecy`)
    given = models.JSONField(default=dict)
    refreshed_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)  # to reach the provider, one after the other
    ended_at = models.DateTimeField(null=True, blank=True)
    why = models.CharField(max_length=200, blank=True, default="")  # it ended, or could not be asked

    class Meta:
        ordering = ["provider", "subject"]
        constraints = [models.UniqueConstraint(fields=["provider", "subject"], name="one_login_a_subject")]
        indexes = [models.Index(fields=["due_at"], name="provider_login_due")]
