"""Teams: named groups of a tenant's people, and the roles that their members have through them."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models

from messaging.permissions.model import Scope
from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.models.tenant import Namespace, Tenant
from tenants.scoping import ScopedManager


class Team(models.Model):
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="teams")
    name = models.CharField(max_length=NAME_LENGTH_MAX)
    description = models.CharField(max_length=200, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[Team]] = ScopedManager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["tenant_id", "name"]
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="one_team_a_name")]

    def __str__(self) -> str:
        return self.name


class TeamMember(models.Model):
    """A person of the tenant in a team of it. Who leaves the tenant leaves its teams."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="teams")

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[TeamMember]] = ScopedManager("team__tenant_id")

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["team_id", "user_id"]
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="one_place_in_a_team")]


class TeamRole(models.Model):
    """A role that all members of a team have, and where it holds, as of `Membership`."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="roles")
    role = models.CharField(max_length=NAME_LENGTH_MAX)
    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="team_roles", null=True, blank=True)
    topics = models.CharField(max_length=NAME_LENGTH_MAX, blank=True, default="")  # a pattern with *; "": all

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[TeamRole]] = ScopedManager("team__tenant_id")

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["team_id", "id"]

    @property
    def scope(self) -> Scope:
        return Scope(self.namespace_id or "", self.topics)
