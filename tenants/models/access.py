"""Who may do what: grants to roles, keys, and the people of a tenant."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from messaging.permissions.model import Scope
from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.models.tenant import Namespace, Tenant
from tenants.scoping import ScopedManager

_ROLE_LENGTH_MAX = 2 * NAME_LENGTH_MAX + 1  # name@tenant
_TOPIC_LENGTH_MAX = 4 * NAME_LENGTH_MAX
_Row = TypeVar("_Row", bound=models.Model)


# Of a key; the order of a list of keys that an index has.
REVOKED = models.ExpressionWrapper(models.Q(revoked_at__isnull=False), output_field=models.BooleanField())


def _not_ended() -> models.Q:
    return models.Q(expires_at=None) | models.Q(expires_at__gt=timezone.now())


class _Current(models.Manager[_Row]):
    """Without those that have ended: nothing that asks who may do something can forget to look."""

    def get_queryset(self) -> models.QuerySet[_Row]:
        return super().get_queryset().filter(_not_ended())


class _CurrentScoped(ScopedManager[_Row]):
    def get_queryset(self) -> models.QuerySet[_Row]:
        return super().get_queryset().filter(_not_ended())


class Grant(models.Model):
    """`actions` (of produce, consume, functions, sources, sinks, packages) of a role on a namespace, or on one topic of it; until
    `expires_at`, where that is set."""

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="role_grants")
    topic = models.CharField(max_length=_TOPIC_LENGTH_MAX, blank=True, default="")  # full name; "": the whole namespace
    role = models.CharField(max_length=_ROLE_LENGTH_MAX)
    actions = models.JSONField(default=list)
    expires_at = models.DateTimeField(null=True, blank=True)  # None: it does not end by itself

    unscoped: ClassVar[models.Manager[Grant]] = _Current()
    objects: ClassVar[ScopedManager[Grant]] = _CurrentScoped("namespace__tenant_id")
    ever: ClassVar[models.Manager[Grant]] = models.Manager()  # also those that have ended and are about to be removed

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "ever"
        ordering = ["namespace_id", "topic", "role"]
        constraints = [models.UniqueConstraint(fields=["namespace", "topic", "role"], name="one_grant_a_role")]


class SubscriptionGrant(models.Model):
    """Restricts a subscription name of a namespace to some roles; no row, no restriction."""

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="subscription_grants")
    subscription = models.CharField(max_length=NAME_LENGTH_MAX)
    role = models.CharField(max_length=_ROLE_LENGTH_MAX)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[SubscriptionGrant]] = ScopedManager("namespace__tenant_id")

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["namespace_id", "subscription", "role"]
        constraints = [models.UniqueConstraint(fields=["namespace", "subscription", "role"], name="one_subscription_grant_a_role")]


class Key(models.Model):
    """A token that was issued; the token itself is never stored. `id` is its ``jti``. Keys with the same name share a role,
    so that a client can switch to a new key before the old one is revoked. `tenant` is None for a superuser key."""

    id = models.CharField(primary_key=True, max_length=64)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="keys", null=True, blank=True)
    name = models.CharField(max_length=NAME_LENGTH_MAX)
    role = models.CharField(max_length=_ROLE_LENGTH_MAX)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=_ROLE_LENGTH_MAX, blank=True, default="")  # a role
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    # What it was made for: [{"actions", "namespace", "topics"}] as in `messaging.adminrpc.feed`; None: what its role may.
    scope = models.JSONField(null=True, blank=True, default=None)
    networks = models.JSONField(default=list)  # from which it may be used; none: from everywhere
    last_used_at = models.DateTimeField(null=True, blank=True)  # the minute; None: never, as far as is known
    replaces = models.ForeignKey("self", on_delete=models.SET_NULL, related_name="replaced_by", null=True, blank=True)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[Key]] = ScopedManager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["created_at", "id"]
        indexes = [
            models.Index(fields=["tenant", "created_at"], name="key_of_tenant"),
            models.Index(models.F("tenant"), REVOKED.asc(), models.F("created_at").desc(), models.F("id"), name="key_by_use"),
        ]

    def __str__(self) -> str:
        return self.role


class CustomRole(models.Model):
    """A role that a tenant defined for itself: a name for a set of actions (`messaging.permissions.roles`)."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="custom_roles")
    name = models.CharField(max_length=NAME_LENGTH_MAX)
    description = models.CharField(max_length=200, blank=True, default="")
    actions = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)

    unscoped = models.Manager()
    objects: ClassVar[ScopedManager[CustomRole]] = ScopedManager()

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "unscoped"
        ordering = ["tenant_id", "name"]
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="one_custom_role_a_name")]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person of a tenant, with a role: a built-in one, or one of the tenant's own. It holds in the whole tenant, in a namespace
    (and ends with it), or for topics whose names match a pattern; until `expires_at`, where that is set."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=NAME_LENGTH_MAX, default="metadata")
    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="memberships", null=True, blank=True)
    topics = models.CharField(max_length=NAME_LENGTH_MAX, blank=True, default="")  # a pattern with *; "": all
    expires_at = models.DateTimeField(null=True, blank=True)  # None: it does not end by itself

    unscoped: ClassVar[models.Manager[Membership]] = _Current()
    objects: ClassVar[ScopedManager[Membership]] = _CurrentScoped()
    ever: ClassVar[models.Manager[Membership]] = models.Manager()  # also those that have ended and are about to be removed

    class Meta:
        default_manager_name = "unscoped"
        base_manager_name = "ever"
        ordering = ["tenant_id", "user_id"]
        constraints = [models.UniqueConstraint(fields=["tenant", "user"], name="one_membership_a_person")]

    @property
    def scope(self) -> Scope:
        return Scope(self.namespace_id or "", self.topics)
