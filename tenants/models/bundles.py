"""Bundles of namespaces: see `messaging.protocol.bundles`."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from tenants.models.tenant import Namespace
from tenants.scoping import ScopedManager


class NamespaceBundles(models.Model):
    """The boundaries of a namespace's bundles, rising numbers. A namespace without a row has the usual ones (`BUNDLES_DEFAULT`)."""

    namespace = models.OneToOneField(Namespace, primary_key=True, on_delete=models.CASCADE, related_name="bundles")
    boundaries = models.JSONField()

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[NamespaceBundles]] = ScopedManager("namespace__tenant_id")

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["namespace"]
