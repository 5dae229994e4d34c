"""Where bundles may be: isolation policies, and brokers that may fail together. Of the platform; no tenant sees them."""

from __future__ import annotations

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX


class IsolationPolicy(models.Model):
    """See `messaging.policies.isolation`; the lists are of expressions."""

    name = models.CharField(max_length=NAME_LENGTH_MAX, primary_key=True)
    namespaces = models.JSONField()
    primary = models.JSONField()
    secondary = models.JSONField(default=list)
    min_limit = models.IntegerField()
    usage_threshold = models.IntegerField()
    unload_scope = models.CharField(max_length=16)

    class Meta:
        ordering = ["name"]


class FailureDomain(models.Model):
    """Brokers that may fail together, by their ids; each is in one domain at most."""

    name = models.CharField(max_length=NAME_LENGTH_MAX, primary_key=True)
    brokers = models.JSONField()

    class Meta:
        ordering = ["name"]
