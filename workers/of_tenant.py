"""What all rows of a tenant have that the workers write: they outlive it, and are told by its uid from those of a later tenant."""

from __future__ import annotations

import uuid

from django.db import models

from messaging.protocol.names import NAME_LENGTH_MAX

TOPIC_LENGTH_MAX = 3 * NAME_LENGTH_MAX + 32  # of a full name


def new_id() -> str:
    return uuid.uuid4().hex


class OfTenant(models.Model):
    """The name that the tenant had, and its uid. Each model adds `objects`, a `ScopedManager` by uid."""

    tenant = models.CharField(max_length=NAME_LENGTH_MAX)
    tenant_uid = models.CharField(max_length=32)

    unscoped = models.Manager()

    class Meta:
        abstract = True
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
