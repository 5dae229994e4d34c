"""Saved views: pages of the console with their filter, order and span, under a name."""

from __future__ import annotations

from django.db import models

from tenants.models.user import User

VIEW_NAME_LENGTH_MAX = 100
ADDRESS_LENGTH_MAX = 2_000


class SavedView(models.Model):
    """Of one person. `address`: a path of the console with its query. `tenant_uid`: of the tenant that the page is of, "" for
    one of none. `shared`: whoever may see that tenant finds it, too."""

    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=VIEW_NAME_LENGTH_MAX)
    address = models.CharField(max_length=ADDRESS_LENGTH_MAX)
    tenant_uid = models.CharField(max_length=32, blank=True, db_index=True)
    shared = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "id"]
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="view_name_once_a_person")]
