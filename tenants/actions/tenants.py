"""Tenants: creating, changing and deleting them."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings as django_settings

from messaging.errors import Conflict, InvalidValue, NotFound, PreconditionFailed
from messaging.permissions.model import Action, Resource
from messaging.policies.model import Level
from messaging.policies.validation import JsonPolicies, changed
from messaging.protocol.names import entity_name
from tenants import feed
from tenants.access import Actor, require
from tenants.actions import namespaces
from tenants.actions.change import change
from tenants.actions.key_roles import revoke_roles_of
from tenants.actions.lasting import require_as_long
from tenants.actions.namespaces import MASKED
from tenants.actions.protection import check_tenant
from tenants.actions.recycled_ends import finish_or_leave
from tenants.actions.recycling import TENANT, begin_purge, check_not_recycled, hours_of_tenant, new_entry, take
from tenants.models import Key, Namespace, Recycled, Tenant, TokenIssuer

_ROLES_MAX = 1000
_ROLE_LENGTH_MAX = 511


def create_tenant(
    actor: Actor, name: str, admin_roles: Sequence[str] = (), allowed_clusters: Sequence[str] | None = None
) -> Tenant:
    """`allowed_clusters` None: ours. Raises `NotAuthorized`, `InvalidName`, `Conflict`, `PreconditionFailed`, `NotReady`."""
    require(actor, Action.SUPERUSER, Resource())
    entity_name("tenant", name)
    roles, clusters = _roles(admin_roles), _clusters(allowed_clusters)
    if roles:
        require_as_long(actor, Action.SUPERUSER)
    with change(actor) as changing:
        if Tenant.unscoped.filter(name=name).exists():
            raise Conflict(f"tenant {name!r} already exists")
        check_not_recycled(name)
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
            former, tenant.admin_roles = tenant.admin_roles, _roles(admin_roles)
            if not {*tenant.admin_roles} <= {*former}:
                require_as_long(actor, Action.SUPERUSER)
        if allowed_clusters is not None:
            tenant.allowed_clusters = _clusters(allowed_clusters)
        tenant.save()
        changing.audit("tenant.update", name, name, before, feed.tenant_state(tenant))
        changing.publish_tenant(tenant)
    return tenant


def require_for_policies(actor: Actor, name: str, changes: JsonPolicies) -> None:
    """What limits a tenant is for superusers to say; what is masked in it, for its own administrators who see it themselves."""
    if changes.keys() == {MASKED}:
        require(actor, Action.TENANT_ADMIN, Resource(name))
        require(actor, Action.CONSUME, Resource(name))
    else:
        require(actor, Action.SUPERUSER, Resource(name))


def set_tenant_policies(actor: Actor, name: str, changes: JsonPolicies) -> Tenant:
    """Sets the policies named in `changes` for all namespaces of the tenant; a value of None unsets one. Returns when loaded topics
    follow them. Raises what `require_for_policies` and `validation.changed` raise."""
    require_for_policies(actor, name, changes)
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
    """`Conflict` while the tenant has namespaces; with `force` they go with it, with all their topics. It goes to the recycle bin,
    where a policy says so. Otherwise its keys go with it, and what was granted to their roles, anywhere: a later tenant of this
    name begins with nothing."""
    require(actor, Action.SUPERUSER, Resource(name))
    check_tenant(existing_tenant(name))
    if hours_of_tenant(existing_tenant(name)):
        _recycle(actor, name, force)
        return
    remaining = Namespace.unscoped.filter(tenant=name)
    if force:
        for namespace in list(remaining.values_list("name", flat=True)):
            namespaces.delete_namespace(actor, namespace, force=True, recycle=False)
    with change(actor) as changing:
        tenant = existing_tenant(name)
        check_tenant(tenant)
        _check_empty(name, force=False)
        in_bin = Recycled.unscoped.filter(tenant=name, purging=False)
        for entry in in_bin:  # what it deleted before goes for good
            begin_purge(changing, entry)
        revoke_roles_of(changing, name)
        for key_id in Key.unscoped.filter(tenant=name).values_list("id", flat=True):
            changing.publish_change("key", key_id, None)
        for issuer in TokenIssuer.unscoped.filter(tenant=name).values_list("name", flat=True):
            changing.publish_change("issuer", f"{name}/{issuer}", None)
        before = feed.tenant_state(tenant)
        changing.audit("tenant.delete", name, name, before)
        tenant.delete()
        changing.publish_change("tenant", name, None)
    for entry in Recycled.unscoped.filter(tenant=name, purging=True):
        finish_or_leave(actor, entry)


def _recycle(actor: Actor, name: str, force: bool) -> None:
    """In one transaction, whatever it holds. What its roles may do in other tenants stays: none of them can be used."""
    with change(actor) as changing:
        tenant = existing_tenant(name)
        check_tenant(tenant)
        _check_empty(name, force)
        subjects: list[Namespace | Tenant] = [*Namespace.unscoped.filter(tenant=name), tenant]
        counts = {"namespaces": len(subjects) - 1, "keys": Key.unscoped.filter(tenant=name, revoked_at=None).count()}
        entry = new_entry(actor, TENANT, tenant, hours_of_tenant(tenant), counts)
        after = {"recycle_id": entry.id, "expires_at": entry.expires_at.isoformat()}
        changing.audit("tenant.delete", name, name, feed.tenant_state(tenant), after)
        take(changing, entry, subjects)


def _check_empty(name: str, force: bool) -> None:
    if not force and Namespace.unscoped.filter(tenant=name).exists():
        raise Conflict(f"tenant {name!r} still has namespaces: delete them first, or use force")


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
