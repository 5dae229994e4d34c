"""Tenants: creating, changing and deleting them."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings as django_settings

from messaging.errors import Conflict, InvalidValue, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource, tenant_of_key_role
from messaging.policies.model import Level
from messaging.policies.validation import JsonPolicies, changed
from messaging.protocol.names import entity_name
from tenants import feed
from tenants.access import Actor, require
from tenants.actions import namespaces
from tenants.actions.change import PendingChange, change
from tenants.actions.protection import check_tenant
from tenants.models import Grant, Key, Namespace, SubscriptionGrant, Tenant, TokenIssuer

_ROLES_MAX = 1000
NOBODY = "service:nobody"  # no token may carry it
_ROLE_LENGTH_MAX = 511


def create_tenant(
    actor: Actor, name: str, admin_roles: Sequence[str] = (), allowed_clusters: Sequence[str] | None = None
) -> Tenant:
    """`allowed_clusters` None: ours. Raises `NotAuthorized`, `InvalidName`, `Conflict`, `PreconditionFailed`, `NotReady`."""
    require(actor, Action.SUPERUSER, Resource())
    entity_name("tenant", name)
    roles, clusters = _roles(admin_roles), _clusters(allowed_clusters)
    with change(actor) as changing:
        if Tenant.unscoped.filter(name=name).exists():
            raise Conflict(f"tenant {name!r} already exists")
        tenant = Tenant.unscoped.create(name=name, admin_roles=roles, allowed_clusters=clusters)
        changing.audit("tenant.create", name, name, after=feed.tenant_state(tenant))
        changing.publish_tenant(tenant)
    return tenant


def update_tenant(
    actor: Actor, name: str, admin_roles: Sequence[str] | None = None, allowed_clusters: Sequence[str] | None = None
) -> Tenant:
    """None leaves a value as it is."""
    require(actor, Action.SUPERUSER, Resource(name))
    with change(actor) as changing:
        tenant = existing_tenant(name)
        before = feed.tenant_state(tenant)
        if admin_roles is not None:
            tenant.admin_roles = _roles(admin_roles)
        if allowed_clusters is not None:
            tenant.allowed_clusters = _clusters(allowed_clusters)
        tenant.save()
        changing.audit("tenant.update", name, name, before, feed.tenant_state(tenant))
        changing.publish_tenant(tenant)
    return tenant


def set_tenant_policies(actor: Actor, name: str, changes: JsonPolicies) -> Tenant:
    """Sets the policies named in `changes` for all namespaces of the tenant; a value of None unsets one. Only superusers may: what
    limits a tenant is not for its own administrators. Returns when loaded topics follow them."""
    require(actor, Action.SUPERUSER, Resource(name))
    with change(actor) as changing:
        tenant = existing_tenant(name)
        before = tenant.policies
        tenant.policies = changed(before, changes, Level.TENANT)
        if tenant.policies != before:
            tenant.save()
            changing.audit("tenant.set_policies", name, name, {"policies": before}, {"policies": tenant.policies})
        # Told again even if nothing changed: a repeated call heals a broker that missed the first.
        changing.publish_tenant(tenant)
    return tenant


def delete_tenant(actor: Actor, name: str, force: bool = False) -> None:
    """`Conflict` while the tenant has namespaces; with `force` they go first, with all their topics. Its keys go with it, and what
    was granted to their roles, anywhere: a later tenant of this name begins with nothing."""
    require(actor, Action.SUPERUSER, Resource(name))
    check_tenant(existing_tenant(name))
    remaining = Namespace.unscoped.filter(tenant=name)
    if force:
        for namespace in list(remaining.values_list("name", flat=True)):
            namespaces.delete_namespace(actor, namespace, force=True)
    with change(actor) as changing:
        tenant = existing_tenant(name)
        check_tenant(tenant)
        if remaining.exists():
            raise Conflict(f"tenant {name!r} still has namespaces: delete them first, or use force")
        _revoke_roles(changing, tenant)
        for key_id in Key.unscoped.filter(tenant=name).values_list("id", flat=True):
            changing.publish_change("key", key_id, None)
        for issuer in TokenIssuer.unscoped.filter(tenant=name).values_list("name", flat=True):
            changing.publish_change("issuer", f"{name}/{issuer}", None)
        before = feed.tenant_state(tenant)
        changing.audit("tenant.delete", name, name, before)
        tenant.delete()
        changing.publish_change("tenant", name, None)


def _revoke_roles(changing: PendingChange, leaving: Tenant) -> None:
    """Grants, subscription roles and admin roles of other tenants that name a role of this tenant's keys."""
    ends = f"@{leaving.name}"  # narrows down; SQLite's LIKE takes ACME for acme
    affected: dict[str, Namespace] = {}
    for grant in Grant.unscoped.filter(role__endswith=ends).select_related("namespace__tenant"):
        if tenant_of_key_role(grant.role) == leaving.name:
            namespace = grant.namespace
            affected[namespace.name] = namespace
            lost = {"role": grant.role, "actions": grant.actions}
            changing.audit("permission.revoke", namespace.tenant_id, grant.topic or namespace.name, lost)
            grant.delete()
    for restriction in SubscriptionGrant.unscoped.filter(role__endswith=ends).select_related("namespace__tenant"):
        if tenant_of_key_role(restriction.role) == leaving.name:
            namespace = restriction.namespace
            _keep_restricted(restriction)
            affected[namespace.name] = namespace
            where = f"{namespace.name}/{restriction.subscription}"
            changing.audit("subscription.unrestrict", namespace.tenant_id, where, {"roles": [restriction.role]})
    for namespace in affected.values():
        changing.publish_namespace(namespace)
    for tenant in Tenant.unscoped.exclude(name=leaving.name):
        kept = [role for role in tenant.admin_roles if tenant_of_key_role(role) != leaving.name]
        if kept != tenant.admin_roles:
            before = feed.tenant_state(tenant)
            tenant.admin_roles = kept
            tenant.save()
            changing.audit("tenant.update", tenant.name, tenant.name, before, feed.tenant_state(tenant))
            changing.publish_tenant(tenant)


def _keep_restricted(restriction: SubscriptionGrant) -> None:
    """The last role of a restricted subscription gives way to one that nobody has: without any it is open to all."""
    others = SubscriptionGrant.unscoped.filter(namespace=restriction.namespace, subscription=restriction.subscription)
    if others.exclude(id=restriction.id).exists():
        restriction.delete()
    else:
        restriction.role = NOBODY
        restriction.save()


def existing_tenant(name: str) -> Tenant:
    tenant = Tenant.unscoped.filter(name=name).first()
    if tenant is None:
        raise NotFound(f"tenant {name!r} does not exist")
    return tenant


def _roles(roles: Sequence[str]) -> list[str]:
    for role in roles:
        if not role or len(role) > _ROLE_LENGTH_MAX or not role.isprintable():
            raise InvalidValue(f"role {role[:80]!r} is not valid: use 1 to {_ROLE_LENGTH_MAX} printable characters")
    if len(roles) > _ROLES_MAX:
        raise InvalidValue(f"{len(roles)} admin roles were given; at most {_ROLES_MAX} are allowed: remove some")
    return sorted(set(roles))


def _clusters(clusters: Sequence[str] | None) -> list[str]:
    ours: str = django_settings.MAGNETAR.cluster_name
    if clusters is None:
        return [ours]
    if not clusters:
        raise PreconditionFailed(f"allowedClusters must name at least one cluster: use {ours!r}")
    unknown = sorted(set(clusters) - {ours})
    if unknown:
        raise PreconditionFailed(f"clusters {', '.join(unknown)} do not exist: the only cluster is {ours!r}")
    return sorted(set(clusters))
