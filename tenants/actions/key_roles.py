"""What the keys of a tenant may do in others, which ends with the tenant."""

from __future__ import annotations

from messaging.permissions.model import tenant_of_key_role
from tenants import feed
from tenants.actions.change import PendingChange
from tenants.models import Grant, Namespace, SubscriptionGrant, Tenant

NOBODY = "service:nobody"  # no token may carry it


def revoke_roles_of(changing: PendingChange, leaving: str) -> None:
    """Grants, subscription roles and admin roles of other tenants that name a role of this tenant's keys."""
    ends = f"@{leaving}"  # narrows down; SQLite's LIKE takes ACME for acme
    affected: dict[str, Namespace] = {}
    for grant in Grant.unscoped.filter(role__endswith=ends).select_related("namespace__tenant"):
        if tenant_of_key_role(grant.role) == leaving:
            namespace = grant.namespace
            affected[namespace.name] = namespace
            lost = {"role": grant.role, "actions": grant.actions}
            changing.audit("permission.revoke", namespace.tenant_id, grant.topic or namespace.name, lost)
            grant.delete()
    for restriction in SubscriptionGrant.unscoped.filter(role__endswith=ends).select_related("namespace__tenant"):
        if tenant_of_key_role(restriction.role) == leaving:
            namespace = restriction.namespace
            _keep_restricted(restriction)
            affected[namespace.name] = namespace
            where = f"{namespace.name}/{restriction.subscription}"
            changing.audit("subscription.unrestrict", namespace.tenant_id, where, {"roles": [restriction.role]})
    for namespace in affected.values():
        changing.publish_namespace(namespace)
    for tenant in Tenant.unscoped.exclude(name=leaving):
        kept = [role for role in tenant.admin_roles if tenant_of_key_role(role) != leaving]
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
